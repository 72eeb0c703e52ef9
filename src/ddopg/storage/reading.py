"""A run as an onlooker sees it: everything in the store at one instant, while the run goes on or long after."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ddopg.core.state import State
from ddopg.core.types import Description, Evaluation, Failure
from ddopg.errors import ArtefactError, require
from ddopg.policies import Policy
from ddopg.storage.run_store import RunStore
from ddopg.storage.stored import described, looking

LOGGED = ("steps", "return", "length", "incumbent", "predicted", "lower_bound", "ess")


class Reading(NamedTuple):
    """All of a run, checked."""

    directory: Path
    about: Description
    state: State
    log: list[dict[str, Any]]  # what each `tell` reported
    purposes: list[str]  # of each rollout
    evaluations: list[Evaluation]
    failures: list[Failure]


def read_run(directory: Path) -> Reading:
    """Without going on with it: no lock is taken, nothing is written, a writer is not disturbed."""
    with looking(directory) as connection:
        store = RunStore(directory, None, connection)
        store.description = described(connection)
        state = store.read_state(_stand_in(store.description))
        purposes = connection.execute("SELECT purpose FROM rollout ORDER BY number").fetchall()
        reading = Reading(
            directory,
            store.description,
            state,
            store.log(),
            [purpose for (purpose,) in purposes],
            store.evaluations(),
            store.failures(),
        )
        _check(reading)
        return reading


def _stand_in(about: Description) -> Policy | None:
    """For a policy class of the user's own, of which only the size is known: enough to read, not to act."""
    if not about.own_policy:
        return None
    origin = np.zeros(about.own_policy, np.float32)
    unit = (1.0,) * about.problem.action_size
    return Policy(about.own_policy, lambda key: origin, lambda theta, seen: np.zeros(len(unit)), unit)


def _check(reading: Reading) -> None:
    """The learner needs neither log nor evaluations, so nobody has looked at their types yet."""
    require(
        all(isinstance(row.get(name), int | float) for row in reading.log for name in LOGGED)
        and all(isinstance(value, int | float) for row in reading.evaluations for value in row)
        and all(isinstance(text, str) for text in (*reading.purposes, *(f.reason for f in reading.failures))),
        "the log or the evaluations do not hold what was written there",
        ArtefactError,
    )
