"""The entry point: reads the options, then loads only the module that has the command; `--help` answers at once."""

from __future__ import annotations

import functools
import operator
import sys
from importlib import import_module
from typing import Annotated, Any

import tyro

from ddopg._version import __version__
from ddopg.cli.options import (
    Add,
    Ask,
    Backup,
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
from ddopg.errors import ConfigError, DDOPGError, require
from ddopg.support import presets
from ddopg.support.renamed import RENAMED
from ddopg.support.streams import patient_output

DESCRIPTION = f"""ddopg {__version__}: data-efficient policy search from few, expensive rollouts."""

COMMANDS: dict[type, str] = {
    Train: "train:train",
    Begin: "robot:begin",
    Resume: "train:resume",
    Evaluate: "policy:evaluate",
    Play: "policy:play",
    Export: "policy:export",
    Report: "report:report",
    Backup: "backup:backup",
    Ask: "robot:ask",
    Tell: "robot:tell",
    Add: "robot:add",
    Bench: "bench:bench",
    Tune: "tune:tune",
    Figure: "bench:figure",
}
"""Options of a command → the module of this folder and the function that carry it out, in the order of the help."""

Command = (
    Train
    | Resume
    | Evaluate
    | Play
    | Export
    | Report
    | Backup
    | Begin
    | Ask
    | Tell
    | Add
    | Bench
    | Tune
    | Figure
)


def main(arguments: list[str] | None = None) -> int:
    """Run one command.

    Args:
        arguments: the words after `ddopg`; those of the process if not given.

    Returns:
        The exit code: 0; 1 if a part failed, 2 after wrong input, 130 after Ctrl-C, 143 after SIGTERM. A reader of
        standard output that leaves early is no failure; output that cannot be written for another reason is one.
    """
    with patient_output() as output:
        code = _run_command(sys.argv[1:] if arguments is None else arguments)
        if output is not None:
            output.flush()
        if output is None or output.failure is None or isinstance(output.failure, BrokenPipeError):
            return code
        reason = output.failure.strerror or output.failure
        print(f"ddopg: standard output could not be written: {reason}; all else was done", file=sys.stderr)
        return code or 1


def parse(arguments: list[str]) -> Command:
    """Read the options of a command.

    Args:
        arguments: the words after `ddopg`.

    Returns:
        The command that they ask for.

    Raises:
        ConfigError: for an option that has a new name, or values that are out of range.
        SystemExit: with code 2 and a hint for an option that does not exist; with code 0 after `--help`.
    """
    _refuse_renamed(arguments)
    start = _read_start(arguments)
    missing = tyro.MISSING
    defaults = {
        Train: start,
        Begin: Begin(missing, config=start.config),
    }
    commands = [_name_command(command, defaults.get(command)) for command in COMMANDS]
    return tyro.cli(
        functools.reduce(operator.or_, commands),
        prog="ddopg",
        description=DESCRIPTION,
        args=arguments or ["--help"],
    )


def _run_command(arguments: list[str]) -> int:
    if arguments in (["--version"], ["-V"]):
        print(f"ddopg {__version__}")
        return 0
    try:
        command = parse(arguments)
        module, _, function = COMMANDS[type(command)].partition(":")
        return getattr(import_module(f"ddopg.cli.{module}"), function)(command) or 0
    except DDOPGError as error:
        print(f"ddopg: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt as interruption:
        print("ddopg: interrupted", file=sys.stderr)
        return 143 if type(interruption).__name__ == "Terminated" else 130


def _name_command(command: type, default: Any) -> Any:
    """A subcommand by the name of its class."""
    given = {} if default is None else {"default": default}
    return Annotated[command, tyro.conf.subcommand(command.__name__.lower(), prefix_name=False, **given)]


def _refuse_renamed(arguments: list[str]) -> None:
    """Say the new name of an option that had another one in an earlier version."""
    if arguments[:1] not in (["train"], ["begin"]):
        return  # the other commands have no settings of the method among their options
    for option in (argument.partition("=")[0] for argument in arguments if argument.startswith("--")):
        head, dot, tail = option.removeprefix("--").replace("-", "_").rpartition(".")
        for negation in ("", "no_"):
            new = RENAMED.get(f"{head}{dot}{tail.removeprefix(negation)}")
            if new is not None:
                raise ConfigError(f"{option} is now called {_spell_option(new, tail.startswith('no_'))}")


def _spell_option(name: str, negated: bool) -> str:
    """A setting as the command line spells it; only a switch can be negated."""
    switch = isinstance(operator.attrgetter(name)(Config()), bool)
    head, dot, tail = name.replace("_", "-").rpartition(".")
    return f"--{head}{dot}{'no-' if negated and switch else ''}{tail}"


def _read_start(arguments: list[str]) -> Train:
    """The preset or its file is read before the rest, because the defaults of all other options come from it."""
    name, path = _find_value("--preset", arguments), _find_value("--config", arguments)
    if path is None or arguments[0] != "train":
        return Train(env=tyro.MISSING, config=PRESETS.get(name or "default", Config()))
    file = presets.read(path)
    require(
        name in (None, file.preset),
        f"{path} starts from the preset {file.preset!r}, --preset says {name!r}; leave out --preset",
    )
    return Train(env=tyro.MISSING, preset=file.preset, config=file.config)  # type: ignore[arg-type]


def _find_value(option: str, arguments: list[str]) -> str | None:
    for i, argument in enumerate(arguments):
        if argument == option and i + 1 < len(arguments):
            return arguments[i + 1]
        if argument.startswith(f"{option}="):
            return argument.partition("=")[2]
    return None
