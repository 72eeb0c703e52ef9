"""The command line: `options.py` declares every option, `main.py` parses, one module per family of commands acts.

May import everything else; nothing imports it.
"""
