"""One run for the page: its rollouts, evaluations, failures, configuration, video."""

from __future__ import annotations

import base64
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from ddopg.errors import ArtefactError
from ddopg.report.controller import describe_controller
from ddopg.report.groups import find_nearest_preset, name_task
from ddopg.report.numbers import round_number, round_numbers, thin_indices
from ddopg.storage.reading import Reading
from ddopg.support.records import to_dict

Recipe = Callable[[Reading], dict[str, Any]]
"""A text to copy, what it is written in, and what to know about it."""

MOST_ROLLOUTS = 2000  # that are drawn
LARGEST_VIDEO = 8 * 2**20  # bytes
BY_PROCESS = "gaussian_process"  # outcome of a turn: the next policy is proposed by a Gaussian process
VIDEOS = {".mp4": "video/mp4", ".webm": "video/webm", ".gif": "image/gif"}


def describe_run(reading: Reading, recipe: Recipe) -> dict[str, Any]:
    """Describe a run for the page: everything but its surrogate.

    Args:
        reading: the run.
        recipe: says how to get the run again.

    Returns:
        Plain values.

    Raises:
        ArtefactError: if a video in the directory of the run cannot be read.
    """
    about, state = reading.about, reading.state
    preset, changes = find_nearest_preset(about.config)
    kept = thin_indices(len(reading.log), MOST_ROLLOUTS)
    return {
        "directory": str(reading.directory),
        "task": name_task(reading),
        "environment": about.environment,
        "seed": state.seed,
        "version": about.version,
        "preset": preset,
        "changes": changes,
        "config": to_dict(about.config),
        "problem": about.problem._asdict()
        | {"low": round_numbers(about.problem.low), "high": round_numbers(about.problem.high)},
        "parameters": len(state.centre),
        "steps": state.steps,
        "rollout_count": state.memory.size,
        "incumbent": round_number(state.incumbent.value),
        "by_process": any(row.get("outcome") == BY_PROCESS for row in reading.log),
        "rollouts": _describe_rollouts(reading, kept),
        "controller": describe_controller(reading, kept),
        "evaluations": {
            name: round_numbers(getattr(row, name) for row in reading.evaluations)
            for name in ("steps", "mean", "std", "worst", "episodes")
        },
        "failures": [failure.reason for failure in reading.failures[:5]],
        "failure_count": len(reading.failures),
        "video": find_video(reading.directory),
        "recipe": recipe(reading),
    }


def _describe_rollouts(reading: Reading, kept: Sequence[int]) -> dict[str, Any]:
    rows = [reading.log[i] for i in kept]
    return {
        "number": [i + 1 for i in kept],
        "purpose": [reading.purposes[i] for i in kept],
        **{
            name: round_numbers(row[name] for row in rows)
            for name in ("steps", "return", "length", "incumbent")
        },
        "ess": round_numbers(row["ess"] for row in rows),
    }


def find_video(directory: Path) -> dict[str, Any]:
    """Find the newest video in the directory of a run.

    Args:
        directory: of the run.

    Returns:
        Its name, size and content as a data URI; without the content if it is too large; empty if there is none.

    Raises:
        ArtefactError: if the video cannot be read.
    """
    found = [path for path in directory.iterdir() if path.suffix.lower() in VIDEOS and path.is_file()]
    try:
        found.sort(key=lambda path: (path.stat().st_mtime, path.name))
        if not found:
            return {}
        path = found[-1]
        size, kind = path.stat().st_size, VIDEOS[path.suffix.lower()]
        if size > LARGEST_VIDEO:
            return {"name": path.name, "size": size, "limit": LARGEST_VIDEO}
        content = base64.b64encode(path.read_bytes()).decode()
    except OSError as error:
        raise ArtefactError(f"cannot read a video in {directory}: {error.strerror or error}") from error
    return {"name": path.name, "size": size, "kind": kind, "content": f"data:{kind};base64,{content}"}
