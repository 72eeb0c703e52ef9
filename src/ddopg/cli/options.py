"""What each command can be told. Nothing heavy is imported here: `--help` is made from these records."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import tyro

from ddopg.config import Config
from ddopg.loggers import LOGGERS

PresetName = Literal["default", "trajectory", "paper", "released"]
if TYPE_CHECKING:
    LoggerName = str
else:
    LoggerName = Literal[tuple(LOGGERS)]
SuiteName = Literal["small-budget"]
FigureName = Literal[
    "surrogate", "benchmark", "ablation-history", "ablation-lengthscale", "ablation-temperature", "bias"
]


def _parse_count(words: list[str]) -> int:
    """Read a whole number, also as 1e4 or 10_000; tyro says it where this raises a ValueError."""
    try:
        return int(words[0])  # however large: a float would round it
    except ValueError:
        number = _float_or_nan(words[0])
    if not number.is_integer():
        raise ValueError(f"{words[0]} is no whole number")
    return int(number)


def _float_or_nan(word: str) -> float:
    try:
        return float(word)
    except ValueError:
        return math.nan


COUNTS = tyro.constructors.PrimitiveConstructorSpec(
    nargs=1,
    metavar="INT",
    instance_from_str=_parse_count,
    is_instance=lambda value: value is None or isinstance(value, int),
    str_from_instance=lambda value: [str(value)],
)
Count = Annotated[int, COUNTS]
"""Steps or episodes; 1e4 is one too."""
CountIfGiven = Annotated[int | None, COUNTS]
"""The same with None as its default; as one type, because tyro shows the insides of a union where it fails."""


def _parse_seeds(words: list[str]) -> tuple[int, ...]:
    """Read seeds, also as 5200-5209; tyro says it where this raises a ValueError."""
    seeds: list[int] = []
    for word in words:
        first, dash, last = word.partition("-") if word[:1].isdigit() else (word, "", "")
        try:
            seeds += range(int(first), int(last) + 1) if dash else [int(first)]
        except ValueError:
            raise ValueError(f"{word} is no seed; give numbers, or a range such as 5200-5209") from None
    return tuple(seeds)


Seeds = Annotated[
    tuple[int, ...],
    tyro.constructors.PrimitiveConstructorSpec(
        nargs="*",
        metavar="[INT|FIRST-LAST [...]]",
        instance_from_str=_parse_seeds,
        is_instance=lambda value: isinstance(value, tuple) and all(isinstance(seed, int) for seed in value),
        str_from_instance=lambda value: [str(seed) for seed in value],
    ),
]
OwnPolicy = Annotated[str | None, tyro.conf.arg(metavar="MODULE:NAME")]
Directory = Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="DIR")]
Source = Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="DIR|FILE")]
Logs = Annotated[tyro.conf.Positional[tuple[Path, ...]], tyro.conf.arg(metavar="LOG")]


@dataclass(frozen=True)
class Train:
    """Train a policy and save it."""

    env: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="ENV")]
    """cartpole, mountaincar, swimmer, swingup, or any Gymnasium id with Box spaces."""
    steps: CountIfGiven = None
    """Budget in environment steps (10,000 if neither --steps nor --episodes is given)."""
    episodes: CountIfGiven = None
    """Budget in rollouts, instead of --steps."""
    seed: int = 0
    """The same seed, options and machine give the same run."""
    preset: PresetName = "default"
    """Preset that the options below modify."""
    policy: Annotated[str | None, tyro.conf.arg(metavar="NAME")] = None
    """A controller in the place of the network: oscillator, or MODULE:NAME of one in a Python file of yours."""
    config_file: Annotated[Path | None, tyro.conf.arg(name="config", metavar="FILE")] = None
    """A preset file (.toml or .json) with changes of a preset, such as `ddopg tune` writes."""
    out: Path | None = None
    """Directory for the results; default: a new one below runs/."""
    horizon: int | None = None
    """Maximum length of an episode; default: the time limit of the environment."""
    eval_episodes: Count = 20
    """Episodes per evaluation of the incumbent. They are not used for learning and not counted."""
    eval_points: int = 25
    """Evaluations during the run, evenly spread over the budget, in addition to one after the first rollout."""
    retries: int = 2
    """How often a failed rollout is repeated before the run stops; it can then be resumed."""
    time_limit: float | None = None
    """Seconds after which a rollout counts as failed."""
    isolate: bool = False
    """Run the environment in a separate process, which may hang in compiled code or crash."""
    parallel: int = 1
    """Rollouts at a time, in as many local processes, or as one program where the environment is written in JAX; they
    are told in the order of asking, and the result depends on it."""
    ray: str | None = None
    """Address of a Ray cluster for the rollouts, such as auto or HOST:PORT."""
    check: bool = True
    """Check the environment with Gymnasium's checker first."""
    log: tuple[LoggerName, ...] = ()
    """Loggers; the tables (csv) are always written. Default: tensorboard, if it is installed."""
    project: str = "ddopg"
    """Project of Weights & Biases, or experiment of MLflow, that the run appears in."""
    quiet: bool = False
    """No progress display."""
    config: Annotated[Config, tyro.conf.arg(name="")] = field(default_factory=Config)
    """All other settings."""


@dataclass(frozen=True)
class Resume:
    """Continue a run exactly where it stopped."""

    directory: Directory
    """The directory of the run."""
    steps: CountIfGiven = None
    """New budget in environment steps, counted from the beginning of the run; default: the old one."""
    episodes: CountIfGiven = None
    """The same in rollouts."""
    env: str | None = None
    """The environment, if it is in a module of yours: a file may not say which module to import."""
    policy: OwnPolicy = None
    """The policy class, if it is in a module of yours."""
    parallel: int | None = None
    """Rollouts at a time from now on; default: as before."""
    ray: str | None = None
    """Address of a Ray cluster for the rollouts; default: this machine."""
    log: tuple[LoggerName, ...] = ()
    """Loggers from now on; default: as before."""
    quiet: bool = False
    """No progress display."""


@dataclass(frozen=True)
class Evaluate:
    """Evaluate a saved policy on fresh episodes."""

    source: Source
    """A run directory or a policy file."""
    episodes: Count = 100
    """Number of episodes."""
    seed: int = 0
    """Another seed uses other episodes."""
    env: str | None = None
    """Environment; default: the one the policy was trained on."""
    policy: OwnPolicy = None
    """The policy class, if it is in a module of yours: a file may not say which module to import."""
    json: bool = False
    """Print one JSON object instead of a sentence."""


@dataclass(frozen=True)
class Play:
    """Show a saved policy in a window, or write a video file."""

    source: Source
    """A run directory or a policy file."""
    video: Path | None = None
    """Write the episode to this .mp4 or .gif file."""
    seed: int = 0
    """Another seed has another initial state."""
    env: str | None = None
    """Environment; default: the one the policy was trained on."""
    policy: OwnPolicy = None
    """The policy class, if it is in a module of yours: a file may not say which module to import."""


@dataclass(frozen=True)
class Export:
    """Export a saved policy as ONNX or for NumPy alone, or the rollouts of a run as a Minari data set."""

    source: Source
    """A run directory or a policy file."""
    target: Annotated[tyro.conf.Positional[Path | None], tyro.conf.arg(metavar="FILE")] = None
    """A file ending in .onnx: observation (batch, O) → action (batch, A); or in .json: for numpy_controller.py."""
    minari: Annotated[str | None, tyro.conf.arg(metavar="NAME")] = None
    """Instead of a file: every rollout of the run as the Minari data set namespace/name-v0."""
    env: str | None = None
    """The environment, if it is in a module of yours; it is needed for the last observations."""
    policy: OwnPolicy = None
    """The policy class, if it is in a module of yours."""
    author: str | None = None
    """Author of the data, for the metadata of the data set."""
    overwrite: bool = False
    """Replace an existing data set of that name."""


@dataclass(frozen=True)
class Report:
    """Make an HTML report of some runs: learning curves, rollouts, memory, the surrogate with a slider for Σ."""

    directories: Annotated[tyro.conf.Positional[tuple[Path, ...]], tyro.conf.arg(metavar="DIR…")]
    """Run directories, finished or not. Runs of one task and configuration form one group of seeds."""
    out: Annotated[Path, tyro.conf.arg(aliases=["-o"])] = Path("report.html")
    """The report: one HTML file that works offline."""
    watch: bool = False
    """Serve a live report on this machine (127.0.0.1) until Ctrl-C, instead of writing a file."""
    port: int = 8765
    """Port of --watch; 0 takes any that is free."""


@dataclass(frozen=True)
class Backup:
    """Copy a run into one file, also during training.

    To restore it, put it alone into a directory under the name run.sqlite; ddopg resume continues it.
    """

    directory: Directory
    """The directory of the run."""
    target: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="FILE")]
    """The new file; an existing one is never replaced."""


@dataclass(frozen=True)
class Begin:
    """Begin a run with the file-based interface for robots: the robot reads policies and writes logs."""

    directory: Directory
    """A new directory for the run."""
    observations: int | None = None
    """Numbers per observation."""
    low: tuple[float, ...] = ()
    """The smallest value of each action."""
    high: tuple[float, ...] = ()
    """The largest value of each action."""
    horizon: int | None = None
    """Maximum number of steps of a rollout."""
    returns_only: bool = False
    """Only what a rollout earned is known: with --policy MODULE:NAME of ddopg.controllers.returns_only, and without
    --observations, --low, --high and --horizon."""
    seed: int = 0
    """The same seed and logs give the same proposals."""
    preset: PresetName = "default"
    """Preset that the options below modify."""
    policy: Annotated[str | None, tyro.conf.arg(metavar="NAME")] = None
    """A controller in the place of the network: oscillator, or MODULE:NAME of one in a Python file of yours."""
    config: Annotated[Config, tyro.conf.arg(name="")] = field(default_factory=Config)
    """All other settings."""


@dataclass(frozen=True)
class Ask:
    """Write the policies to roll out next: DIR/proposals/NUMBER with safetensors, ONNX and a description.

    Waiting proposals are repeated until they are told.
    """

    directory: Directory
    """The directory of the run."""
    number: Annotated[int | None, tyro.conf.arg(aliases=("-n",))] = None
    """Number of new proposals; default: as many as make sense now."""
    new: bool = False
    """Ask for new proposals although others wait."""
    policy: OwnPolicy = None
    """The policy class, if it is in a module of yours: a file may not say which module to import."""
    json: bool = False
    """Print the descriptions as one JSON list instead of the directories."""


@dataclass(frozen=True)
class Tell:
    """Read the logs of rollouts (.csv, .npz or .json), in any order, late, or never; or take a return alone."""

    directory: Directory
    """The directory of the run."""
    logs: Logs
    """One file per rollout."""
    return_: Annotated[float | None, tyro.conf.arg(name="return")] = None
    """What the rollout earned in all, in the place of a log, for runs that were begun with --returns-only."""
    proposal: int | None = None
    """Number of the proposal, if neither the file nor its directory says so."""
    context: tuple[float, ...] = ()
    """What the world fixed for these rollouts, such as a friction; the same numbers for every rollout of the run."""
    policy: OwnPolicy = None
    """The policy class, if it is in a module of yours: a file may not say which module to import."""
    json: bool = False
    """Print one JSON object per log."""


@dataclass(frozen=True)
class Add:
    """Add logs of other rollouts, such as those of a hand-tuned controller or an old experiment."""

    directory: Directory
    """The directory of the run."""
    logs: Logs
    """One file per rollout."""
    policy: Path | None = None
    """The policy that acted, a file or a run of ddopg; default: the nearest policy is fitted to the actions."""
    policy_class: OwnPolicy = None
    """The policy class, if it is in a module of yours: a file may not say which module to import."""
    json: bool = False
    """Print one JSON object per log."""


@dataclass(frozen=True)
class Bench:
    """Compare methods on tasks. Every (task, method, seed) is a job; finished jobs are not repeated.

    Methods: ddopg, ddopg-trajectory, ddopg-paper, ddopg-released; reinforce-, ppo- and trpo-paper or -tuned, sac,
    sac-tuned, sac-zoo, tqc-zoo; and, in parameter space, cmaes, ars, random, pgpe, turbo, optuna-gp (linear
    policies), cmaes-mlp, ars-mlp, random-mlp, ars-v1.
    """

    suite: SuiteName | None = None
    """A set of standard tasks, each with its own budget, episodes and scale (docs/benchmark.md)."""
    envs: tuple[str, ...] = ()
    """Tasks: cartpole (if not given), mountaincar, swimmer, swingup, or Gymnasium ids; of a suite, only these."""
    methods: tuple[str, ...] = ("ddopg", "cmaes", "random")
    """Methods to compare."""
    seeds: Seeds = (404, 931, 159, 380, 858, 708, 16, 448, 136, 989)
    """One run per seed; 5200-5209 are ten. Default: the paper's ten."""
    steps: CountIfGiven = None
    """Budget of every run, in environment steps (10,000 if not given); not with --suite."""
    workers: int | None = None
    """Local processes, one job and one thread each (default 1); with --ray, jobs at a time (default all)."""
    ray: str | None = None
    """Address of a Ray cluster for the jobs, such as auto or HOST:PORT."""
    out: Path = Path("runs/bench")
    """Directory for the records. After a stop, the same command continues."""
    eval_episodes: CountIfGiven = None
    """Fresh episodes per evaluation (100 if not given), not used for learning and not counted; not with --suite."""
    latex: bool = False
    """Print the results as a LaTeX table, too."""
    quiet: bool = False
    """No progress display."""


@dataclass(frozen=True)
class Tune:
    """Search for better settings on a task with Optuna, and compare the best with the preset on fresh seeds.

    Several processes or machines may run the same command with one --storage. After a stop, it continues.
    """

    env: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="ENV")]
    """cartpole, mountaincar, swimmer, swingup, or any Gymnasium id with Box spaces."""
    steps: Count = 10_000
    """Budget of every run, in environment steps."""
    trials: int = 50
    """Number of trials of all processes together; a larger number continues a finished study."""
    seeds: int = 5
    """Runs per trial, each with a seed of its own; the same seeds for all trials."""
    fresh_seeds: int = 10
    """Seeds of the final comparison; no trial uses them."""
    preset: PresetName = "default"
    """The preset that is tuned and compared with."""
    policy: Annotated[str | None, tyro.conf.arg(metavar="NAME")] = None
    """Settings for a controller instead of the network: oscillator, or MODULE:NAME of your own."""
    params: tuple[str, ...] = ()
    """Settings to search, such as exploration.noise search.radius; default: the most important ones."""
    ranges: Path | None = None
    """A .toml or .json file of ranges: "search.radius" = {low = 0.1, high = 2.0, log = true}, or a list of values."""
    score: Literal["area", "final"] = "area"
    """What is maximised: the incumbent's return averaged over the learning curve, or at its end."""
    eval_episodes: Count = 20
    """Fresh episodes per evaluation. They are not used for learning and not counted."""
    workers: int | None = None
    """Trials at a time, in local processes of one thread each (1 if not given); with --ray, there (or 1 per CPU)."""
    ray: str | None = None
    """Address of a Ray cluster for the trials, such as auto or HOST:PORT."""
    storage: str | None = None
    """SQLAlchemy URL of the study, which all machines reach; default: sqlite:///OUT/study.sqlite."""
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
    """Draw a figure: missing data are computed first.

    surrogate: Fig. 1; benchmark: Fig. 2, and a second picture with all rivals; ablation-history: Fig. 3;
    ablation-lengthscale: Fig. 4; ablation-temperature: Fig. 5; bias: the surrogate's errors, not in the paper.
    """

    name: Annotated[tyro.conf.Positional[FigureName], tyro.conf.arg(metavar="NAME")]
    """Which one."""
    quick: bool = False
    """A small version in about a minute, from data of its own: fewer seeds, steps and episodes."""
    redraw: bool = False
    """Compute nothing; draw the existing data."""
    data: Path | None = None
    """Directory of the data; benchmarks/figures/NAME in a clone, else runs/figures/NAME. Nothing is run twice."""
    out: Path = Path("runs/figures")
    """Directory for the pictures."""
    workers: int = 1
    """Local processes, one run and one thread each."""
    quiet: bool = False
    """No progress display."""
