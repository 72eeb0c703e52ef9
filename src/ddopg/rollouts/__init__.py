"""Playing policies: step by step, as compiled programs, in local processes, on Ray. One wire format.

May import `core`, `envs` and `support`. Nothing here is written to disk.
"""
