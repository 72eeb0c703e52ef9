"""What can be chosen: frozen values, checked at birth, each with its provenance.

Three presets: `paper` (the equations and table of values of the paper), `released` (what the authors' code
does where it differs) and `default` (ours). Where the paper is silent, the choice is written at the field.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Literal

from ddopg.errors import require, require_positive, unknown

OptimiserName = Literal["sgd", "adam", "momentum", "sghmc"]
SelectionName = Literal["softmax", "rank", "best", "uniform", "latest"]
UnitName = Literal["bound", "spread"]
ObjectiveName = Literal[
    "penalty",
    "lower_bound",
    "ess_bonus",
    "lower_confidence",
    "upper_confidence",
    "probability_of_improvement",
    "expected_improvement",
]
NormalisationName = Literal["weights", "count"]


@dataclass(frozen=True)
class PolicyConfig:
    """The policy class: a tanh network, or a linear map where `hidden` is empty."""

    hidden: tuple[int, ...] = (16, 16)
    """Units of each hidden tanh layer; empty for a linear policy. (16, 16) is the released code's."""
    squash: bool = False
    """Send the output through tanh onto the action range. Off: raw output, as in the paper's experiments."""

    def __post_init__(self) -> None:
        require(
            all(units > 0 for units in self.hidden),
            f"policy.hidden must list positive layer sizes, got {self.hidden}",
        )


@dataclass(frozen=True)
class DesignConfig:
    """The initial design: a lone θ₀ is a stationary point of the surrogate, so several policies start."""

    policies: int = 5
    """How many random policies are rolled out first (released code: 5; the paper is silent)."""
    spread: float = 1.0
    """Standard deviation around θ₀ on every parameter (released code: 1)."""
    constants: int = 0
    """How many of them do the same whatever they see: they show the scales of the observations first."""

    def __post_init__(self) -> None:
        require(self.policies >= 2, f"design.policies must be at least 2, got {self.policies}")
        require(
            0 <= self.constants <= self.policies,
            f"design.constants must lie between 0 and design.policies = {self.policies}, got {self.constants}",
        )
        require_positive("design.spread", self.spread)


@dataclass(frozen=True)
class ExplorationConfig:
    """How proposals scatter, measured by what they change of the policy's raw output (before squashing)."""

    noise: float = 0.0
    """Root-mean-square change of the raw outputs, all together, by which a proposal differs from the centre; 0
    proposes the centre itself, as Algorithm 1 does."""
    fresh: float = 0.0
    """A proposal is a fresh random policy instead with probability `fresh`/k at proposal k; where fresh ones fail
    sooner than the others, with the higher one at which they take that share of the environment steps, up to ½."""
    gain: float = 2.2
    """Root-mean-square raw output of a fresh random policy, in the initial design too."""

    def __post_init__(self) -> None:
        require(
            0 <= self.noise < math.inf, f"exploration.noise must be finite and at least 0, got {self.noise}"
        )
        require(
            0 <= self.fresh < math.inf, f"exploration.fresh must be finite and at least 0, got {self.fresh}"
        )
        require_positive("exploration.gain", self.gain)


@dataclass(frozen=True)
class SelectionConfig:
    """Which trajectories of the memory the surrogate is built from."""

    rule: SelectionName = "softmax"
    """`softmax` over normalised returns, Eq. (21); `rank`: the same over ranks, which outliers cannot stretch; the
    `best`, some `uniform` ones, or the `latest`."""
    size: int = 50
    """N_max, the number of draws (paper, Table 1: 50)."""
    temperature: float = 0.1
    """λ of the softmax (paper, Table 1: 0.1)."""
    replacement: bool = True
    """Draw independently, so that one trajectory may be drawn twice (Algorithm 1), or each at most once."""
    keep_last: int = 0
    """The latest k trajectories are always in (released code: 3)."""

    def __post_init__(self) -> None:
        require(self.size >= 2, f"selection.size must be at least 2, got {self.size}")
        require_positive("selection.temperature", self.temperature)
        require(
            0 <= self.keep_last <= self.size,
            f"selection.keep_last must lie between 0 and selection.size = {self.size}, got {self.keep_last}",
        )


@dataclass(frozen=True)
class SurrogateConfig:
    """The surrogate model of the return and the objective built on it."""

    length_scale: tuple[float, ...] = (math.exp(1.5),)
    """Standard deviation of the evaluation policy, Eq. (13): one value, or one per action dimension; in units of
    the action, or of half its range where the policy is squashed. The paper's Table 1 has log Σ = 3, a
    covariance, hence exp(3/2); the released code has exp(3)."""
    ess_share: float = 0.0
    """Length-scale from the data: all of `length_scale` is scaled so that the centre has an ESS of this share of
    the selected trajectories. 0 takes `length_scale` as it is."""
    decisions: int = 0
    """Per-decision weights at about this many times of an episode; 0 weighs whole paths, as the paper does."""
    normalisation: NormalisationName = "weights"
    """Z of Eq. (14): `weights` is the weighted estimator Z = Σw, `count` the plain one Z = N."""
    baseline: bool = False
    """Subtract the optimal baseline in the plain estimator (Z = N); the weighted one has its own, Proposition 1."""
    start_correction: bool = False
    """Take away from the rewards what a linear function of the first observation explains of them, beside what the
    policies explain."""
    epsilon: float = 0.0
    """Added to every denominator by the released code (1e-8): far from data the estimate then falls to 0.
    The paper has none."""
    objective: ObjectiveName = "penalty"
    """`penalty`: Ĵ − ‖R‖∞ γ √(1/ESS), Eq. (20); `lower_bound`: Eq. (19) with δ; `ess_bonus`: the released
    code's Ĵ/‖R‖∞ + γ ESS/N_max; the others are acquisition functions on Ĵ and its standard error. All are
    divided by the unit, which moves no maximum."""
    width: float = 1.0
    """κ of `lower_confidence` and `upper_confidence`, in standard errors."""
    unit: UnitName = "bound"
    """What counts as one in the objective: `bound` is ‖R‖∞, as in the paper; `spread` is the standard deviation of
    the return around the centre, as the weighted data show it, which knows no zero of the reward."""
    penalty: float = 0.05
    """γ (paper, Table 1: 0.05)."""
    bound_growth: float = 0.0
    """‖R‖∞ is renewed when it has grown by more than this share (released code: 0.1)."""
    delta: float = 0.2
    """δ of the lower bound, 0 < δ < 1 (paper, Fig. 1: 0.2)."""

    def __post_init__(self) -> None:
        require(len(self.length_scale) > 0, "surrogate.length_scale must hold at least one value, got none")
        for value in self.length_scale:
            require_positive("surrogate.length_scale", value)
        require(0 < self.delta < 1, f"surrogate.delta must lie in (0, 1), got {self.delta}")
        require(
            0 <= self.penalty < math.inf,
            f"surrogate.penalty must be finite and at least 0, got {self.penalty}",
        )
        require(self.bound_growth >= 0, f"surrogate.bound_growth must be at least 0, got {self.bound_growth}")
        require(
            0 <= self.width < math.inf, f"surrogate.width must be finite and at least 0, got {self.width}"
        )
        require(0 <= self.ess_share < 1, f"surrogate.ess_share must lie in [0, 1), got {self.ess_share}")
        require(self.decisions >= 0, f"surrogate.decisions must be at least 0, got {self.decisions}")
        require(0 <= self.epsilon < 1, f"surrogate.epsilon must lie in [0, 1), got {self.epsilon}")


@dataclass(frozen=True)
class SearchConfig:
    """The inner optimisation of the surrogate objective."""

    optimiser: OptimiserName = "adam"
    """Adam is the paper's; `momentum` (of the normalised gradient) the released code's."""
    learning_rate: float = 0.01
    """Step size. The paper is silent: Adam's customary order of magnitude. Released code: 0.03."""
    momentum: float = 0.75
    """Of `momentum` and, as 1 − friction, of `sghmc` (released code: 0.75)."""
    noise: float = 1e-4
    """Temperature of `sghmc`; 0 turns it into plain momentum."""
    steps: int = 1000
    """At most this many steps per iteration (released code: 1000; the paper: until convergence)."""
    tolerance: float = 1e-3
    """Stop when the standard deviation of the last `window` objective values falls below it (released)."""
    window: int = 9
    """See `tolerance`."""
    carry: bool = False
    """Keep the optimiser's state from iteration to iteration (released code: yes)."""
    effect_units: bool = False
    """Measure parameters by their effect on the raw output, not by their numbers: steps, exploration and decay
    then do not depend on the scales of the observations."""
    radius: float = 0.0
    """Longest move of the centre per iteration, ‖Δθ‖ in the search's units; 0 sets no limit."""
    jump: float = 0.0
    """The centre jumps to the stored policy of the highest estimate if that is better by this many units of the
    objective; 0 never jumps."""
    follow: float = 0.0
    """The incumbent follows the centre by this share of their distance each iteration, a running average; 0 makes it
    the policy of the best single rollout, as the paper and the released code do."""
    check: float = 0.0
    """Share of rollouts that re-check the running average itself, once the search has cooled down; the incumbent is
    then replaced only by a policy whose re-check did not disappoint. 0 hands over the running average unchecked."""
    cooling: float = 0.0
    """Episodes' worth of steps (steps / horizon) after which the search cools down: beyond it, steps, perturbations
    and the running average shrink as one over the root of the experience, decay and readiness to jump as one over
    it. 0 never cools."""
    natural: float = 0.0
    """Damping of the natural gradient, relative to the mean of the Fisher matrix' diagonal; 0 takes the plain one."""
    decay: float = 0.0
    """Weight of log(1 + mean-square raw output), against saturation; it fades as data gather."""

    def __post_init__(self) -> None:
        require_positive("search.learning_rate", self.learning_rate)
        require(0 <= self.momentum < 1, f"search.momentum must lie in [0, 1), got {self.momentum}")
        require(self.noise >= 0, f"search.noise must be at least 0, got {self.noise}")
        require(self.steps >= 1, f"search.steps must be at least 1, got {self.steps}")
        require(self.tolerance >= 0, f"search.tolerance must be at least 0, got {self.tolerance}")
        for name in ("radius", "jump", "follow", "check", "cooling", "natural", "decay"):
            value = getattr(self, name)
            require(0 <= value < math.inf, f"search.{name} must be finite and at least 0, got {value}")
        require(self.check < 1, f"search.check must be below 1, got {self.check}")
        require(
            not self.check or (self.cooling > 0 and self.follow > 0),
            "search.check guards the running average of a search that cools; set search.follow and search.cooling",
        )
        require(self.window >= 2, f"search.window must be at least 2, got {self.window}")


@dataclass(frozen=True)
class Config:
    """Everything that defines a learner; the same config, seed and machine give the same run."""

    policy: PolicyConfig = field(default_factory=PolicyConfig)
    design: DesignConfig = field(default_factory=DesignConfig)
    exploration: ExplorationConfig = field(default_factory=ExplorationConfig)
    selection: SelectionConfig = field(default_factory=SelectionConfig)
    surrogate: SurrogateConfig = field(default_factory=SurrogateConfig)
    search: SearchConfig = field(default_factory=SearchConfig)
    discount: float = 1.0
    """γ of the return below Eq. (1); the experiments of the paper add rewards up undiscounted."""

    def __post_init__(self) -> None:
        require(0 < self.discount <= 1, f"discount must lie in (0, 1], got {self.discount}")
        require(
            self.search.effect_units
            or not (self.exploration.noise or self.search.decay or self.design.constants),
            "exploration.noise, search.decay and design.constants are measured by effect; set search.effect_units",
        )


PAPER = Config()

RELEASED = Config(
    selection=SelectionConfig(replacement=False, keep_last=3),
    surrogate=SurrogateConfig(
        length_scale=(math.exp(3.0),), epsilon=1e-8, objective="ess_bonus", bound_growth=0.1, delta=0.1
    ),
    search=SearchConfig(optimiser="momentum", learning_rate=0.03, carry=True),
)

DEFAULT = Config(
    policy=PolicyConfig(hidden=(), squash=True),
    design=DesignConfig(policies=8, constants=4),
    exploration=ExplorationConfig(noise=1.2, fresh=3.0, gain=2.24),
    selection=SelectionConfig(rule="latest", size=50),
    surrogate=SurrogateConfig(
        length_scale=(1.0,), ess_share=0.15, decisions=100, start_correction=True, unit="spread", penalty=0.15
    ),
    search=SearchConfig(
        optimiser="adam",
        learning_rate=0.0825,
        steps=15,
        tolerance=0.0,
        effect_units=True,
        radius=0.7,
        jump=1.0,
        follow=0.2,
        check=0.2,
        cooling=12.0,
        decay=0.5,
    ),
)

PRESETS = {"default": DEFAULT, "paper": PAPER, "released": RELEASED}


def preset(name: str) -> Config:
    """The configuration of that name."""
    if name not in PRESETS:
        raise unknown("preset", name, PRESETS)
    return PRESETS[name]
