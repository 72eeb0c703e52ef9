"""Python's `logging`: the logger "ddopg" gets a line per rollout (INFO) and one per failure (WARNING)."""

from __future__ import annotations

import logging
from typing import Protocol

from ddopg.support.display import Measured, Shown, describe_evaluation, format_with_error

LOGGER = logging.getLogger("ddopg")


class Failed(Protocol):
    """What is logged of a rollout that failed; `Failure` has it."""

    @property
    def proposal(self) -> int: ...  # noqa: D102
    @property
    def steps(self) -> int: ...  # noqa: D102
    @property
    def reason(self) -> str: ...  # noqa: D102


def log_rollout(info: Shown, purpose: str) -> None:
    """Log that a rollout was told.

    Args:
        info: what `tell` reports.
        purpose: what the rollout was for.
    """
    if LOGGER.isEnabledFor(logging.INFO):
        estimate = format_with_error(info.incumbent, info.incumbent_error)
        told = f"rollout {info.rollout:,} ({purpose}): return {info.return_:.6g} in {info.length:,} steps"
        known = f"{info.steps:,} steps in all, estimate of the incumbent {estimate}"
        LOGGER.info("%s; %s%s", told, known, f"; {info.remark}" if info.remark else "")


def log_evaluation(evaluation: Measured) -> None:
    """Log an evaluation of the incumbent on fresh episodes.

    Args:
        evaluation: what was measured.
    """
    LOGGER.info("%s, %d episodes", describe_evaluation(evaluation), evaluation.episodes)


def log_failure(failure: Failed) -> None:
    """Log a rollout that the environment spoilt.

    Args:
        failure: which one, and why.
    """
    LOGGER.warning(
        "ddopg: the rollout of proposal %d failed after %d steps and is not learnt from: %s",
        failure.proposal,
        failure.steps,
        failure.reason,
    )
