"""The command line: parsing only. What a command does is in `commands.py`, imported after the options are read,
so that `--help` answers at once."""

from __future__ import annotations

import sys
from typing import Annotated

import tyro

from ddopg._version import __version__
from ddopg.config import PRESETS, Config
from ddopg.errors import DDOPGError
from ddopg.options import Bench, Evaluate, Export, Figure, Play, Report, Resume, Train

DESCRIPTION = f"""ddopg {__version__}: data-efficient policy search from few, expensive rollouts."""


def main(arguments: list[str] | None = None) -> int:
    """Run one command and return the exit code.

    0; 1 if a part failed, 2 after wrong input, 130 after Ctrl-C, 143 after SIGTERM.
    """
    arguments = sys.argv[1:] if arguments is None else arguments
    if arguments in (["--version"], ["-V"]):
        print(f"ddopg {__version__}")
        return 0
    try:
        command = parse(arguments)
        from ddopg import commands

        return getattr(commands, type(command).__name__.lower())(command) or 0
    except DDOPGError as error:
        print(f"ddopg: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt as interruption:
        print("ddopg: interrupted", file=sys.stderr)
        return 143 if type(interruption).__name__ == "Terminated" else 130


def parse(arguments: list[str]) -> Train | Resume | Evaluate | Play | Export | Report | Bench | Figure:
    """The command that the arguments ask for; wrong ones end the program with code 2 and a hint."""
    start = PRESETS.get(_preset_of(arguments), Config())
    train = Annotated[
        Train, tyro.conf.subcommand("train", default=Train(env=tyro.MISSING, config=start), prefix_name=False)
    ]
    resume = Annotated[Resume, tyro.conf.subcommand("resume", prefix_name=False)]
    evaluate = Annotated[Evaluate, tyro.conf.subcommand("evaluate", prefix_name=False)]
    play = Annotated[Play, tyro.conf.subcommand("play", prefix_name=False)]
    export = Annotated[Export, tyro.conf.subcommand("export", prefix_name=False)]
    report = Annotated[Report, tyro.conf.subcommand("report", prefix_name=False)]
    bench = Annotated[Bench, tyro.conf.subcommand("bench", prefix_name=False)]
    figure = Annotated[Figure, tyro.conf.subcommand("figure", prefix_name=False)]
    return tyro.cli(
        train | resume | evaluate | play | export | report | bench | figure,
        prog="ddopg",
        description=DESCRIPTION,
        args=arguments or ["--help"],
    )


def _preset_of(arguments: list[str]) -> str:
    """The preset is read before the rest, because the defaults of all other options come from it."""
    for i, argument in enumerate(arguments):
        if argument == "--preset" and i + 1 < len(arguments):
            return arguments[i + 1]
        if argument.startswith("--preset="):
            return argument.partition("=")[2]
    return "default"
