"""What each command can be told. Nothing heavy is imported here: `--help` is made from these records."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal

import tyro

from ddopg.config import Config

PresetName = Literal["default", "paper", "released"]
FigureName = Literal[
    "surrogate", "benchmark", "ablation-history", "ablation-lengthscale", "ablation-temperature"
]


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
    retries: int = 2
    """How often a rollout that the environment spoils is tried again before the run stops, to be resumed."""
    time_limit: float | None = None
    """Seconds after which a rollout that is not done counts as spoilt."""
    isolate: bool = False
    """Run the environment in a process of its own, which may hang in compiled code or die."""
    check: bool = True
    """Look at the environment with Gymnasium's checker first."""
    quiet: bool = False
    """No progress display."""
    config: Annotated[Config, tyro.conf.arg(name="")] = field(default_factory=Config)
    """Everything else that can be chosen."""


@dataclass(frozen=True)
class Resume:
    """Go on with a run exactly where it stopped."""

    directory: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="DIR")]
    """The directory of the run."""
    steps: int | None = None
    """A new budget in environment steps, counted from the beginning of the run; the old one if not given."""
    episodes: int | None = None
    """The same in rollouts."""
    env: str | None = None
    """The environment, where it lives in a module of yours: a file may not say which module to import."""
    quiet: bool = False
    """No progress display."""


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
class Begin:
    """Begin a run with a machine that speaks by files: it reads policies and writes logs."""

    directory: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="DIR")]
    """A new directory for the run."""
    observations: int
    """How many numbers an observation has."""
    low: tuple[float, ...]
    """The smallest value of each action."""
    high: tuple[float, ...]
    """The largest value of each action."""
    horizon: int
    """Steps that a rollout has at most."""
    seed: int = 0
    """The same seed and logs give the same proposals."""
    preset: PresetName = "default"
    """Where the options below start from."""
    config: Annotated[Config, tyro.conf.arg(name="")] = field(default_factory=Config)
    """Everything else that can be chosen."""


@dataclass(frozen=True)
class Ask:
    """Write the policies to be rolled out next: DIR/proposals/NUMBER with safetensors, ONNX and a description.

    Those that wait for their rollout come again until they are told.
    """

    directory: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="DIR")]
    """The directory of the run."""
    number: Annotated[int | None, tyro.conf.arg(aliases=("-n",))] = None
    """Ask for that many new ones; if not given, as many as make sense now."""
    new: bool = False
    """Ask for new ones although others wait."""
    json: bool = False
    """Print the descriptions as one JSON list instead of the directories."""


@dataclass(frozen=True)
class Tell:
    """Take in the logs of rollouts: .csv, .npz or .json. In any order, late, or never."""

    directory: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="DIR")]
    """The directory of the run."""
    logs: Annotated[tyro.conf.Positional[tuple[Path, ...]], tyro.conf.arg(metavar="LOG")]
    """One file per rollout."""
    proposal: int | None = None
    """Which proposal was rolled out, where neither the file nor its place says so."""
    json: bool = False
    """Print one JSON object per log."""


@dataclass(frozen=True)
class Add:
    """Take in logs of rollouts that were not asked for: a hand-tuned controller's, an old experiment's."""

    directory: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="DIR")]
    """The directory of the run."""
    logs: Annotated[tyro.conf.Positional[tuple[Path, ...]], tyro.conf.arg(metavar="LOG")]
    """One file per rollout."""
    policy: Path | None = None
    """The policy that acted, a file or a run of ddopg; if not given, the nearest policy is fitted to the actions."""
    json: bool = False
    """Print one JSON object per log."""


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


@dataclass(frozen=True)
class Figure:
    """Draw a figure of the paper: what is missing of its data is computed, then the picture is drawn from them.

    surrogate: Fig. 1; benchmark: Fig. 2, and a second picture with all rivals; ablation-history: Fig. 3;
    ablation-lengthscale: Fig. 4; ablation-temperature: Fig. 5.
    """

    name: Annotated[tyro.conf.Positional[FigureName], tyro.conf.arg(metavar="NAME")]
    """Which one."""
    quick: bool = False
    """A small version in about a minute, from data of its own: fewer seeds, steps and episodes."""
    redraw: bool = False
    """Compute nothing, draw what is there."""
    data: Path | None = None
    """Directory of the data; benchmarks/figures/NAME in a clone, else runs/figures/NAME. Nothing is run twice."""
    out: Path = Path("runs/figures")
    """Directory for the pictures."""
    workers: int = 1
    """Local processes, one run and one thread each."""
    quiet: bool = False
    """No progress display."""
