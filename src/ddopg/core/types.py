"""The nouns. Immutable records; axis letters are the same everywhere:

N trajectories · H steps (horizon, padded) · T of them compared · K times at which weights are formed ·
O observation · A action · D policy parameters.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ddopg._version import __version__
from ddopg.config import Config
from ddopg.core.problem import Problem
from ddopg.errors import TrajectoryError, require, require_whole
from ddopg.parameters import Parameter
from ddopg.support.showing import show_line, show_table

if TYPE_CHECKING:
    from jax import Array


HostOrDevice = Any
"""A NumPy array on the host, or a JAX array within a compiled program."""


class Trajectory(NamedTuple):
    """One rollout of one deterministic policy, padded to the horizon. `make_trajectory` makes one of your arrays.

    Example:
        >>> trajectory = ddopg.DDOPG("cartpole", seed=0).learn(total_episodes=1).state.memory.trajectories[0]
        >>> trajectory.observations.shape, trajectory.horizon
        ((100, 4), 100)
    """

    theta: np.ndarray  # (D,)   float32, the parameters that acted; (0,) where nobody knows them
    observations: np.ndarray  # (H, O) float32, what the policy saw before each action
    actions: np.ndarray  # (H, A) float32, what the policy answered (before any clipping by the environment)
    rewards: np.ndarray  # (H,)   float64, zero after the end
    alive: np.ndarray  # (H,)   bool, true for the steps that happened
    terminated: bool  # the task ended the episode
    truncated: bool  # the clock ended it
    seed: int  # `rollout(env, policy, theta, seed)` plays it again, but for noise; −1: it cannot be replayed
    context: np.ndarray = np.zeros(
        0, np.float32
    )  # (C,) float32, what the world fixed for this rollout, if it is told

    @property
    def length(self) -> int:
        """The number of environment steps it cost."""
        return int(np.count_nonzero(self.alive))

    @property
    def horizon(self) -> int:
        """The padded length."""
        return len(self.alive)

    def __repr__(self) -> str:
        return show_line("Trajectory", self._facts())

    def _repr_html_(self) -> str:
        return show_table("Trajectory", self._facts())

    def _facts(self) -> dict[str, Any]:
        end = "terminated" if self.terminated else "truncated" if self.truncated else None
        earned = float(np.sum(self.rewards))
        return {
            "steps": self.length,
            "horizon": self.horizon,
            "reward": earned,
            "end": end,
            "seed": self.seed,
        }


def is_same_experience(one: Trajectory, other: Trajectory) -> bool:
    """Whether two trajectories saw, did and earned the same, bit for bit, whoever acted."""
    return (
        one.terminated == other.terminated
        and np.array_equal(one.alive, other.alive)
        and np.array_equal(one.observations, other.observations)
        and np.array_equal(one.actions, other.actions)
        and np.array_equal(one.rewards, other.rewards)
        and np.array_equal(one.context, other.context)
    )


class ControlVariate(NamedTuple):
    """What a critic says of the selected trajectories, for `estimators.doubly_robust_return`.

    It is discounted in its own way, and has pay for entropy in it: any function does, the better one does more.
    """

    networks: Any  # both of the critic's
    mean: Array  # (O,) of the observations
    deviation: Array  # (O,) of the observations
    units: Array  # (T,) what counts as one in the networks at each time compared, in reward scales
    zero: Array  # () what counts as zero in the networks, in units
    lengths: Array  # (T,) steps that each compared one stands for, if the episode goes on
    taken: Array | None = None  # (N, T) Q̂ of each step compared; 0 after the end
    stored: Array | None = None  # (N, N, T) V̂ of each path (column) under each policy (row); 0 after the end
    values: Array | None = None  # (N, T) V̂ at the policy in question


class SurrogateData(NamedTuple):
    """The selected trajectories, stacked and padded to N rows: all that the surrogate knows.

    Whole paths have K = 1: one weight each, for the whole return. Per-decision weights have K > 1: the
    rewards of each stretch of time are weighted by the likelihood of the path up to it.
    """

    thetas: Array  # (N, D)
    observations: Array  # (N, T, O)
    actions: Array  # (N, T, A)
    step_counts: Array  # (N, T) steps of the episode that each compared action stands for; 0 after the end
    rewards: Array  # (N, K) in reward scales
    log_p: Array  # (N, N, K) log-likelihood of each path (column) up to each time under each policy (row)
    log_q: Array  # (N, K) their log mixture over the policies
    counts: Array  # (N,) how often each was drawn; 0 marks a padding row
    inverse_temperature: Array  # () factor on every log-likelihood: 1 where Σ is given, else from the data
    real: Array | None = (
        None  # (M,) the steps of whole paths that count, as places in (N·T); beyond it padding
    )
    score_norms: Array | None = (
        None  # (N, K) squared, at the policy in question, where an estimator asks for them
    )
    times: Array | None = None  # (N, T) the steps compared, where a policy with a memory sees all (N, H, O)
    control: ControlVariate | None = None  # where an estimator asks for it, and there is a critic

    @property
    def returns(self) -> Array:
        """R(τ), (N,)."""
        return self.rewards.sum(axis=-1)

    def at_stored(self, index: Array) -> SurrogateData:
        """The same with V̂ under the stored policy of that row, where there is a critic."""
        if self.control is None or self.control.stored is None:
            return self
        return self._replace(control=self.control._replace(values=self.control.stored[index]))


class Estimate(NamedTuple):
    """What the surrogate says about one policy."""

    mean: Array  # Ĵ(θ)
    variance: Array  # of the return under θ, as the weighted data show it
    ess: Array  # effective sample size, 1 ≤ ESS ≤ N
    standard_error: Array  # of the mean; it grows to the spread of all returns where few trajectories speak
    lower_bound: Array  # with probability 1 − δ
    weights: Array  # (N,) self-normalised


class Failure(NamedTuple):
    """A rollout that could not be used."""

    proposal: int
    seed: int
    attempt: int  # 1 is the first
    steps: int  # environment steps that are known to have happened
    reason: str


class Evaluation(NamedTuple):
    """The incumbent on fresh episodes."""

    rollout: int
    steps: int
    mean: float
    std: float
    worst: float
    episodes: int

    @classmethod
    def of(cls, rollout: int, steps: int, returns: np.ndarray) -> Evaluation:
        """From the returns of the episodes."""
        values = (float(returns.mean()), float(returns.std()), float(returns.min()))
        return cls(rollout, steps, *values, len(returns))


class Description(NamedTuple):
    """What a run is about; written once."""

    problem: Problem
    config: Config
    environment: str | None = None  # how to make it, if it has a name
    command: dict[str, Any] = {}  # noqa: RUF012  what the command line was told
    version: str = __version__  # that wrote it
    own_policy: int = 0  # parameters of the user's own policy class; 0: the configured one
    parameters: tuple[Parameter, ...] = ()  # those that a controller declares
    policy_home: str = ""  # `module:name` of the user's own policy class, where it was imported by that


def compute_return(rewards: np.ndarray, discount: float = 1.0) -> float:
    """R(τ) = Σₜ γᵗ rₜ, the (discounted) return below Eq. (1). Rewards after the end are zero.

    Args:
        rewards: rₜ, (H,).
        discount: γ.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        return float(np.sum(rewards * discount ** np.arange(len(rewards))))


def make_trajectory(
    theta: Any,
    observations: Any,
    actions: Any,
    rewards: Any,
    *,
    horizon: int,
    terminated: bool = False,
    truncated: bool | None = None,
    seed: int = -1,
    context: Any = None,
) -> Trajectory:
    """Check the arrays of one episode (T ≤ horizon steps) and pad them with zeros to the horizon.

    More than seven parameters: each is one thing that a log says of an episode; all but the arrays are keywords.

    Args:
        theta: the parameters that acted, (D,), or None where nobody knows them.
        observations: what the policy saw before each action, (T, O).
        actions: what the policy answered, before any clipping by the environment, (T, A).
        rewards: what each step earned, (T,).
        horizon: the longest episode of the problem, H.
        terminated: the task ended the episode: it fell, or it was solved.
        truncated: the clock or the operator ended it; by default, if it did not terminate.
        seed: what the environment was reset with, or −1 if the episode cannot be replayed.
        context: what the world fixed for this rollout, (C,): a friction, a load. See `DDOPG.tell`.

    Returns:
        The trajectory, for `agent.tell` or `agent.add`.

    Raises:
        TrajectoryError: if lengths or shapes do not fit, or a number is not finite.

    Example:
        >>> trajectory = make_trajectory(None, [[0.1], [0.2]], [[1.0], [0.5]], [1.0, 1.0], horizon=5)
        >>> trajectory.length, trajectory.horizon, trajectory.truncated
        (2, 5, True)
    """
    theta = _read_theta(theta)
    rewards = read_rewards(rewards)
    horizon = require_whole("the horizon", horizon)
    observations = _finite("observations", observations, np.float32, ndim=2)
    actions = _finite("actions", actions, np.float32, ndim=2)
    steps = len(rewards)
    require(
        0 < steps <= horizon,
        f"a trajectory must have between 1 and {horizon} steps (the horizon), got {steps}; "
        "cut it, or make the learner with a longer horizon",
        TrajectoryError,
    )
    require(
        len(observations) == len(actions) == steps,
        f"observations, actions and rewards must have one row per step, got {len(observations)}, "
        f"{len(actions)} and {steps}; leave out the observation after the last action",
        TrajectoryError,
    )
    return Trajectory(
        theta=theta,
        observations=_pad(observations, horizon),
        actions=_pad(actions, horizon),
        rewards=_pad(rewards, horizon),
        alive=np.arange(horizon) < steps,
        terminated=bool(terminated),
        truncated=bool(not terminated if truncated is None else truncated),
        seed=int(seed),
        context=read_context(context),
    )


def read_rewards(rewards: Any) -> np.ndarray:
    """The rewards of a user as an array of its own, (T,), float64.

    Raises:
        TrajectoryError: if they are not a row of finite numbers.
    """
    return _finite("rewards", rewards, np.float64, ndim=1).copy()


def _read_theta(theta: Any) -> np.ndarray:
    try:
        return np.asarray([] if theta is None else theta, np.float32)
    except (TypeError, ValueError) as error:
        raise TrajectoryError(
            f"theta must be the parameters that acted, or None where nobody knows them: {error}"
        ) from error


def read_context(values: Any) -> np.ndarray:
    """What the world fixed for a rollout as an array (C,), float32; empty for None.

    Raises:
        TrajectoryError: if it is not a row of finite numbers.
    """
    try:
        context = np.atleast_1d(np.asarray([] if values is None else values, np.float32))
    except (TypeError, ValueError) as error:
        raise TrajectoryError(f"context must be numbers: {error}") from error
    require(
        context.ndim == 1 and bool(np.isfinite(context).all()),
        f"context must be a row of finite numbers, the same ones for every rollout, got {values!r:.80}",
        TrajectoryError,
    )
    return context


def check_trajectory(trajectory: Trajectory) -> None:
    """Refuse a trajectory that `make_trajectory` could not have made: types, NaN, gaps, something after the end."""
    kinds = {
        "theta": "float32",
        "observations": "float32",
        "actions": "float32",
        "rewards": "float64",
        "alive": "bool",
        "context": "float32",
    }
    steps = trajectory.length
    for name, kind in kinds.items():
        array = getattr(trajectory, name)
        after = array[steps:] if name not in ("theta", "context") else array[:0]
        require(
            array.dtype == kind and bool(np.isfinite(array).all()) and not after.any(),
            f"the trajectory's {name} must be finite {kind}, and zero after its {steps} steps; build it with "
            "make_trajectory or proposal.trajectory",
            TrajectoryError,
        )
    require(
        steps > 0 and bool(trajectory.alive[:steps].all()), "the trajectory has no steps", TrajectoryError
    )


def _finite(name: str, values: Any, dtype: type, ndim: int) -> np.ndarray:
    try:
        array: np.ndarray = np.asarray(values, dtype)
    except (TypeError, ValueError) as error:
        raise TrajectoryError(f"{name} must be an array of numbers: {error}") from error
    require(
        array.ndim == ndim,
        f"{name} must have {ndim} axes {('(steps,)', '(steps, size)')[ndim - 1]}, got shape {array.shape}; "
        "reshape it so that the first axis is time",
        TrajectoryError,
    )
    bad = np.argwhere(~np.isfinite(array))
    if len(bad):
        raise TrajectoryError(
            f"{name} must be finite, got {array[tuple(bad[0])]} at step {bad[0][0]} "
            f"({len(bad)} such values); repair the sensor or cut the episode before that step"
        )
    return array


def _pad(array: np.ndarray, horizon: int) -> np.ndarray:
    out = np.zeros((horizon, *array.shape[1:]), array.dtype)
    out[: len(array)] = array
    return out
