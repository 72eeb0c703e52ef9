"""What a run store holds, in a form that can be compared to the last bit; and how to make small runs."""

import dataclasses
import sqlite3
from contextlib import closing
from pathlib import Path

import numpy as np

import ddopg
from ddopg.storage import leaves
from ddopg.storage.database import STORE
from ddopg.storage.run_store import RunStore

SMALL = ["--search.steps", "5", "--selection.size", "8", "--eval-episodes", "2", "--eval-points", "4"]
"""Options that make a run of the command line small."""


def quick(name="default", **search):
    """A preset made small."""
    config = ddopg.preset(name)
    selection = dataclasses.replace(config.selection, size=8, keep_last=min(config.selection.keep_last, 8))
    policy = dataclasses.replace(config.policy, hidden=())
    return dataclasses.replace(
        config,
        policy=policy,
        selection=selection,
        search=dataclasses.replace(config.search, **{"steps": 10} | search),
    )


def bits(value):
    """Equal for equal bits, NaN included."""
    if isinstance(value, np.ndarray):
        return value.dtype.str, value.shape, value.tobytes()
    return type(value).__name__, repr(value)


def contents(state):
    """Every leaf of a state; a memo is not among them."""
    return {name: bits(leaf) for name, leaf in leaves.flatten(state, frozenset({"memory.pairs"})).items()}


def everything(directory):
    """State, rollouts, log, evaluations and failures of a run."""
    store, state = RunStore.resume(Path(directory))
    with closing(store):
        return {
            "state": contents(state),
            "log": [{k: repr(v) for k, v in row.items()} for row in store.log()],
            "evaluations": store.evaluations(),
            "rollouts": rows(directory, "SELECT * FROM rollout ORDER BY number"),
        }


def rows(directory, query):
    with closing(sqlite3.connect(Path(directory) / STORE)) as connection:
        return connection.execute(query).fetchall()
