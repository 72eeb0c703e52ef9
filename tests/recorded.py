"""What a run store holds, in a form that can be compared to the last bit; and how to make small runs."""

import dataclasses
import sqlite3
from contextlib import closing
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

import ddopg
from ddopg.core.memory import Memory
from ddopg.core.state import Incumbent, Proposal, State
from ddopg.storage.database import STORE
from ddopg.storage.run_store import RunStore

SIZES = ["--preset", "trajectory", "--search.steps", "5", "--selection.size", "8", "--eval-episodes", "2"]
"""Sizes of small runs of the command line: where they are equal, no program is compiled twice."""

SMALL = [*SIZES, "--eval-points", "4"]
"""Options that make a run of the command line small."""


def quick(name="trajectory", **search):
    """A preset made small."""
    config = ddopg.preset(name)
    selection = dataclasses.replace(config.selection, size=8, keep_last=min(config.selection.keep_last, 8))
    policy = dataclasses.replace(config.policy, hidden=())
    return dataclasses.replace(
        config,
        policy=policy,
        selection=selection,
        critic=dataclasses.replace(config.critic, hidden=(8, 8)),
        search=dataclasses.replace(config.search, **{"steps": 10} | search),
    )


def example_state(**changes):
    """A state of two parameters with everything that can be in one, the same on every machine."""
    params = [np.array([k, -k / 4], np.float32) for k in range(7)]
    pending = (Proposal(5, params[0], 2**31 - 1), Proposal(6, params[1], 2**63, "check"))
    state = State(
        seed=2**80 + 1,
        asked=7,
        pending=pending,
        memory=Memory(),
        centre=params[2],
        ema_params=params[3],
        param_sensitivity=params[4],
        opt_state=(jnp.int32(3), jnp.asarray(params[5]), jnp.asarray(params[6])),  # Adam's
        return_bound=-0.0,
        incumbent=Incumbent(params[2], -np.inf),
        steps=123,
    )
    return state._replace(**changes)


def bits(value):
    """Equal for equal bits, NaN included."""
    if isinstance(value, jax.Array):
        value = np.asarray(jax.random.key_data(value) if is_key(value) else value)
    if isinstance(value, np.ndarray):
        return value.dtype.str, value.shape, value.tobytes()
    return type(value).__name__, repr(value)


def is_key(value):
    return jax.dtypes.issubdtype(value.dtype, jax.dtypes.prng_key)


def contents(state):
    """Every leaf of a state, trajectories included, by its path."""
    found, _ = jax.tree_util.tree_flatten_with_path(state, is_leaf=lambda value: value is None)
    return {jax.tree_util.keystr(path): bits(leaf) for path, leaf in found}


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
