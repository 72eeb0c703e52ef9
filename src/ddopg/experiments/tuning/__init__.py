"""Tuning with Optuna: ranges of the settings, a study that many processes share, a comparison on fresh seeds.

ranges.py     what may be changed, and between which values
storages.py   the database that keeps a study
study.py      the study: which trials count, which processes have died, what a trial tries
trials.py     the loop: several seeds per trial, in worker processes
verdict.py    the best setting against the preset on fresh seeds, and the preset file
"""
