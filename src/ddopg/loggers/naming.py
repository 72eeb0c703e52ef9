"""Which value is logged under which name: those of stable-baselines3 where it has one, `ddopg/…` for the rest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ddopg.core.types import Evaluation
from ddopg.loggers.base import Values

WINDOW = 100  # rollouts behind the means, as in stable-baselines3
OWN = "ddopg/"  # and the name of a column of `progress.csv`
EVALUATED = {
    "mean": "eval/mean_reward",
    "std": "eval/std_reward",
    "worst": "eval/worst_reward",
    "episodes": "eval/episodes",
}
"""Column of `evaluation.csv` → name."""


def collect_values(
    rows: Sequence[Mapping[str, Any]], failures: int, evaluation: Evaluation | None = None
) -> Values:
    """Collect what is logged after a rollout.

    Args:
        rows: Of the log, the newest last; all of them, `WINDOW` at most, count for the means.
        failures: Rollouts that the environment has spoilt so far.
        evaluation: The latest one; it counts if it belongs to the newest row.

    Returns:
        Name → value.
    """
    newest = rows[-1]
    values = {f"{OWN}{name}": value for name, value in newest.items() if name != "steps"}
    values[f"{OWN}failures"] = failures
    values["rollout/ep_rew_mean"] = sum(row["return"] for row in rows) / len(rows)
    values["rollout/ep_len_mean"] = sum(row["length"] for row in rows) / len(rows)
    values["time/episodes"] = newest["rollout"]
    values["time/total_timesteps"] = newest["steps"]
    if evaluation is not None and evaluation.rollout == newest["rollout"]:
        values |= {name: getattr(evaluation, column) for column, name in EVALUATED.items()}
    return values


def measure_speed(steps: int, seconds: float) -> Values:
    """Measure how fast this call of `learn` goes; the only values that a second run of the same does not repeat."""
    return {"time/fps": steps / seconds, "time/time_elapsed": seconds} if seconds > 0 else {}
