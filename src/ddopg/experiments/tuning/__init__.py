"""Tuning with Optuna: ranges of the settings, a study that many processes share, and an honest last comparison.

ranges.py     what may be changed, and between which values
study.py      the study in its storage: who counts, who is dead, who draws what
trials.py     the loop: several seeds per trial, in worker processes
verdict.py    the best setting against the preset on fresh seeds, and the preset file
"""
