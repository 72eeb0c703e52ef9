"""The command line: parsing only. What a command does is in `commands.py`, imported after the options are read,
so that `--help` answers at once."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal

import tyro

from ddopg._version import __version__
from ddopg.config import PRESETS, Config
from ddopg.errors import DDOPGError

PresetName = Literal["default", "paper", "released"]


@dataclass(frozen=True)
class Train:
    """Learn a policy and save it."""

    env: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="ENV")]
    """cartpole, mountaincar, swimmer, or any Gymnasium id with Box spaces."""
    steps: int | None = None
    """Budget in environment steps (10,000 if neither --steps nor --episodes is given)."""
    episodes: int | None = None
    """Budget in rollouts, instead of --steps."""
    seed: int = 0
    """The same seed, options and machine give the same run."""
    preset: PresetName = "default"
    """Where the options below start from."""
    out: Path | None = None
    """Directory for the results; a new one below runs/ if not given."""
    horizon: int | None = None
    """Longest episode; the environment's own time limit if not given."""
    eval_episodes: int = 20
    """Episodes per evaluation of the incumbent. They are extra: nothing is learnt from them."""
    eval_points: int = 25
    """Evaluations during the run, evenly spread over the budget."""
    quiet: bool = False
    """No progress display."""
    config: Annotated[Config, tyro.conf.arg(name="")] = field(default_factory=Config)
    """Everything else that can be chosen."""


@dataclass(frozen=True)
class Evaluate:
    """Measure a saved policy on fresh episodes."""

    source: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="DIR|FILE")]
    """A run directory or a policy file."""
    episodes: int = 100
    """Number of episodes."""
    seed: int = 0
    """Another seed takes other episodes."""
    env: str | None = None
    """Environment, if not the one the policy was learnt on."""
    json: bool = False
    """Print one JSON object instead of a sentence."""


@dataclass(frozen=True)
class Play:
    """Watch a saved policy: in a window, or as a video file."""

    source: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="DIR|FILE")]
    """A run directory or a policy file."""
    video: Path | None = None
    """Write the episode to this .mp4 or .gif file."""
    seed: int = 0
    """Another seed starts elsewhere."""
    env: str | None = None
    """Environment, if not the one the policy was learnt on."""


DESCRIPTION = f"""ddopg {__version__}: data-efficient policy search from few, expensive rollouts."""


def main(arguments: list[str] | None = None) -> int:
    """Run one command; the exit code is 0, or 2 after wrong input, or 130 after an interruption."""
    arguments = sys.argv[1:] if arguments is None else arguments
    if arguments in (["--version"], ["-V"]):
        print(f"ddopg {__version__}")
        return 0
    try:
        command = parse(arguments)
        from ddopg import commands

        getattr(commands, type(command).__name__.lower())(command)
    except DDOPGError as error:
        print(f"ddopg: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("ddopg: interrupted", file=sys.stderr)
        return 130
    return 0


def parse(arguments: list[str]) -> Train | Evaluate | Play:
    """The command that the arguments ask for; wrong ones end the program with code 2 and a hint."""
    start = PRESETS.get(_preset_of(arguments), Config())
    train = Annotated[
        Train, tyro.conf.subcommand("train", default=Train(env=tyro.MISSING, config=start), prefix_name=False)
    ]
    evaluate = Annotated[Evaluate, tyro.conf.subcommand("evaluate", prefix_name=False)]
    play = Annotated[Play, tyro.conf.subcommand("play", prefix_name=False)]
    return tyro.cli(
        train | evaluate | play, prog="ddopg", description=DESCRIPTION, args=arguments or ["--help"]
    )


def _preset_of(arguments: list[str]) -> str:
    """The preset is read before the rest, because the defaults of all other options come from it."""
    for i, argument in enumerate(arguments):
        if argument == "--preset" and i + 1 < len(arguments):
            return arguments[i + 1]
        if argument.startswith("--preset="):
            return argument.partition("=")[2]
    return "default"
