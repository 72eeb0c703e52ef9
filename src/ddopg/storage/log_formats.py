"""Logs of rollouts in three formats, read as if somebody had made them to do harm.

A reader takes an open file and gives a `Log`, or raises. Sizes are compared with the problem before anything is read:
a log has at most `horizon` rows, and what is not asked for stays on the disk.
"""

from __future__ import annotations

import csv
import io
import json
import zipfile
from collections import Counter
from collections.abc import Sequence
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from ddopg.core.problem import Problem
from ddopg.errors import TrajectoryError, require, require_given

ARRAYS = ("observations", "actions", "rewards")
TEXT_FOR_EXTRAS = 2**22  # bytes that a log in CSV or JSON may have whatever the problem: names, more columns
TEXT_PER_NUMBER = 256  # and for each number of the problem
LARGEST_DIRECTORY = 2**20  # bytes of the list of contents of an .npz file
LARGEST_HEADER = 2**14  # bytes before the numbers of an array in an .npz file
LARGEST_NUMBER = 16  # bytes, a float128
END_OF_ZIP, END_OF_ZIP64 = b"PK\x05\x06", b"PK\x06\x07"
LENGTH_OF_END = 22  # bytes


class Log(NamedTuple):
    """A rollout as it came in a file."""

    observations: np.ndarray  # (T, O)
    actions: np.ndarray  # (T, A)
    rewards: np.ndarray  # (T,)
    terminated: bool
    proposal: int | None  # whose rollout it is, if the file says so


def list_columns(problem: Problem) -> list[str]:
    """The header of a log in CSV; `terminated` may follow."""
    observations = [f"observation_{i}" for i in range(problem.observation_size)]
    return [*observations, *(f"action_{i}" for i in range(problem.action_size)), "reward"]


def find_largest_text(problem: Problem) -> int:
    """The bytes that a log in CSV or JSON has at most."""
    numbers = problem.horizon * (problem.observation_size + problem.action_size + 2)
    return TEXT_FOR_EXTRAS + TEXT_PER_NUMBER * numbers


def read_csv(file: BinaryIO, problem: Problem) -> Log:
    """A header, then one row per step; columns that the problem does not have are not looked at."""
    with io.TextIOWrapper(file, encoding="utf-8-sig", newline="") as text:
        reader = csv.reader(text, skipinitialspace=True, strict=True)
        found = next(reader, [])
        places, end = _find_columns(found, list_columns(problem))
        rows: list[list[float]] = []
        ended: list[bool] = []
        for cells in filter(None, reader):
            line = reader.line_num
            _require_steps(len(rows) + 1, problem)
            _require(
                len(cells) == len(found),
                f"line {line} has {len(cells)} cells, the header has {len(found)}; write decimal points, "
                "no decimal commas",
            )
            rows.append([_parse_number(cells[i], found[i], line) for i in places])
            mark = "" if end is None else cells[end].strip()
            ended.append(_to_flag(_parse_number(mark or "0", "terminated", line)))
    _require_steps(len(rows), problem)
    table, split = np.array(rows, np.float64), problem.observation_size
    return Log(table[:, :split], table[:, split:-1], table[:, -1], _find_end(ended, len(rows)), None)


def read_json(file: BinaryIO, problem: Problem) -> Log:
    """One object; names that the protocol does not have are not looked at."""
    text = file.read(find_largest_text(problem)).decode("utf-8")
    table = json.loads(text, parse_int=_parse_whole_number, object_pairs_hook=_make_object)
    _require(type(table) is dict, f"it must hold one JSON object, got {_show(table)}")
    _require_arrays(table)
    ended, number = table.get("terminated", False), table.get("proposal")
    ended = ended if type(ended) is list else [ended]
    _require(
        all(type(one) in (bool, int) for one in ended),
        f"terminated must be true or false (or 1 or 0), got {_show(table.get('terminated'))}",
    )
    _require(
        number is None or type(number) is int,
        f"proposal must be a whole number, got {_show(number)}",
    )
    return Log(
        _to_rows("observations", table["observations"], problem.observation_size, problem),
        _to_rows("actions", table["actions"], problem.action_size, problem),
        rewards := _to_numbers("rewards", table["rewards"], problem.horizon),
        _find_end([_to_flag(one) for one in ended[: problem.horizon + 1]], len(rewards)),
        number,
    )


def read_npz(file: BinaryIO, problem: Problem) -> Log:
    """Only the arrays of the protocol are read, each after its header was compared with the problem."""
    _require_small_directory(file)
    with zipfile.ZipFile(file) as archive:
        members: dict[str, zipfile.ZipInfo] = {}
        for info in archive.infolist():
            name = info.filename.removesuffix(".npy")
            _require(name not in members, f"it holds {_show(name)} more than once; write it once")
            members[name] = info
        _require_arrays(members)
        steps = problem.horizon
        ended = _read_array(archive, members.get("terminated"), (steps,), problem)
        number = _read_array(archive, members.get("proposal"), (1,), problem)
        observations, actions, rewards = (
            require_given(_read_array(archive, members[name], shape, problem), name, TrajectoryError)
            for name, shape in zip(
                ARRAYS,
                ((steps, problem.observation_size), (steps, problem.action_size), (steps,)),
                strict=True,
            )
        )
    _require(
        number is None or (number.size == 1 and number.dtype.kind in "iu"),
        f"proposal must be a whole number, got {_show(number)}",
    )
    flags = [False] if ended is None else [_to_flag(one) for one in ended.ravel().tolist()]
    proposal = None if number is None else int(number.item())
    return Log(observations, actions, rewards, _find_end(flags, len(rewards)), proposal)


def _require(condition: bool, message: str) -> None:
    require(condition, message, TrajectoryError)


def _require_steps(steps: int, problem: Problem) -> None:
    _require(
        0 < steps <= problem.horizon,
        f"a trajectory must have between 1 and {problem.horizon} steps (the horizon), got {steps}"
        f"{' or more' if steps else ''}; cut it, or make the learner with a longer horizon",
    )


def _require_arrays(table: dict[str, Any]) -> None:
    missing = [name for name in ARRAYS if name not in table]
    _require(
        not missing,
        f"it holds {_show(sorted(table))}, missing are {missing}; expected {list(ARRAYS)} and perhaps terminated",
    )


def _show(value: Any) -> str:
    """What came, in a few printable characters."""
    shown = ascii(value)
    return shown if len(shown) <= 200 else f"{shown[:200]} …"


def _find_columns(found: list[str], expected: list[str]) -> tuple[list[int], int | None]:
    """Where the expected columns of a table are, and `terminated` if it is there."""
    missing = [name for name in expected if name not in found]
    _require(
        not missing,
        f"it has the columns {_show(found)}, missing are {missing}; expected {expected} and perhaps terminated",
    )
    twice = [name for name, count in Counter(found).items() if name and count > 1]
    _require(not twice, f"the columns {_show(twice)} are there more than once; remove all but one of each")
    end = found.index("terminated") if "terminated" in found else None
    return [found.index(name) for name in expected], end


def _to_flag(value: float) -> bool:
    _require(value in (0, 1), f"terminated must be 0 or 1, got {_show(value)}")
    return bool(value)


def _find_end(ended: Sequence[bool], steps: int) -> bool:
    """Whether the task ended the episode: one flag for all of it, or one per step."""
    _require(
        len(ended) in (1, steps),
        f"terminated must be one value or one per step, got {len(ended)} for {steps} steps",
    )
    _require(not any(ended[:-1]), "it goes on after a step with terminated = 1 (true)")
    return ended[-1]


def _parse_number(cell: str, column: str, line: int) -> float:
    """A number as everybody writes it: Python alone would take 1_0 for ten, and digits of all scripts."""
    try:
        require(cell.isascii() and "_" not in cell, "digits, a point and an exponent", TrajectoryError)
        return float(cell)
    except ValueError as error:
        raise TrajectoryError(
            f"{column} must be a number, got {_show(cell)} in line {line}; write 1.5 or 1e-3"
        ) from error


def _parse_whole_number(digits: str) -> int | float:
    """Infinity stands for what no float can hold; it is refused with its place."""
    return int(digits) if len(digits) < 20 else float(digits)


def _make_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    table = dict(pairs)
    _require(len(table) == len(pairs), f"a name is there more than once among {_show([n for n, _ in pairs])}")
    return table


def _to_rows(name: str, values: Any, width: int, problem: Problem) -> np.ndarray:
    """(T, width)"""
    _require(type(values) is list, f"{name} must be a list of steps, got {_show(values)}")
    _require_steps(len(values), problem)
    rows = [_to_numbers(f"{name} at step {step}", row, width) for step, row in enumerate(values)]
    for step, row in enumerate(rows):
        _require(
            len(row) == width, f"{name} must have {width} numbers per step, got {len(row)} at step {step}"
        )
    return np.stack(rows)


def _to_numbers(name: str, values: Any, most: int) -> np.ndarray:
    _require(type(values) is list, f"{name} must be a list of numbers, got {_show(values)}")
    _require(len(values) <= most, f"{name} must be at most {most} numbers, got {len(values)}")
    for value in values:
        _require(type(value) in (int, float), f"{name} must be numbers, got {_show(value)}")
    return np.array(values, np.float64)


def _require_small_directory(file: BinaryIO) -> None:
    """Look at the list of contents before Python keeps all of it in memory."""
    file.seek(0, io.SEEK_END)
    size = file.tell()
    file.seek(max(0, size - LENGTH_OF_END - 20))
    tail = file.read()
    before, end = tail[:-LENGTH_OF_END], tail[-LENGTH_OF_END:]
    _require(
        end[:4] == END_OF_ZIP and end[-2:] == b"\0\0" and not before.startswith(END_OF_ZIP64),
        "it does not end as an .npz file does; write it with numpy.savez, and copy it whole",
    )
    length = int.from_bytes(end[12:16], "little")
    _require(length <= LARGEST_DIRECTORY, f"its list of contents has {length} bytes; leave out other arrays")
    file.seek(0)


def _read_array(
    archive: zipfile.ZipFile, info: zipfile.ZipInfo | None, most: tuple[int, ...], problem: Problem
) -> np.ndarray | None:
    """An array of numbers, of at most these rows and exactly these columns; None where there is none."""
    if info is None:
        return None
    limit = LARGEST_HEADER + LARGEST_NUMBER * int(np.prod(most, dtype=object))
    _require(
        info.file_size <= limit,
        f"{_show(info.filename)} has {info.file_size} bytes, {most} numbers have at most {limit}; the log has "
        f"between 1 and {problem.horizon} steps",
    )
    _require(
        info.compress_type in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED) and not info.flag_bits & 1,
        f"{_show(info.filename)} is encrypted or compressed in another way than NumPy does it; use numpy.savez",
    )
    with archive.open(info) as member:
        content = io.BytesIO(member.read(limit + 1))
    name = info.filename.removesuffix(".npy")
    shape = _read_shape(name, content)
    scalar = most if len(most) == 2 or name == "rewards" else ()
    _require(
        len(shape) in (len(most), len(scalar)) and shape[1:] == most[1:],
        f"{name} must have the shape (steps{''.join(f', {n}' for n in most[1:])}), got {_show(shape)}",
    )
    if shape:
        _require_steps(shape[0], problem)
    content.seek(0)
    return np.lib.format.read_array(content, allow_pickle=False)


def _read_shape(name: str, content: io.BytesIO) -> tuple[int, ...]:
    """What an array of real numbers says of its shape, which must be what is there."""
    version = np.lib.format.read_magic(content)
    read = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
    _require(version in read, f"{name} is of version {version} of the .npy format; write it with numpy.savez")
    shape, _, dtype = read[version](content)
    _require(
        dtype.kind in "biuf",
        f"{name} must be real numbers, got {_show(str(dtype))} (objects are never read: allow_pickle=False)",
    )
    _require(
        all(type(n) is int and n >= 0 for n in shape)
        and int(np.prod(shape, dtype=object)) * dtype.itemsize == len(content.getbuffer()) - content.tell(),
        f"{name} of shape {_show(shape)} does not have the bytes that it needs; write it again",
    )
    return tuple(shape)
