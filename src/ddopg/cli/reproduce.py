"""How to get a run again: the commands to copy."""

from __future__ import annotations

import dataclasses
import shlex
from pathlib import Path
from typing import Any, NamedTuple

from ddopg.cli.options import Train
from ddopg.cli.stored_command import choose_budget, module_options, read_command
from ddopg.config import PRESETS
from ddopg.report.groups import find_differences, find_nearest_preset
from ddopg.storage.reading import Reading

IN_FRONT = ("env", "steps", "episodes", "seed", "preset", "out", "config")


def make_recipe(reading: Reading) -> dict[str, Any]:
    """Say how to get a run again.

    Args:
        reading: the run.

    Returns:
        The text to copy, its kind (shell or Python), a remark, and the command that makes a video.

    Raises:
        ArtefactError: if the stored command cannot be read.
    """
    directory, modules = reading.directory, _module_options(reading)
    video = ["--video", str(directory / "policy.mp4")]
    play = f"ddopg {shlex.join(['play', str(directory), *video, *modules])}"
    if reading.about.command:
        shell = "\n".join(_write_shell(reading))
        return {"kind": "shell", "text": shell, "remark": measure_progress(reading).words, "play": play}
    return {
        "kind": "python",
        "text": _write_python(reading),
        "remark": _explain_python(reading),
        "play": play,
    }


def build_train_arguments(reading: Reading, out: Path) -> list[str]:
    """Build the command line that begins the same run in another directory.

    Args:
        reading: a run that was begun on the command line.
        out: the other directory.

    Returns:
        The words behind `ddopg`.
    """
    told = read_command(reading.about, reading.directory)
    words = ["train", told.env]
    for name in ("steps", "episodes"):
        value = getattr(told, name)
        words += [f"--{name}", str(value)] if value is not None else []
    words += ["--seed", str(reading.state.seed), "--preset", told.preset, "--out", str(out)]
    for field in dataclasses.fields(Train):
        value = getattr(told, field.name)
        if field.name not in IN_FRONT and value != field.default:
            words += format_option(field.name, value)
    for name, (_, value) in find_differences(PRESETS[told.preset], reading.about.config).items():
        words += format_option(name, value)
    return words


def format_option(name: str, value: Any) -> list[str]:
    """Format one setting as the command line takes it.

    Args:
        name: of the setting, such as `search.steps`.
        value: of the setting.

    Returns:
        The option and its values, one word each.

    Example:
        >>> format_option("search.steps", 20)
        ['--search.steps', '20']
        >>> format_option("policy.squash", False)
        ['--policy.no-squash']
    """
    head, _, tail = name.replace("_", "-").rpartition(".")
    prefix = f"--{head}." if head else "--"
    if isinstance(value, bool):
        return [f"{prefix}{'' if value else 'no-'}{tail}"]
    return [prefix + tail, *map(str, value if isinstance(value, tuple) else [value])]


class Progress(NamedTuple):
    """How far a run has come of what it was first told."""

    spent: int
    budget: int
    unit: str  # "steps" or "rollouts"
    slack: int  # units by which a budget may be exceeded: the last episode is played to its end

    @property
    def unfinished(self) -> bool:
        """It was stopped, or it still goes on."""
        return self.spent < self.budget

    @property
    def extended(self) -> bool:
        """It was resumed with a larger budget."""
        return self.spent >= self.budget + self.slack

    @property
    def words(self) -> str:
        """What a reader must know; empty for a run that is simply at its end."""
        if self.unfinished:
            return (
                f"The run is not at its end: {self.spent:,} of {self.budget:,} {self.unit} when this page was made. "
                "It was stopped, or it still goes on."
            )
        if self.extended:
            return f"The run went beyond its first budget of {self.budget:,} {self.unit}; it was given a larger one."
        return ""


def measure_progress(reading: Reading) -> Progress:
    """Measure how far a run has come that was begun on the command line."""
    budget = choose_budget(read_command(reading.about, reading.directory))
    if budget.unit == "episodes":
        return Progress(reading.state.told, budget.total, "rollouts", 1)
    return Progress(reading.state.steps, budget.total, "steps", reading.about.problem.horizon)


def _write_shell(reading: Reading) -> list[str]:
    directory, progress, modules = reading.directory, measure_progress(reading), _module_options(reading)
    again = directory.with_name(f"{directory.name}-again")
    lines = [f"ddopg {shlex.join(build_train_arguments(reading, again))}"]
    if progress.extended:
        rollouts = str(reading.state.told)
        lines.append(f"ddopg {shlex.join(['resume', str(again), '--episodes', rollouts, *modules])}")
    if progress.unfinished:
        lines.append(
            f"ddopg {shlex.join(['resume', str(directory), *modules])}   # goes on with the run itself"
        )
    return [*lines, f"ddopg {shlex.join(['evaluate', str(directory), *modules])}"]


def _module_options(reading: Reading) -> list[str]:
    return module_options(reading.about.environment, reading.about.policy_home)


def _write_python(reading: Reading) -> str:
    about, state = reading.about, reading.state
    preset, changes = find_nearest_preset(about.config)
    parts: dict[str, dict[str, Any]] = {}
    for name, (_, value) in changes.items():
        head, _, tail = name.rpartition(".")
        parts.setdefault(head, {})[tail] = value
    lines = ["from dataclasses import replace", "", "import ddopg", "", f"config = ddopg.preset({preset!r})"]
    for head, values in parts.items():
        given = ", ".join(f"{name}={value!r}" for name, value in values.items())
        inner = f"{head}=replace(config.{head}, {given})" if head else given
        lines.append(f"config = replace(config, {inner})")
    known = f"ddopg.policies.import_policy({about.policy_home!r})" if about.policy_home else "..."
    own = f", policy={known}" if about.own_policy else ""  # the user's class; its code is not stored
    if about.environment is not None:
        lines.append(f"agent = ddopg.DDOPG({about.environment!r}, config=config, seed={state.seed}{own})")
        return "\n".join([*lines, f"agent.learn(total_episodes={state.told})"])
    lines.insert(2, "import gymnasium as gym")
    lines.insert(3, "import numpy as np")
    problem = about.problem
    return "\n".join(
        [
            *lines,
            "agent = ddopg.DDOPG(",
            f"    observation_space=gym.spaces.Box(-np.inf, np.inf, ({problem.observation_size},)),",
            f"    action_space=gym.spaces.Box(np.array({list(problem.low)}), np.array({list(problem.high)})),",
            f"    horizon={problem.horizon}, config=config, seed={state.seed}{own},",
            ")  # then ask() and tell() with your own rollouts",
        ]
    )


def _explain_python(reading: Reading) -> str:
    if reading.about.environment is None:
        return (
            "The rollouts came from outside, by ask and tell. The same answers to the same proposals give the same "
            "run; all of them are in run.sqlite."
        )
    added = f", such as adding {reading.state.added} of the trajectories," if reading.state.added else ""
    return f"The run was begun in Python; what its script did besides{added} is not recorded."
