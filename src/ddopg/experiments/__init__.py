"""Research on top of the library: benchmarks, the paper's figures, tuning.

May import everything but `report` and `cli`.
"""
