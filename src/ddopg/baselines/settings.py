"""What each method can be told: frozen values with their provenance. Nothing heavy is imported here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from ddopg.errors import require, require_positive

ScalingName = Literal["none", "quantile", "whiten"]


@dataclass(frozen=True)
class ReinforceSettings:
    """REINFORCE (Williams 1992) with reward-to-go and a linear feature baseline. Defaults: the paper's table."""

    batch: int = 5000
    """Environment steps per gradient step, in whole episodes (paper, Table 1: 5000)."""
    learning_rate: float = 0.03
    """Step size of Adam (paper, Table 1: 0.03; Adam is what garage's REINFORCE uses)."""
    hidden: tuple[int, ...] = (16, 16)
    """Of the mean (the released DD-OPG's network; the paper does not say which network the rivals had)."""
    squash: bool = False
    """tanh onto the action range. Off: the output is clipped to it, as garage's `normalize` does."""
    discount: float = 0.99
    """Of the reward-to-go (customary in garage; the paper is silent)."""
    std: float = 1.0
    """Standard deviation of the actions at the start, in units of half the action range (garage: 1); learnt."""
    scaling: ScalingName = "none"
    """What the policy sees: raw observations, or scaled by what was seen before. See `scaling.py`."""

    def __post_init__(self) -> None:
        _check_positive(self, "batch", "learning_rate", "std")
        _check_share(self, "discount")


@dataclass(frozen=True)
class PPOSettings:
    """PPO of stable-baselines3. Defaults: the paper's table, else the library's."""

    batch: int = 2000
    """Environment steps per update (paper, Table 1: 2000)."""
    clip: float = 0.2
    """Clip range of the likelihood ratio (paper, Table 1, "step size": 0.2)."""
    minibatch: int = 50
    """Steps per gradient step (the library's 64 does not divide 2000)."""
    epochs: int = 10
    """Passes over a batch (the library's)."""
    learning_rate: float = 3e-4
    """Of Adam (the library's)."""
    hidden: tuple[int, ...] = (16, 16)
    """Of policy and value network (the released DD-OPG's; the library's is (64, 64))."""
    discount: float = 0.99
    """γ (the library's, and customary in garage)."""
    trace: float = 0.95
    """λ of the generalised advantage (the library's)."""
    entropy: float = 0.0
    """Weight of the entropy bonus (the library's)."""
    std: float = 1.0
    """Standard deviation at the start, in units of half the action range (the library's, and garage's)."""
    whiten: bool = False
    """Observations by running mean and standard deviation, rewards by that of the discounted return."""

    def __post_init__(self) -> None:
        _check_positive(self, "batch", "clip", "minibatch", "epochs", "learning_rate", "std")
        _check_share(self, "discount", "trace")


@dataclass(frozen=True)
class TRPOSettings:
    """TRPO of sb3-contrib. Defaults: the paper's table, else the library's."""

    batch: int = 5000
    """Environment steps per update (paper, Table 1: 5000)."""
    max_kl: float = 0.1
    """Largest mean KL divergence of an update (paper, Table 1, "step size": 0.1)."""
    minibatch: int = 125
    """Steps per gradient step of the value network (the library's 128 does not divide 5000)."""
    learning_rate: float = 1e-3
    """Of the value network (the library's)."""
    hidden: tuple[int, ...] = (16, 16)
    """Of policy and value network (the released DD-OPG's; the library's is (64, 64))."""
    discount: float = 0.99
    """γ (the library's, and customary in garage)."""
    trace: float = 0.95
    """λ of the generalised advantage (the library's)."""
    std: float = 1.0
    """Standard deviation at the start, in units of half the action range (the library's, and garage's)."""
    whiten: bool = False
    """Observations by running mean and standard deviation, rewards by that of the discounted return."""

    def __post_init__(self) -> None:
        _check_positive(self, "batch", "max_kl", "minibatch", "learning_rate", "std")
        _check_share(self, "discount", "trace")


@dataclass(frozen=True)
class SACSettings:
    """SAC of stable-baselines3, and of sbx. Defaults: the libraries' (the paper has no SAC)."""

    learning_rate: float = 3e-4
    """Of Adam."""
    hidden: tuple[int, ...] = (256, 256)
    """ReLU units of actor and critics."""
    minibatch: int = 256
    """Transitions per gradient step."""
    learning_starts: int = 100
    """Steps of uniformly random actions before the first gradient step; they are counted."""
    train_every: int = 1
    """Environment steps between updates; each update makes as many gradient steps."""
    discount: float = 0.99
    """γ."""
    tau: float = 0.005
    """Share by which the target networks follow."""
    state_dependent: bool = False
    """Exploration by a smooth, state-dependent noise (gSDE) instead of fresh noise every step; with sbx, by the
    actor's own noise, held between updates."""
    log_std: float = -3.0
    """Logarithm of the state-dependent noise's deviation at the start. No effect without that noise, or with sbx."""
    entropy: float = 0.0
    """Weight of the entropy; 0 learns it (the library's `auto`)."""
    whiten: bool = False
    """Observations by running mean and standard deviation, rewards by that of the discounted return."""

    def __post_init__(self) -> None:
        _check_positive(self, "learning_rate", "minibatch", "train_every", "tau")
        _check_share(self, "discount")
        _check_count(self, "entropy")


@dataclass(frozen=True)
class TQCSettings(SACSettings):
    """TQC of sbx: SAC with quantile critics. Defaults: the library's, which has those of SAC."""

    drop: int = 2
    """Highest quantiles of each critic that the target leaves out; of 25, and there are two critics."""

    def __post_init__(self) -> None:
        super().__post_init__()
        require(0 <= self.drop < 25, f"drop must lie between 0 and 24, got {self.drop}")


@dataclass(frozen=True)
class CMAESSettings:
    """CMA-ES (Hansen) of the package `cma` on whole returns; what counts is the mean of its distribution."""

    step: float = 1.0
    """σ₀, standard deviation of the first generation, in scaled parameters."""
    population: int = 0
    """Rollouts per generation; 0 takes the package's 4 + ⌊3 ln D⌋."""
    hidden: tuple[int, ...] = ()
    """Empty: the squashed linear policy of DD-OPG's default."""
    scaling: ScalingName = "quantile"
    """See `scaling.py`."""
    probes: int = 4
    """Constant policies rolled out first to see the scales, as DD-OPG's default does; they are counted."""

    def __post_init__(self) -> None:
        _check_positive(self, "step")
        require(
            self.population == 0 or self.population >= 2,
            f"population must be 0 (the package's own) or at least 2, got {self.population}",
        )
        _check_count(self, "probes")


@dataclass(frozen=True)
class ARSSettings:
    """Augmented random search (Mania, Guy and Recht 2018): V1 with scaling `none`, V2 with `whiten`."""

    directions: int = 8
    """N, directions per update; each costs two rollouts, there and back."""
    top: int = 4
    """b, how many of the best directions enter the update."""
    step: float = 0.5
    """α, in scaled parameters."""
    noise: float = 0.5
    """ν, standard deviation of the directions."""
    hidden: tuple[int, ...] = ()
    """Empty: the squashed linear policy of DD-OPG's default."""
    scaling: ScalingName = "whiten"
    """See `scaling.py`."""
    probes: int = 4
    """Constant policies rolled out first to see the scales, as DD-OPG's default does; they are counted."""

    def __post_init__(self) -> None:
        _check_positive(self, "directions", "step", "noise")
        require(
            1 <= self.top <= self.directions,
            f"top must lie between 1 and directions = {self.directions}, got {self.top}",
        )
        _check_count(self, "probes")


@dataclass(frozen=True)
class RandomSettings:
    """Random search: independent policies, the best mean return of `repeats` rollouts is kept."""

    spread: float = 1.5
    """Standard deviation of each scaled parameter."""
    repeats: int = 1
    """Rollouts per policy."""
    hidden: tuple[int, ...] = ()
    """Empty: the squashed linear policy of DD-OPG's default."""
    scaling: ScalingName = "quantile"
    """See `scaling.py`."""
    probes: int = 4
    """Constant policies rolled out first to see the scales, as DD-OPG's default does; they are counted."""

    def __post_init__(self) -> None:
        _check_positive(self, "spread", "repeats")
        _check_count(self, "probes")


@dataclass(frozen=True)
class PGPESettings:
    """PGPE (Sehnke et al. 2010) of evosax with ClipUp; what counts is the mean of its distribution."""

    std: float = 0.5
    """Standard deviation of the first generation, in scaled parameters (that of CMA-ES here)."""
    population: int = 0
    """Rollouts per generation, in pairs; 0 takes CMA-ES's 4 + ⌊3 ln D⌋, made even (the library has no default)."""
    speed: float = 1 / 15
    """Longest step of the mean, in radii σ√D; half of it is the step size (rule of thumb of ClipUp's authors)."""
    hidden: tuple[int, ...] = ()
    """Empty: the squashed linear policy of DD-OPG's default."""
    scaling: ScalingName = "whiten"
    """See `scaling.py`."""
    probes: int = 4
    """Constant policies rolled out first to see the scales, as DD-OPG's default does; they are counted."""

    def __post_init__(self) -> None:
        _check_positive(self, "std", "speed")
        _check_count(self, "probes")
        require(
            self.population >= 0 and self.population % 2 == 0,
            f"population must be even, or 0 for a choice by the size, got {self.population}",
        )


@dataclass(frozen=True)
class TurboSettings:
    """Bayesian optimisation in a trust region (TuRBO, Eriksson et al. 2019) with the parts of botorch.

    What counts is the policy with the highest mean of the Gaussian process among those rolled out.
    """

    first: int = 0
    """Rollouts of a region before its process is asked; 0 takes 2 D, but at the most 20 (its authors: 2 D)."""
    batch: int = 4
    """Rollouts between two fits (the library's tutorial)."""
    candidates: int = 2000
    """Points among which Thompson sampling chooses (the tutorial)."""
    memory: int = 300
    """Rollouts of a region that the process is fitted to, the latest ones (ours: the time is cubic in it)."""
    bound: float = 3.0
    """Scaled parameters lie within ± this."""
    hidden: tuple[int, ...] = ()
    """Empty: the squashed linear policy of DD-OPG's default."""
    scaling: ScalingName = "whiten"
    """See `scaling.py`; fixed after the probes, so that points stay where they are."""
    probes: int = 4
    """Constant policies rolled out first to see the scales, as DD-OPG's default does; they are counted."""

    def __post_init__(self) -> None:
        _check_positive(self, "batch", "candidates", "memory", "bound")
        _check_count(self, "first")
        _check_count(self, "probes")


@dataclass(frozen=True)
class OptunaSettings:
    """The Gaussian-process sampler of Optuna, with its defaults; what counts is its best trial."""

    trials: int = 100
    """Trials of a study at the most (ours: asking takes ever longer). Then a new one begins with the best of it."""
    kept: int = 30
    """So many of the best trials are carried along."""
    bound: float = 3.0
    """Scaled parameters lie within ± this."""
    hidden: tuple[int, ...] = ()
    """Empty: the squashed linear policy of DD-OPG's default."""
    scaling: ScalingName = "whiten"
    """See `scaling.py`; fixed after the probes, so that points stay where they are."""
    probes: int = 4
    """Constant policies rolled out first to see the scales, as DD-OPG's default does; they are counted."""

    def __post_init__(self) -> None:
        _check_positive(self, "trials", "bound")
        _check_count(self, "probes")
        require(
            1 <= self.kept < self.trials,
            f"kept must lie between 1 and trials - 1 = {self.trials - 1}, got {self.kept}",
        )


def _check_positive(settings: Any, *names: str) -> None:
    for name in names:
        require_positive(name, getattr(settings, name))


def _check_share(settings: Any, *names: str) -> None:
    for name in names:
        value = getattr(settings, name)
        require(0 < value <= 1, f"{name} must lie in (0, 1], got {value}")


def _check_count(settings: Any, name: str) -> None:
    value = getattr(settings, name)
    require(value >= 0, f"{name} must be at least 0, got {value}")
