"""What each command can be told. Nothing heavy is imported here: `--help` is made from these records."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import tyro

from ddopg.config import Config
from ddopg.loggers import LOGGERS

PresetName = Literal["default", "critic", "paper", "released"]
if TYPE_CHECKING:
    LoggerName = str
else:
    LoggerName = Literal[tuple(LOGGERS)]
FigureName = Literal[
    "surrogate", "benchmark", "ablation-history", "ablation-lengthscale", "ablation-temperature", "bias"
]


def _parse_count(words: list[str]) -> int:
    """Read a whole number, also as 1e4 or 10_000; tyro says it where this raises a ValueError."""
    try:
        return int(words[0])  # however large: a float would round it
    except ValueError:
        number = float(words[0])
    if not number.is_integer():
        raise ValueError(f"{words[0]} is no whole number")
    return int(number)


Count = Annotated[
    int,
    tyro.constructors.PrimitiveConstructorSpec(
        nargs=1,
        metavar="INT",
        instance_from_str=_parse_count,
        is_instance=lambda value: isinstance(value, int),
        str_from_instance=lambda value: [str(value)],
    ),
]
"""Steps or episodes; 1e4 is one too."""
Directory = Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="DIR")]
Source = Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="DIR|FILE")]
Logs = Annotated[tyro.conf.Positional[tuple[Path, ...]], tyro.conf.arg(metavar="LOG")]


@dataclass(frozen=True)
class Train:
    """Learn a policy and save it."""

    env: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="ENV")]
    """cartpole, mountaincar, swimmer, or any Gymnasium id with Box spaces."""
    steps: Count | None = None
    """Budget in environment steps (10,000 if neither --steps nor --episodes is given)."""
    episodes: Count | None = None
    """Budget in rollouts, instead of --steps."""
    seed: int = 0
    """The same seed, options and machine give the same run."""
    preset: PresetName = "default"
    """Where the options below start from."""
    policy: Annotated[str | None, tyro.conf.arg(metavar="NAME")] = None
    """A ready-made controller in the place of the network: oscillator."""
    config_file: Annotated[Path | None, tyro.conf.arg(name="config", metavar="FILE")] = None
    """A preset file (.toml or .json), as `ddopg tune` writes one: a preset and what is changed of it."""
    out: Path | None = None
    """Directory for the results; a new one below runs/ if not given."""
    horizon: int | None = None
    """Longest episode; the environment's own time limit if not given."""
    eval_episodes: Count = 20
    """Episodes per evaluation of the incumbent. They are extra: nothing is learnt from them."""
    eval_points: int = 25
    """Evaluations during the run, evenly spread over the budget."""
    retries: int = 2
    """How often a rollout that the environment spoils is tried again before the run stops, to be resumed."""
    time_limit: float | None = None
    """Seconds after which a rollout that is not done counts as spoilt."""
    isolate: bool = False
    """Run the environment in a process of its own, which may hang in compiled code or die."""
    parallel: int = 1
    """Rollouts at a time, in as many local processes, told in the order of asking; another number is another run."""
    ray: str | None = None
    """Address of a Ray cluster that plays the rollouts instead, such as auto or HOST:PORT."""
    check: bool = True
    """Look at the environment with Gymnasium's checker first."""
    log: tuple[LoggerName, ...] = ()
    """Where to log; the tables (csv) are always written. tensorboard, where it is installed, if not given."""
    project: str = "ddopg"
    """Project of Weights & Biases, or experiment of MLflow, that the run appears in."""
    quiet: bool = False
    """No progress display."""
    config: Annotated[Config, tyro.conf.arg(name="")] = field(default_factory=Config)
    """Everything else that can be chosen."""


@dataclass(frozen=True)
class Resume:
    """Go on with a run exactly where it stopped."""

    directory: Directory
    """The directory of the run."""
    steps: Count | None = None
    """A new budget in environment steps, counted from the beginning of the run; the old one if not given."""
    episodes: Count | None = None
    """The same in rollouts."""
    env: str | None = None
    """The environment, where it lives in a module of yours: a file may not say which module to import."""
    parallel: int | None = None
    """Rollouts at a time from now on; as at the beginning of the run if not given."""
    ray: str | None = None
    """Address of a Ray cluster that plays the rollouts; local processes do if not given."""
    log: tuple[LoggerName, ...] = ()
    """Where to log from now on; as at the beginning of the run if not given."""
    quiet: bool = False
    """No progress display."""


@dataclass(frozen=True)
class Evaluate:
    """Measure a saved policy on fresh episodes."""

    source: Source
    """A run directory or a policy file."""
    episodes: Count = 100
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

    source: Source
    """A run directory or a policy file."""
    video: Path | None = None
    """Write the episode to this .mp4 or .gif file."""
    seed: int = 0
    """Another seed starts elsewhere."""
    env: str | None = None
    """Environment, if not the one the policy was learnt on."""


@dataclass(frozen=True)
class Export:
    """Write a saved policy for machines without this library, or the rollouts of a run as a Minari data set."""

    source: Source
    """A run directory or a policy file."""
    target: Annotated[tyro.conf.Positional[Path | None], tyro.conf.arg(metavar="FILE.onnx")] = None
    """Where to write. ONNX: observation (batch, O) → action (batch, A), squashed and clipped."""
    minari: Annotated[str | None, tyro.conf.arg(metavar="NAME")] = None
    """Instead of a file: every rollout of the run as the Minari data set namespace/name-v0."""
    env: str | None = None
    """The environment, where it lives in a module of yours; it is needed to see the last observations."""
    author: str | None = None
    """Who made the data, for the metadata of the data set."""
    overwrite: bool = False
    """Replace a data set of that name."""


@dataclass(frozen=True)
class Report:
    """Make one page of some runs: learning curves, rollouts, memory, the surrogate with a slider for Σ."""

    directories: Annotated[tyro.conf.Positional[tuple[Path, ...]], tyro.conf.arg(metavar="DIR…")]
    """Run directories, finished or not. Those of one task and configuration are shown as its seeds."""
    out: Annotated[Path, tyro.conf.arg(aliases=["-o"])] = Path("report.html")
    """The page: one file that works offline."""


@dataclass(frozen=True)
class Backup:
    """Copy a run into one file, also while it goes on.

    To make a run of it again, put it alone into a directory, called run.sqlite: ddopg resume goes on with that.
    """

    directory: Directory
    """The directory of the run."""
    target: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="FILE")]
    """The new file; nothing is replaced."""


@dataclass(frozen=True)
class Begin:
    """Begin a run with a machine that speaks by files: it reads policies and writes logs."""

    directory: Directory
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

    directory: Directory
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

    directory: Directory
    """The directory of the run."""
    logs: Logs
    """One file per rollout."""
    proposal: int | None = None
    """Which proposal was rolled out, where neither the file nor its place says so."""
    json: bool = False
    """Print one JSON object per log."""


@dataclass(frozen=True)
class Add:
    """Take in logs of rollouts that were not asked for: a hand-tuned controller's, an old experiment's."""

    directory: Directory
    """The directory of the run."""
    logs: Logs
    """One file per rollout."""
    policy: Path | None = None
    """The policy that acted, a file or a run of ddopg; if not given, the nearest policy is fitted to the actions."""
    json: bool = False
    """Print one JSON object per log."""


@dataclass(frozen=True)
class Bench:
    """Compare methods on tasks: every (task, method, seed) is a job, and a finished one is never run again.

    Methods: ddopg, ddopg-critic, ddopg-paper, ddopg-released; reinforce-, ppo- and trpo-paper or -tuned, sac,
    sac-tuned; and, in parameter space, cmaes, ars, random (linear policies), cmaes-mlp, ars-mlp, random-mlp, ars-v1.
    """

    envs: tuple[str, ...] = ("cartpole",)
    """Tasks: cartpole, mountaincar, swimmer, or any Gymnasium ids with Box spaces."""
    methods: tuple[str, ...] = ("ddopg", "cmaes", "random")
    """What is compared."""
    seeds: tuple[int, ...] = (404, 931, 159, 380, 858, 708, 16, 448, 136, 989)
    """One run each; the paper's ten if not given."""
    steps: Count = 10_000
    """Budget of every run, in environment steps."""
    workers: int | None = None
    """Local processes, one job and one thread each (1 if not given); with --ray, jobs at a time there (or all)."""
    ray: str | None = None
    """Address of a Ray cluster that runs the jobs instead, such as auto or HOST:PORT."""
    out: Path = Path("runs/bench")
    """Directory for the records. Stopped at any time, the same command goes on from what is there."""
    eval_episodes: Count = 100
    """Fresh episodes per evaluation. They are extra: nothing is learnt from them."""
    quiet: bool = False
    """No progress display."""


@dataclass(frozen=True)
class Tune:
    """Search for better settings on a task with Optuna, and compare the best with the preset on fresh seeds.

    Several processes or machines may run the same command with one --storage; stopped at any time, it goes on.
    """

    env: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="ENV")]
    """cartpole, mountaincar, swimmer, or any Gymnasium id with Box spaces."""
    steps: Count = 10_000
    """Budget of every run, in environment steps."""
    trials: int = 50
    """How many settings are tried, by all processes together; a larger number goes on with a finished study."""
    seeds: int = 5
    """Runs per trial, each with a seed of its own; the same seeds for all trials."""
    fresh_seeds: int = 10
    """Seeds of the last comparison; no trial has seen them."""
    preset: PresetName = "default"
    """What is tuned, and compared with at the end."""
    params: tuple[str, ...] = ()
    """Settings to search, such as exploration.noise search.radius; the preset's most important ones if not given."""
    ranges: Path | None = None
    """A .toml or .json file of ranges: "search.radius" = {low = 0.1, high = 2.0, log = true}, or a list of values."""
    score: Literal["area", "final"] = "area"
    """What is maximised: the incumbent's return averaged over the learning curve, or at its end."""
    eval_episodes: Count = 20
    """Fresh episodes per evaluation. They are extra: nothing is learnt from them."""
    workers: int | None = None
    """Trials at a time, in local processes of one thread each (1 if not given); with --ray, there (or 1 per CPU)."""
    ray: str | None = None
    """Address of a Ray cluster that runs the trials instead, such as auto or HOST:PORT."""
    storage: str | None = None
    """Where the study is kept: an SQLAlchemy URL that all machines reach; sqlite:///OUT/study.sqlite if not given."""
    study: str | None = None
    """Name of the study in its storage; ENV-PRESET if not given."""
    out: Path | None = None
    """Directory for the results, runs/tune-ENV if not given."""
    seed: int = 0
    """Another seed has other trials, other seeds for them, and other fresh ones."""
    compare: bool = True
    """At the end, wait for the trials of other processes and compare; --no-compare on machines that only help."""
    quiet: bool = False
    """No progress display."""


@dataclass(frozen=True)
class Figure:
    """Draw a figure: what is missing of its data is computed, then the picture is drawn from them.

    surrogate: Fig. 1; benchmark: Fig. 2, and a second picture with all rivals; ablation-history: Fig. 3;
    ablation-lengthscale: Fig. 4; ablation-temperature: Fig. 5; bias: the surrogate's errors, not in the paper.
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
