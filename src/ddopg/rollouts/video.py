"""Episodes to look at: frames of a policy in its environment, as a video file or in a window."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np

from ddopg.errors import ArtefactError, DisplayError, MissingPackageError, require
from ddopg.policies import Policy
from ddopg.rollouts.stepping import iterate_steps
from ddopg.support.files import replace_when_done

FRAMES_PER_SECOND = 30


def draw_episode(
    env: gym.Env, policy: Policy, theta: np.ndarray, seed: int, horizon: int
) -> Iterator[np.ndarray]:
    """Play one episode and draw it, thinned out to about 30 pictures per second of simulated time.

    Args:
        env: an environment made with render_mode="rgb_array".
        policy: who plays.
        theta: its parameters, (D,).
        seed: what the environment is reset with.
        horizon: steps that are played at most.

    Yields:
        Pictures, (height, width, 3).

    Raises:
        DisplayError: where the environment cannot draw itself.
    """
    every = max(1, round(float(env.metadata.get("render_fps", FRAMES_PER_SECOND)) / FRAMES_PER_SECOND))
    for number, _ in enumerate(iterate_steps(env, policy.at(theta), seed, horizon)):
        if number % every == 0:
            yield _draw(env)
    yield _draw(env)


def write(path: Path, pictures: Iterable[np.ndarray], fps: float) -> Path:
    """Write a video file, whole or not at all.

    Args:
        path: something.mp4, which needs the extra `video`, or something.gif.
        pictures: one after the other.
        fps: how many of them are shown in a second.

    Returns:
        The same path.

    Raises:
        ArtefactError: for another ending, or where nothing can be written.
        MissingPackageError: for an .mp4 without imageio.
    """
    writers = {".mp4": _write_mp4, ".gif": _write_gif}
    require(
        path.suffix in writers,
        f"a video must be called something.mp4 or something.gif, got {path.name!r}",
        ArtefactError,
    )
    with replace_when_done(path) as draft:
        writers[path.suffix](draft, pictures, fps)
    return path


def choose_frame_rate(env: gym.Env) -> float:
    """Pictures per second after thinning: real time for slow tasks, slow motion where a step is very short."""
    return min(float(env.metadata.get("render_fps", FRAMES_PER_SECOND)), FRAMES_PER_SECOND)


def show(pictures: Iterable[np.ndarray], fps: float) -> None:
    """Play in a window.

    Args:
        pictures: one after the other.
        fps: how many of them are shown in a second.

    Raises:
        DisplayError: where there is no display.
    """
    import matplotlib.pyplot as plt

    require(
        plt.get_backend().lower() != "agg",
        "there is no display to open a window on; write a video instead: ddopg play ... --video FILE.mp4",
        DisplayError,
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


def _draw(env: gym.Env) -> np.ndarray:
    try:
        picture: Any = env.render()
    except Exception as error:
        raise DisplayError(
            f"the environment cannot draw itself here: {error}; install what it asks for, or try another MUJOCO_GL"
        ) from error
    require(
        isinstance(picture, np.ndarray),
        f"the environment's render() must return an image array, got {type(picture).__name__}; "
        "it does not support render_mode='rgb_array'",
        DisplayError,
    )
    return picture


def _write_mp4(path: Path, pictures: Iterable[np.ndarray], fps: float) -> None:
    try:
        import imageio.v2 as imageio
    except ImportError as error:
        what = "a .gif needs no other package, an .mp4 needs the package imageio"
        raise MissingPackageError(what, "video") from error
    writer: Any
    film = path.with_name(f"{path.name}.mp4")  # it knows the format by the ending
    try:
        # Its own context leaves ffmpeg running after an error, which then writes what was removed.
        with closing(imageio.get_writer(film, fps=fps, macro_block_size=2)) as writer:
            for picture in pictures:
                writer.append_data(picture)
        film.replace(path)
    finally:
        film.unlink(missing_ok=True)


def _write_gif(path: Path, pictures: Iterable[np.ndarray], fps: float) -> None:
    from PIL import Image

    first, *rest = [Image.fromarray(picture) for picture in pictures]
    first.save(path, format="GIF", save_all=True, append_images=rest, duration=1000 / fps, loop=0)
