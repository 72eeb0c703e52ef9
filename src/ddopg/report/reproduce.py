"""How to get a run again: the commands, and what is known of the versions."""

from __future__ import annotations

import dataclasses
import platform
import shlex
from importlib.metadata import version
from pathlib import Path
from typing import Any

from ddopg._version import __version__
from ddopg.config import PRESETS
from ddopg.options import Train
from ddopg.readings import Reading
from ddopg.report.groups import differences, origin
from ddopg.training import command_of, step_budget

PACKAGES = ("jax", "jaxlib", "numpy", "gymnasium", "mujoco")
IN_FRONT = ("env", "steps", "episodes", "seed", "preset", "out", "config")


def recipe(reading: Reading) -> dict[str, Any]:
    """A text to copy, what it is written in, and what to know about it."""
    directory = reading.directory
    play = f"ddopg {shlex.join(['play', str(directory), '--video', str(directory / 'policy.mp4')])}"
    if reading.about.command:
        shell = "\n".join(_shell(reading))
        return {"kind": "shell", "text": shell, "remark": progress(reading), "play": play}
    return {"kind": "python", "text": _python(reading), "remark": _begun_in_python(reading), "play": play}


def versions() -> dict[str, str]:
    """Of what made the page; a run records only the version of ddopg."""
    found = {"ddopg": __version__, "python": platform.python_version()}
    return found | {name: version(name) for name in PACKAGES}


def train_arguments(reading: Reading, out: Path) -> list[str]:
    """What `ddopg` must be told to begin the same run in another directory."""
    told = command_of(reading.about, reading.directory)
    words = ["train", told.env]
    for name in ("steps", "episodes"):
        value = getattr(told, name)
        words += [f"--{name}", str(value)] if value is not None else []
    words += ["--seed", str(reading.state.seed), "--preset", told.preset, "--out", str(out)]
    for field in dataclasses.fields(Train):
        value = getattr(told, field.name)
        if field.name not in IN_FRONT and value != field.default:
            words += option(field.name, value)
    for name, (_, value) in differences(PRESETS[told.preset], reading.about.config).items():
        words += option(name, value)
    return words


def option(name: str, value: Any) -> list[str]:
    """One setting as the command line takes it."""
    head, _, tail = name.replace("_", "-").rpartition(".")
    prefix = f"--{head}." if head else "--"
    if isinstance(value, bool):
        return [f"{prefix}{'' if value else 'no-'}{tail}"]
    return [prefix + tail, *map(str, value if isinstance(value, tuple) else [value])]


def progress(reading: Reading) -> str:
    """How far the run has come, in words."""
    told, state = command_of(reading.about, reading.directory), reading.state
    budget, unit = (step_budget(told), "steps") if told.episodes is None else (told.episodes, "rollouts")
    assert budget is not None
    spent = state.steps if unit == "steps" else state.memory.size
    if spent < budget:
        return (
            f"The run is not at its end: {spent:,} of {budget:,} {unit} when this page was made. It was stopped, "
            "or it still goes on."
        )
    if spent >= budget + (reading.about.problem.horizon if unit == "steps" else 1):
        return (
            f"The run went beyond its first budget of {budget:,} {unit}: ddopg resume was given a larger one."
        )
    return ""


def _shell(reading: Reading) -> list[str]:
    directory = reading.directory
    again = directory.with_name(f"{directory.name}-again")
    told, state = command_of(reading.about, directory), reading.state
    lines = [f"ddopg {shlex.join(train_arguments(reading, again))}"]
    spent, budget = (
        (state.steps, step_budget(told)) if told.episodes is None else (state.memory.size, told.episodes)
    )
    if spent >= (budget or 0) + reading.about.problem.horizon:
        lines.append(f"ddopg {shlex.join(['resume', str(again), '--episodes', str(state.memory.size)])}")
    if spent < (budget or 0):
        lines.append(f"ddopg {shlex.join(['resume', str(directory)])}   # goes on with the run itself")
    lines.append(f"ddopg {shlex.join(['evaluate', str(directory)])}")
    return lines


def _python(reading: Reading) -> str:
    about, state = reading.about, reading.state
    preset, changes = origin(about.config)
    parts: dict[str, dict[str, Any]] = {}
    for name, (_, value) in changes.items():
        head, _, tail = name.rpartition(".")
        parts.setdefault(head, {})[tail] = value
    lines = ["from dataclasses import replace", "", "import ddopg", "", f"config = ddopg.preset({preset!r})"]
    for head, values in parts.items():
        given = ", ".join(f"{name}={value!r}" for name, value in values.items())
        inner = f"{head}=replace(config.{head}, {given})" if head else given
        lines.append(f"config = replace(config, {inner})")
    if about.environment is not None:
        lines.append(f"agent = ddopg.DDOPG({about.environment!r}, config=config, seed={state.seed})")
        return "\n".join([*lines, f"agent.learn(total_episodes={state.memory.size})"])
    lines.insert(2, "import gymnasium as gym")
    lines.insert(3, "import numpy as np")
    problem = about.problem
    return "\n".join(
        [
            *lines,
            "agent = ddopg.DDOPG(",
            f"    observation_space=gym.spaces.Box(-np.inf, np.inf, ({problem.observation_size},)),",
            f"    action_space=gym.spaces.Box(np.array({list(problem.low)}), np.array({list(problem.high)})),",
            f"    horizon={problem.horizon}, config=config, seed={state.seed},",
            ")  # then ask() and tell() with your own rollouts",
        ]
    )


def _begun_in_python(reading: Reading) -> str:
    if reading.about.environment is None:
        return (
            "The rollouts came from outside, by ask and tell. The same answers to the same proposals give the same "
            "run; all of them are in run.sqlite."
        )
    return "The run was begun in Python; what its script did besides is not recorded."
