"""The command line: parsing only. What a command does is in `commands.py`, imported after the options are read,
so that `--help` answers at once."""

from __future__ import annotations

import functools
import operator
import sys
from typing import Annotated, Any

import tyro

from ddopg._version import __version__
from ddopg.cli.options import (
    Add,
    Ask,
    Begin,
    Bench,
    Evaluate,
    Export,
    Figure,
    Play,
    Report,
    Resume,
    Tell,
    Train,
    Tune,
)
from ddopg.config import PRESETS, Config
from ddopg.errors import DDOPGError, require
from ddopg.support import presets

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
        from ddopg.cli import commands

        return getattr(commands, type(command).__name__.lower())(command) or 0
    except DDOPGError as error:
        print(f"ddopg: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt as interruption:
        print("ddopg: interrupted", file=sys.stderr)
        return 143 if type(interruption).__name__ == "Terminated" else 130


Command = (
    Train | Resume | Evaluate | Play | Export | Report | Begin | Ask | Tell | Add | Bench | Tune | Figure
)


def parse(arguments: list[str]) -> Command:
    """The command that the arguments ask for; wrong ones end the program with code 2 and a hint."""
    start = _start(arguments)
    missing, plain = (
        tyro.MISSING,
        (Resume, Evaluate, Play, Export, Report, Ask, Tell, Add, Bench, Tune, Figure),
    )
    begin = Begin(missing, missing, missing, missing, missing, config=start.config)
    commands = [_named(Train, start), _named(Begin, begin), *map(_named, plain)]
    return tyro.cli(
        functools.reduce(operator.or_, commands),
        prog="ddopg",
        description=DESCRIPTION,
        args=arguments or ["--help"],
    )


def _named(command: type, default: Any = None) -> Any:
    """A subcommand by the name of its class."""
    given = {} if default is None else {"default": default}
    return Annotated[command, tyro.conf.subcommand(command.__name__.lower(), prefix_name=False, **given)]


def _start(arguments: list[str]) -> Train:
    """The preset or its file is read before the rest, because the defaults of all other options come from it."""
    name, path = _value_of("--preset", arguments), _value_of("--config", arguments)
    if path is None or arguments[0] != "train":
        return Train(env=tyro.MISSING, config=PRESETS.get(name or "default", Config()))
    file = presets.read(path)
    require(
        name in (None, file.preset),
        f"{path} starts from the preset {file.preset!r}, --preset says {name!r}; leave out --preset",
    )
    return Train(env=tyro.MISSING, preset=file.preset, config=file.config)  # type: ignore[arg-type]


def _value_of(option: str, arguments: list[str]) -> str | None:
    for i, argument in enumerate(arguments):
        if argument == option and i + 1 < len(arguments):
            return arguments[i + 1]
        if argument.startswith(f"{option}="):
            return argument.partition("=")[2]
    return None
