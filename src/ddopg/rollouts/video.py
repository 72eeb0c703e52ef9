"""Episodes to look at: frames of a policy in its environment, as a video file or in a window."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np

from ddopg.errors import ArtefactError, SpaceError, require
from ddopg.policies import Policy
from ddopg.rollouts.stepping import steps

FRAMES_PER_SECOND = 30


def frames(env: gym.Env, policy: Policy, theta: np.ndarray, seed: int, horizon: int) -> Iterator[np.ndarray]:
    """The pictures of one episode, thinned out to about 30 per second of simulated time."""
    every = max(1, round(float(env.metadata.get("render_fps", FRAMES_PER_SECOND)) / FRAMES_PER_SECOND))
    for number, _ in enumerate(steps(env, policy.at(theta), seed, horizon)):
        if number % every == 0:
            yield _picture(env)
    yield _picture(env)


def write(path: Path, pictures: Iterable[np.ndarray], fps: float) -> Path:
    """An .mp4 (needs the extra `video`) or a .gif."""
    writers = {".mp4": _write_mp4, ".gif": _write_gif}
    require(
        path.suffix in writers,
        f"a video must be called something.mp4 or something.gif, got {path.name!r}",
        ArtefactError,
    )
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        writers[path.suffix](path, pictures, fps)
    except OSError as error:
        raise ArtefactError(f"cannot write {path}: {error.strerror or error}") from error
    return path


def playback_rate(env: gym.Env) -> float:
    """Frames per second after thinning: real time for slow tasks, slow motion where a step is very short."""
    return min(float(env.metadata.get("render_fps", FRAMES_PER_SECOND)), FRAMES_PER_SECOND)


def show(pictures: Iterable[np.ndarray], fps: float) -> None:
    """Play in a window; needs a display."""
    import matplotlib.pyplot as plt

    require(
        plt.get_backend().lower() != "agg",
        "there is no display to open a window on; write a video instead: ddopg play ... --video FILE.mp4",
        SpaceError,
    )
    image = None
    for picture in pictures:
        if image is None:
            image = plt.imshow(picture)
            plt.axis("off")
        image.set_data(picture)
        plt.pause(1 / fps)


def render_without_a_display() -> None:
    """Let MuJoCo draw off screen where there is no display; call it before MuJoCo is imported."""
    if sys.platform == "linux" and not (os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")):
        os.environ.setdefault("MUJOCO_GL", "egl")


def _picture(env: gym.Env) -> np.ndarray:
    try:
        picture: Any = env.render()
    except Exception as error:
        raise SpaceError(
            f"the environment cannot draw itself here: {error}; install what it asks for, or try another MUJOCO_GL"
        ) from error
    require(
        isinstance(picture, np.ndarray),
        f"the environment's render() must return an image array, got {type(picture).__name__}; "
        "it does not support render_mode='rgb_array'",
        SpaceError,
    )
    return picture


def _write_mp4(path: Path, pictures: Iterable[np.ndarray], fps: float) -> None:
    try:
        import imageio.v2 as imageio
    except ImportError as error:
        raise ArtefactError(
            'writing .mp4 needs imageio: pip install "ddopg[video]"; or write a .gif, which needs nothing'
        ) from error
    writer: Any
    with imageio.get_writer(path, fps=fps, macro_block_size=2) as writer:
        for picture in pictures:
            writer.append_data(picture)


def _write_gif(path: Path, pictures: Iterable[np.ndarray], fps: float) -> None:
    from PIL import Image

    first, *rest = [Image.fromarray(picture) for picture in pictures]
    first.save(path, save_all=True, append_images=rest, duration=1000 / fps, loop=0)
