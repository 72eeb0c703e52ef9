"""What the command line was told when a run began: written into its store, read again by `resume` and `report`."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import NamedTuple

from ddopg.cli.options import Train
from ddopg.core.types import Description
from ddopg.errors import ArtefactError, ConfigError
from ddopg.rollouts.budget import check_budget
from ddopg.storage.reading import read_description
from ddopg.support.records import from_dict

DEFAULT_STEPS = 10_000
STORED_ELSEWHERE = ("config", "config_file", "out")
OF_THIS_CALL = ("quiet", "ray")


class RunBudget(NamedTuple):
    """How much a run may spend in all, counted from its beginning."""

    total: int
    unit: str  # "steps" or "episodes"


def make_budget(steps: int | None, episodes: int | None) -> RunBudget:
    """Check a budget of which one unit is given.

    Args:
        steps: environment steps.
        episodes: rollouts.

    Returns:
        The one that is given.

    Raises:
        ConfigError: where none or both are given, or fewer than 1.
    """
    return RunBudget(check_budget(steps, episodes), "episodes" if steps is None else "steps")


def choose_budget(command: Train) -> RunBudget:
    """The budget of a command, or the usual one where none is given in any unit."""
    usual = command.steps is None and command.episodes is None
    return make_budget(DEFAULT_STEPS if usual else command.steps, command.episodes)


def command_to_store(command: Train) -> dict[str, object]:
    """What `resume` must know again; the configuration and the place have their own."""
    left_out = (*STORED_ELSEWHERE, *OF_THIS_CALL)
    return {f.name: getattr(command, f.name) for f in dataclasses.fields(command) if f.name not in left_out}


def stored_command(directory: Path) -> Train:
    """Read what the command line was told when the run began; a run begun in Python gets the usual evaluations.

    Args:
        directory: a run.

    Returns:
        The command as it was stored.

    Raises:
        ArtefactError: where there is no run, or its command is not one of this version.
    """
    return read_command(read_description(directory), directory)


def module_options(environment: str | None, policy: str) -> list[str]:
    """The options that a command about a run needs, because a file may not say which module to import.

    Args:
        environment: how the run names its environment, if it has one.
        policy: `module:name` of its policy class, or nothing.

    Returns:
        Words of a command line; none where no module of the user's is needed.

    Example:
        >>> module_options("tank:Tank-v0", "tank:level_controller")
        ['--env', 'tank:Tank-v0', '--policy', 'tank:level_controller']
        >>> module_options("cartpole", "")
        []
    """
    named = {"--env": environment or "", "--policy": policy}
    return [word for option, name in named.items() if ":" in name for word in (option, name)]


def read_command(about: Description, directory: Path) -> Train:
    """The same from a description that was read before."""
    try:
        return from_dict({"env": about.environment or "", **about.command}, Train)
    except ConfigError as error:
        raise ArtefactError(f"{directory}: the stored command is not one of this version: {error}") from error
