"""What a data set says of itself, checked before Minari believes it: types, names, and sizes that cost memory."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from gymnasium.spaces.utils import flatdim

from ddopg.errors import ArtefactError, DDOPGError, SpaceError, TrajectoryError, require
from ddopg.minari.library import KEY

METADATA = "metadata.json"
LARGEST_METADATA = 2**24  # bytes
SMALLEST_EPISODE = 64  # bytes on the disk, at the very least
LARGEST_OBSERVATION = 2**20  # numbers
PADDING = 2**28  # bytes that trajectories of a small data set may have together
GROWTH = 100  # and those of a large one, per byte on the disk
NUMBERS = re.compile(r"(u?int|float)(8|16|32|64)|bool")


@contextmanager
def explain_errors(name: str) -> Iterator[None]:
    """Make one error of ours of whatever Minari, Gymnasium and HDF5 raise on a data set that is damaged or forged.

    Raises:
        ArtefactError: for every error that is not ours already.
    """
    try:
        yield
    except DDOPGError:
        raise
    except Exception as error:
        raise ArtefactError(
            make_printable(
                f"the data set {name} cannot be read: {type(error).__name__}: {error}; get it anew from where it "
                "was made"
            )
        ) from error


def make_printable(text: str) -> str:
    """At most a few lines that every terminal can show."""
    shown = text.encode("utf-8", "backslashreplace").decode()
    return shown if len(shown) <= 1000 else f"{shown[:1000]} …"


def check_metadata(name: str, place: Path) -> None:
    """Refuse metadata that Minari would stumble over, or that would make it allocate more than there is.

    Args:
        name: of the data set.
        place: the directory of its data.

    Raises:
        ArtefactError: where a value is missing, of the wrong type or out of range.
        SpaceError: where a space is none, or too large.
    """
    path = place / METADATA
    size = path.stat().st_size
    require(
        path.is_file() and size <= LARGEST_METADATA,
        f"{path} has {size} bytes, metadata are a file of at most {LARGEST_METADATA}",
        ArtefactError,
    )
    about = json.loads(path.read_bytes())
    _require(name, isinstance(about, dict), "its metadata must be a table", about)
    # Without its spaces, Minari would make the environment that the file names, from whatever module it names.
    require(
        {"observation_space", "action_space"} <= about.keys(),
        f"the data set {name} does not say its spaces, and a file may not say which environment to make; if you "
        "trust it, load it yourself with minari.load_dataset and pass what you get",
        ArtefactError,
    )
    _require(name, about.get("dataset_id") == name, f"dataset_id must be {name}", about.get("dataset_id"))
    most = sum(file.stat().st_size for file in place.rglob("*") if file.is_file()) // SMALLEST_EPISODE
    count, steps = about.get("total_episodes"), about.get("total_steps")
    _require(name, is_count(count) and count <= most, f"total_episodes must be within 0 and {most}", count)
    _require(name, is_count(steps), "total_steps must be a whole number", steps)
    for part in ("observation_space", "action_space"):
        text = about[part]
        _require(name, isinstance(text, str), f"{part} must be text", text, SpaceError)
        _check_space(name, json.loads(text), len(text))


def is_count(value: Any) -> bool:
    """Whether a value of a file is a whole number that counts something; true and false are none."""
    return type(value) is int and value >= 0


def require_small(space: Any) -> None:
    """Refuse a space whose vectors are too long.

    Raises:
        SpaceError: with the number of its components.
    """
    require(
        flatdim(space) <= LARGEST_OBSERVATION,
        f"an observation has {flatdim(space)} numbers, at most {LARGEST_OBSERVATION} are read",
        SpaceError,
    )


def find_horizon(dataset: Any) -> int:
    """The longest that an episode may be, as far as the data set says it and its size makes it likely.

    Raises:
        ArtefactError: where the metadata are not what we write.
        TrajectoryError: where the horizon is missing, no number, or would cost memory out of all proportion.
    """
    own: Any = dataset.storage.metadata.get(KEY, {})
    for part in ("problem", "horizon"):
        _require(dataset.id, isinstance(own, dict), f"{KEY} must be a table of tables", own)
        own = own.get(part, {} if part == "problem" else None)
    limit: Any = own if own is not None else getattr(dataset.env_spec, "max_episode_steps", None)
    advice = "give the horizon of your learner: trajectories(dataset, horizon=200)"
    require(
        limit is not None,
        f"the data set {dataset.id} does not say how long an episode may be; {advice}",
        TrajectoryError,
    )
    likely = type(limit) is int and 0 < limit < 2**31
    _require(dataset.id, likely, "the horizon must be within 1 and 2³¹", limit, TrajectoryError)
    numbers = flatdim(dataset.observation_space) + flatdim(dataset.action_space) + 3
    needed = 4 * numbers * limit * len(dataset.episode_indices)
    stored = sum(file.stat().st_size for file in Path(dataset.storage.data_path).rglob("*") if file.is_file())
    require(
        needed <= max(PADDING, GROWTH * stored),
        f"the data set {dataset.id} says that an episode has up to {limit} steps; its "
        f"{stored} bytes would become {needed:.1e}, which nobody believes; {advice}",
        TrajectoryError,
    )
    return int(limit)


def _require(
    name: str, condition: bool, expected: str, got: Any, error: type[DDOPGError] = ArtefactError
) -> None:
    if not condition:
        shown = ascii(got)
        shown = shown if len(shown) <= 200 else f"{shown[:200]} …"
        raise error(f"the data set {name}: {expected}, got {shown}; get it anew from where it was made")


def _check_space(name: str, space: Any, most: int) -> None:
    """Refuse a space whose bounds are not written down in the file, or whose numbers are of another kind."""
    _require(name, isinstance(space, dict), "a space must be a table", space, SpaceError)
    parts = space.get("subspaces", [])
    _require(name, isinstance(parts, dict | list), "subspaces must be a table or a list", parts, SpaceError)
    for part in parts.values() if isinstance(parts, dict) else parts:
        _check_space(name, part, most)
    kind, shape = space.get("dtype", "float32"), space.get("shape", [])
    _require(
        name,
        isinstance(kind, str) and NUMBERS.fullmatch(kind) is not None,
        "the type of a space must be one of numbers",
        kind,
        SpaceError,
    )
    _require(
        name,
        isinstance(shape, list) and all(map(is_count, shape)) and math.prod(shape) <= most,
        "the shape of a space must be a list of sizes, with a bound for each number",
        shape,
        SpaceError,
    )
