"""Plain helpers that know nothing of learning: records, preset files, whole files, locks, signals, processes.

May import the configuration and errors.
"""
