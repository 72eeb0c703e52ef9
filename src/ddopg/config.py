"""What can be chosen: frozen values, checked at birth, each with its provenance.

Four presets: `default` (ours), `trajectory` (ours without a critic: one return per rollout, a linear policy, no noise
on actions), `paper` (the equations, the table of values and the prose of the paper) and `released` (what the authors'
code does where it differs).
Where the paper is silent, the choice is written at the field, and `docs/reproduce.md` has the experiment behind it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Literal

from ddopg.errors import require, require_not_negative, require_positive, unknown

ObjectiveScaleName = Literal["bound", "spread"]
StartName = Literal["last", "selected"]
MethodName = Literal["auto", "gradient", "gaussian_process"]
IncumbentRuleName = Literal["rollout", "estimate"]


@dataclass(frozen=True)
class PolicyConfig:
    """The policy class: a tanh network, or a linear map where `hidden` is empty."""

    hidden: tuple[int, ...] = (16, 16)
    """Units of each hidden tanh layer; empty for a linear policy. (16, 16) is the released code's."""
    linear_path: bool = False
    """The output layer sees the observation too, beside the last hidden layer: a linear policy and a network in one.
    Not in the paper."""
    squash: bool = False
    """Send the output through tanh onto the action range. Off: raw output, as in the released code (the paper is
    silent)."""
    controller: str = ""
    """A ready-made controller in the place of the network, such as `oscillator`; the table is
    `ddopg.controllers.READY_MADE`. Empty: the network. Not in the paper."""

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
    constants_per_action: int = 0
    """No more constant policies than this for each number of an action, which has only two directions; those left
    out are not replaced by others. 0 sets no limit."""

    def __post_init__(self) -> None:
        require(self.policies >= 2, f"design.policies must be at least 2, got {self.policies}")
        require(
            0 <= self.constants <= self.policies,
            f"design.constants must lie between 0 and design.policies = {self.policies}, got {self.constants}",
        )
        require_not_negative("design.constants_per_action", self.constants_per_action)
        require_positive("design.spread", self.spread)

    def for_actions(self, number: int) -> DesignConfig:
        """The design for actions of so many numbers; the same again for a design that was made for them.

        Example:
            >>> DesignConfig(policies=8, constants=4, constants_per_action=2).for_actions(1).policies
            6
        """
        most = self.constants_per_action * number or self.constants
        left_out = max(self.constants - most, 0)
        return replace(self, constants=self.constants - left_out, policies=max(self.policies - left_out, 2))


@dataclass(frozen=True)
class ExplorationConfig:
    """How proposals differ from the search centre, measured by the change of the raw output."""

    noise: float = 0.0
    """Root-mean-square change of the raw outputs, all together, by which a proposal differs from the centre; 0
    proposes the centre itself, as Algorithm 1 does."""
    random: float = 0.0
    """Proposal k is a random policy instead with probability `random`/k. Where random policies have shorter episodes
    than the others, the probability is higher, so that they take that share of the environment steps, up to ½."""
    gain: float = 2.2
    """Root-mean-square raw output of a random policy, in the initial design too."""

    def __post_init__(self) -> None:
        require_not_negative("exploration.noise", self.noise)
        require_not_negative("exploration.random", self.random)
        require_positive("exploration.gain", self.gain)


@dataclass(frozen=True)
class SelectionConfig:
    """Which trajectories of the memory the surrogate is built from."""

    rule: str = "softmax"
    """`softmax` over normalised returns, Eq. (21); `rank`: the same over ranks, which outliers cannot stretch;
    `best`: the highest returns; `uniform`: equal chances; `latest`: the newest. See `core.selection.RULES`."""
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
    weight_cap: float = 0.0
    """No weight counts as more than this, min(w̃, c), where w̃ = 1 on average over the data: the truncation that the
    paper names beside its length-scale. 0 truncates none; at most N_max is ever reached without it."""
    estimator: str = "weighted"
    """Of Eq. (14): `weighted` has Z = Σw (and thereby a baseline, Proposition 1); `importance_sampling` has Z = N;
    `baselined` is Z = N with the optimal baseline of the return; `gradient_baselined` is the same with a gradient
    that has its own optimal baseline; `doubly_robust` is `weighted` with the critic as control variate, where there
    is one. The table is `core.surrogate.ESTIMATORS`."""
    initial_state_correction: bool = False
    """Subtract from the rewards what a linear function of the first observation explains of them, beside what the
    policies explain."""
    epsilon: float = 0.0
    """Added to every denominator by the released code (1e-8): far from data the estimate then falls to 0.
    The paper has none."""
    objective: str = "penalty"
    """`penalty`: Ĵ − ‖R‖∞ γ √(1/ESS), Eq. (20); `lower_bound`: Eq. (19) with δ; `ess_bonus`: the released code's
    Ĵ/‖R‖∞ + γ ESS/N_max; `lower_confidence`, `upper_confidence`, `probability_of_improvement` and
    `expected_improvement` are acquisition functions of Ĵ and its standard error. All are divided by the objective
    scale, which moves no maximum. The table is `core.acquisitions.OBJECTIVES`."""
    width: float = 1.0
    """κ of `lower_confidence` and `upper_confidence`, in standard errors."""
    objective_scale: ObjectiveScaleName = "bound"
    """The return that counts as one in the objective: `bound` is ‖R‖∞, as in the paper; `spread` is the standard
    deviation of the return around the centre, as the weighted data show it, which does not depend on where the
    reward is zero."""
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
        require_not_negative("surrogate.penalty", self.penalty)
        require(self.bound_growth >= 0, f"surrogate.bound_growth must be at least 0, got {self.bound_growth}")
        require_not_negative("surrogate.width", self.width)
        require_not_negative("surrogate.weight_cap", self.weight_cap)
        require(0 <= self.ess_share < 1, f"surrogate.ess_share must lie in [0, 1), got {self.ess_share}")
        require(self.decisions >= 0, f"surrogate.decisions must be at least 0, got {self.decisions}")
        require(0 <= self.epsilon < 1, f"surrogate.epsilon must lie in [0, 1), got {self.epsilon}")


@dataclass(frozen=True)
class SearchConfig:
    """The inner optimisation: from the centre to a maximum of the surrogate objective."""

    method: MethodName = "auto"
    """`gradient` follows the gradient of the surrogate; `gaussian_process` takes the expected improvement of a
    process over the policies' behaviour, for controllers with few parameters; `auto` is the process for those with at
    most 12 declared parameters, else the gradient. Not in the paper."""
    start: StartName = "last"
    """Where a search starts: `last` is where the one before it ended (released code); `selected` is the policy of one
    of the selected trajectories, drawn with the chances of the selection."""
    optimiser: str = "adam"
    """`adam` is the paper's; `momentum` (of the normalised gradient) the released code's; `sgd`; `sghmc` samples.
    The table is `core.optimisers.OPTIMISERS`."""
    learning_rate: float = 0.01
    """Step size. The paper is silent: Adam's customary order of magnitude. Released code: 0.03."""
    momentum: float = 0.75
    """Of `momentum` and, as 1 − friction, of `sghmc` (released code: 0.75)."""
    sghmc_temperature: float = 1e-4
    """Temperature of `sghmc`; 0 turns it into plain momentum."""
    steps: int = 1000
    """At most this many steps per iteration (released code: 1000; the paper: until convergence)."""
    tolerance: float = 1e-3
    """Stop when the standard deviation of the last `window` objective values falls below it (released)."""
    window: int = 9
    """See `tolerance`."""
    keep_opt_state: bool = False
    """Keep the optimiser's state from iteration to iteration (released code: yes)."""
    scale_by_sensitivity: bool = False
    """Measure each parameter by its effect on the raw output: steps, exploration and the saturation penalty then do
    not depend on the scales of the observations."""
    radius: float = 0.0
    """Longest move of the centre per iteration, ‖Δθ‖ in the parameter scale; 0 sets no limit."""
    fisher_damping: float = 0.0
    """Natural gradient with this damping, relative to the mean of the Fisher matrix' diagonal; 0 takes the plain
    gradient. With `sgd` or `momentum` only."""
    saturation_penalty: float = 0.0
    """Weight of log(1 + mean-square raw output), against saturated actions; it fades as data gather."""

    def __post_init__(self) -> None:
        require_positive("search.learning_rate", self.learning_rate)
        require(0 <= self.momentum < 1, f"search.momentum must lie in [0, 1), got {self.momentum}")
        require(self.steps >= 1, f"search.steps must be at least 1, got {self.steps}")
        require(self.window >= 2, f"search.window must be at least 2, got {self.window}")
        for name in ("sghmc_temperature", "tolerance", "radius", "fisher_damping", "saturation_penalty"):
            require_not_negative(f"search.{name}", getattr(self, name))
        require(
            not self.fisher_damping or self.optimiser not in ("adam", "sghmc"),
            f"search.fisher_damping asks for the natural gradient, which search.optimiser {self.optimiser} does not "
            "follow: adam scales each parameter by itself again, and the noise of sghmc is not that of the metric; "
            "choose sgd or momentum",
        )


@dataclass(frozen=True)
class RestartConfig:
    """When the search leaves its centre for the best stored policy."""

    threshold: float = 0.0
    """The search starts from the stored policy of the highest estimate if that is better than the centre by this
    many objective scales; 0 never does."""

    def __post_init__(self) -> None:
        require_not_negative("restart.threshold", self.threshold)


@dataclass(frozen=True)
class IncumbentConfig:
    """Which policy is handed over."""

    rule: IncumbentRuleName = "rollout"
    """Without a moving average: the policy of the best single `rollout` (released code), or the stored policy for
    which the search objective is highest, an `estimate` that rests on all the selected trajectories."""
    ema_rate: float = 0.0
    """The incumbent is an exponential moving average of the centre with this rate; 0 makes it the policy of the best
    single rollout, as the released code does (the paper does not say which policy its curves show)."""
    recheck_share: float = 0.0
    """Share of rollouts that play the moving average itself again, once the search has annealed; the incumbent is
    then replaced only by a policy whose re-check did not disappoint. 0 hands over the moving average unchecked."""

    def __post_init__(self) -> None:
        require_not_negative("incumbent.ema_rate", self.ema_rate)
        require(
            0 <= self.recheck_share < 1,
            f"incumbent.recheck_share must lie in [0, 1), got {self.recheck_share}",
        )


@dataclass(frozen=True)
class AnnealingConfig:
    """How the search slows down as experience gathers."""

    episodes: float = 0.0
    """Episodes' worth of steps (steps / horizon) after which annealing begins: from then on, steps, perturbations and
    the moving average shrink as one over the root of the experience, the saturation penalty and the readiness to
    restart as one over it. 0 never anneals."""

    def __post_init__(self) -> None:
        require_not_negative("annealing.episodes", self.episodes)


@dataclass(frozen=True)
class CriticConfig:
    """A soft actor-critic over all transitions, which proposes policies."""

    updates: float = 0.0
    """Updates of the critic per environment step in the end; there are more while data are few. 0 does without a
    critic."""
    hidden: tuple[int, ...] = (64, 64)
    """Units of the hidden layers of its two networks."""
    learning_rate: float = 1e-3
    """Of Adam, for the networks and the actor."""
    discount: float = 0.99
    """γ of what it learns; no more than 1 − 1/horizon is used. The return that is sought keeps its own."""

    def __post_init__(self) -> None:
        require_not_negative("critic.updates", self.updates)
        require_positive("critic.learning_rate", self.learning_rate)
        require(0 < self.discount < 1, f"critic.discount must lie in (0, 1), got {self.discount}")


@dataclass(frozen=True)
class Config:
    """Everything that defines a learner; the same config, seed and machine give the same run.

    Example:
        >>> import dataclasses
        >>> config = preset("default")
        >>> wider = dataclasses.replace(config, search=dataclasses.replace(config.search, radius=1.0))
        >>> wider.search.radius
        1.0
    """

    policy: PolicyConfig = field(default_factory=PolicyConfig)
    design: DesignConfig = field(default_factory=DesignConfig)
    exploration: ExplorationConfig = field(default_factory=ExplorationConfig)
    selection: SelectionConfig = field(default_factory=SelectionConfig)
    surrogate: SurrogateConfig = field(default_factory=SurrogateConfig)
    search: SearchConfig = field(default_factory=SearchConfig)
    restart: RestartConfig = field(default_factory=RestartConfig)
    incumbent: IncumbentConfig = field(default_factory=IncumbentConfig)
    annealing: AnnealingConfig = field(default_factory=AnnealingConfig)
    critic: CriticConfig = field(default_factory=CriticConfig)
    discount: float = 1.0
    """γ of the return below Eq. (1). The paper does not say its value; the released code adds rewards up
    undiscounted."""

    def __post_init__(self) -> None:
        require(0 < self.discount <= 1, f"discount must lie in (0, 1], got {self.discount}")
        measured = self.exploration.noise, self.search.saturation_penalty, self.design.constants
        require(
            self.search.scale_by_sensitivity or not any((*measured, self.critic.updates)),
            "exploration.noise, search.saturation_penalty, design.constants and the search beside a critic are "
            "measured by what parameters do; set search.scale_by_sensitivity",
        )
        require(
            self.surrogate.estimator != "doubly_robust" or self.critic.updates > 0,
            "surrogate.estimator doubly_robust rests on a critic; set critic.updates, or choose another estimator",
        )
        require(
            not self.incumbent.recheck_share or (self.annealing.episodes > 0 and self.incumbent.ema_rate > 0),
            "incumbent.recheck_share guards the moving average of a search that anneals; set incumbent.ema_rate and "
            "annealing.episodes",
        )


PAPER = Config(
    policy=PolicyConfig(hidden=(16, 16), squash=True),  # normalised actions, as its rivals have them
    design=DesignConfig(policies=5, spread=0.3),
    selection=SelectionConfig(rule="softmax", size=50, temperature=0.1, replacement=True, keep_last=10),
    surrogate=SurrogateConfig(length_scale=(math.exp(1.5),), penalty=0.05),
    search=SearchConfig(start="selected"),
    incumbent=IncumbentConfig(rule="estimate"),
)

RELEASED = Config(
    selection=SelectionConfig(replacement=False, keep_last=3),
    surrogate=SurrogateConfig(
        length_scale=(math.exp(3.0),), epsilon=1e-8, objective="ess_bonus", bound_growth=0.1, delta=0.1
    ),
    search=SearchConfig(optimiser="momentum", learning_rate=0.03, keep_opt_state=True),
)

TRAJECTORY = Config(
    policy=PolicyConfig(hidden=(), squash=True),
    design=DesignConfig(policies=8, constants=4),
    exploration=ExplorationConfig(noise=1.2, random=3.0, gain=2.24),
    selection=SelectionConfig(rule="latest", size=50),
    surrogate=SurrogateConfig(
        length_scale=(1.0,),
        ess_share=0.15,
        decisions=100,
        initial_state_correction=True,
        objective_scale="spread",
        penalty=0.15,
    ),
    search=SearchConfig(
        optimiser="adam",
        learning_rate=0.0825,
        steps=15,
        tolerance=0.0,
        scale_by_sensitivity=True,
        radius=0.7,
        saturation_penalty=0.5,
    ),
    restart=RestartConfig(threshold=1.0),
    incumbent=IncumbentConfig(ema_rate=0.2, recheck_share=0.2),
    annealing=AnnealingConfig(episodes=12.0),
)

DEFAULT = replace(
    TRAJECTORY,
    policy=PolicyConfig(hidden=(64, 64), linear_path=True, squash=True),
    design=DesignConfig(policies=8, constants=4, constants_per_action=2),
    search=replace(TRAJECTORY.search, radius=0.0),
    incumbent=IncumbentConfig(ema_rate=0.2, recheck_share=0.25),
    critic=CriticConfig(updates=2.0, hidden=(128, 128), discount=0.995),
)

PRESETS = {"default": DEFAULT, "trajectory": TRAJECTORY, "paper": PAPER, "released": RELEASED}


def preset(name: str) -> Config:
    """The configuration of that name.

    Args:
        name: `default` (ours), `trajectory` (ours without a critic), `paper` (the paper's equations, table and prose)
            or `released` (the authors' code).

    Returns:
        A frozen record; `dataclasses.replace` makes another one of it.

    Raises:
        UnknownNameError: if there is no such preset.

    Example:
        >>> preset("paper").selection.size
        50
    """
    if name not in PRESETS:
        raise unknown("preset", name, PRESETS)
    return PRESETS[name]
