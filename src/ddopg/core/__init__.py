"""The method: arrays in, arrays out. Algorithm 1 of the paper is `algorithm.py`, its surrogate `surrogate.py`.

May import the configuration, errors, policies and `support`. Never environments, files, processes or clocks.
"""
