"""What each command can be told. Nothing heavy is imported here: `--help` is made from these records."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal

import tyro

from ddopg.config import Config

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


@dataclass(frozen=True)
class Export:
    """Write a saved policy for machines without this library."""

    source: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="DIR|FILE")]
    """A run directory or a policy file."""
    target: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="FILE.onnx")]
    """Where to write. ONNX: observation (batch, O) → action (batch, A), squashed and clipped."""


@dataclass(frozen=True)
class Bench:
    """Compare methods on tasks: every (task, method, seed) is a job, and a finished one is never run again.

    Methods: ddopg, ddopg-paper, ddopg-released; reinforce-, ppo- and trpo-paper or -tuned, sac, sac-tuned; and, in
    parameter space, cmaes, ars, random (linear policies), cmaes-mlp, ars-mlp, random-mlp, ars-v1.
    """

    envs: tuple[str, ...] = ("cartpole",)
    """Tasks: cartpole, mountaincar, swimmer, or any Gymnasium ids with Box spaces."""
    methods: tuple[str, ...] = ("ddopg", "cmaes", "random")
    """What is compared."""
    seeds: tuple[int, ...] = (404, 931, 159, 380, 858, 708, 16, 448, 136, 989)
    """One run each; the paper's ten if not given."""
    steps: int = 10_000
    """Budget of every run, in environment steps."""
    workers: int = 1
    """Local processes, one job and one thread each."""
    ray: str | None = None
    """Address of a Ray cluster that runs the jobs instead, such as auto or HOST:PORT."""
    out: Path = Path("runs/bench")
    """Directory for the records. Stopped at any time, the same command goes on from what is there."""
    eval_episodes: int = 100
    """Fresh episodes per evaluation. They are extra: nothing is learnt from them."""
    quiet: bool = False
    """No progress display."""
