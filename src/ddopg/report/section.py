"""The surrogate along lines through the incumbent, as distances from which a page computes it for any Σ.

For the evaluation policy N(μ_θ(s), Σ), Σ = σ² · diag(base²), the log-likelihood of trajectory i under θ is
−½ Dᵢ(θ)/σ² + const, with Dᵢ(θ) = Σₜ ‖(aₜ − μ_θ(sₜ))/base‖². The constant cancels in the weights of Eq. (15), so the
distances of the N trajectories to each other's policies, and to the policies of a line, are all that the estimator of
whole trajectories needs.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import jax
import numpy as np

from ddopg.config import SurrogateConfig
from ddopg.core.algorithm import build_surrogate_data
from ddopg.core.control_variate import make_data_fn
from ddopg.core.param_scaling import scale_params
from ddopg.core.policy_building import build_policy
from ddopg.core.seeding import make_rng
from ddopg.core.selection import RULES
from ddopg.core.state import count_of_search
from ddopg.core.surrogate import ESTIMATORS, estimate, length_scales, log_weights
from ddopg.core.types import Estimate, SurrogateData
from ddopg.policies import Policy
from ddopg.report.numbers import encode_array, round_number, round_numbers
from ddopg.storage.reading import Reading
from ddopg.support.compilation import in_float32

POINTS = 81  # of each line, the incumbent in the middle
MOST_TRAJECTORIES = 100  # whose distances are kept; a page must stay small
SHORTEST = 1e-6  # a direction shorter than this share of the usual distance between policies is none


class Line(NamedTuple):
    """θ* + t · v, where t is measured in the search's units of the parameters."""

    name: str
    label: str
    towards: np.ndarray  # (D,) v, of length 1 in units
    extent: float  # |t| ≤ extent
    marks: dict[str, float]  # what lies on it: name → t


class Sample(NamedTuple):
    """The trajectories of the surrogate and the length-scale that the run takes for them."""

    data: SurrogateData
    rows: np.ndarray  # (N,) of the data that the page gets
    indices: np.ndarray  # (N,) of the trajectories in the memory
    counts: np.ndarray  # (N,)
    selected: int  # trajectories in the run's own surrogate
    param_scale: np.ndarray  # (D,)
    base: np.ndarray  # (A,) what σ = 1 means
    sigma: float  # of the run
    reward_scale: float  # of the data


@in_float32
def build_section(reading: Reading) -> dict[str, Any]:
    """Build what the page needs to draw the surrogate of a run.

    Args:
        reading: the run.

    Returns:
        Plain values and encoded arrays, or `{"missing": why}`.
    """
    state, config = reading.state, reading.about.config
    missing = explain_missing(reading)
    if missing:
        return {"missing": missing}
    policy = build_policy(reading.about.problem, config)
    sample = choose_sample(reading, policy)
    chosen = sample.indices
    return {
        "rollouts": (chosen + 1).tolist(),
        "counts": sample.counts.tolist(),
        "returns": round_numbers([state.memory.returns[i] for i in chosen]),
        "between": encode_array(
            compute_distances(policy, np.asarray(sample.data.thetas)[sample.rows], sample)
        ),
        "sigma": sample.sigma,
        "base": round_numbers(sample.base),
        "squashed": config.policy.squash,
        "bound": round_number(state.return_bound),
        "delta": config.surrogate.delta,
        "selected": sample.selected,
        "lines": [_describe_line(line, reading, policy, sample) for line in choose_lines(reading, sample)],
    }


def explain_missing(reading: Reading) -> str:
    """Why the page cannot show the surrogate of the run.

    Args:
        reading: the run.

    Returns:
        One sentence for the page; empty if nothing is missing.
    """
    config = reading.about.config
    size = count_of_search(reading.state.memory)
    if size < config.design.policies:
        told = f"{size} of the {config.design.policies} rollouts of the initial design are there"
        return f"There is no surrogate yet: {told}."
    if not reading.about.own_policy and build_policy(reading.about.problem, config).recurrence is not None:
        return "The run's policy has a memory, which this page does not replay: no surrogate."
    if reading.about.own_policy:
        return "The run has a policy class of its own, which this page cannot act with: no surrogate."
    for kind, name, table in (
        ("selection rule", config.selection.rule, RULES),
        ("estimator", config.surrogate.estimator, ESTIMATORS),
    ):
        if name not in table:
            return (
                f"The run has {'an' if kind[0] == 'e' else 'a'} {kind} of its own, {name!r}, which was not in its "
                "table when this page was made: no surrogate."
            )
    return ""


def choose_sample(reading: Reading, policy: Policy) -> Sample:
    """Choose the trajectories that the next search of the run would rest on.

    Args:
        reading: the run.
        policy: its policy class.

    Returns:
        Those trajectories; if there are too many for a page, those of the largest weight.
    """
    config, state = reading.about.config.surrogate, reading.state
    surrogate = build_surrogate_data(state, policy, reading.about.config)
    data, (selection, param_scale, reward_scale) = surrogate.data, surrogate.sample
    weights = np.asarray(_believe(policy, config, state.incumbent.theta, data).weights)
    heaviest = np.argsort(-weights[: len(selection.indices)], kind="stable")[:MOST_TRAJECTORIES]
    rows, scales = np.sort(heaviest), length_scales(policy, config)
    return Sample(
        data=data,
        rows=rows,
        indices=selection.indices[rows],
        counts=selection.counts[rows],
        selected=len(selection.indices),
        param_scale=np.where(param_scale > 0, param_scale, 0.0).astype(np.float64),
        base=scales / config.length_scale[0],
        sigma=config.length_scale[0] / float(np.sqrt(data.inverse_temperature)),
        reward_scale=reward_scale,
    )


def compute_distances(policy: Policy, thetas: np.ndarray, sample: Sample) -> np.ndarray:
    """D = Σₜ ‖(aₜ − μ_θ(sₜ))/base‖², at the times at which the run compares actions.

    Args:
        policy: the policy class.
        thetas: the parameters of P policies, (P, D).
        sample: the trajectories.

    Returns:
        The squared distance of each policy to each trajectory, (P, N).
    """
    observations, actions, step_counts = (
        np.asarray(array, np.float64)[sample.rows]
        for array in (sample.data.observations, sample.data.actions, sample.data.step_counts)
    )
    scaled = np.empty((len(thetas), len(sample.rows)))
    for row, theta in zip(scaled, thetas.astype(np.float64), strict=True):
        difference = (actions - policy.act(theta, observations)) / sample.base
        row[:] = np.einsum("nt,nta->n", step_counts, np.square(difference))
    return scaled


def choose_lines(reading: Reading, sample: Sample) -> list[Line]:
    """Choose the directions that the page offers.

    Args:
        reading: the run.
        sample: its trajectories.

    Returns:
        Lines through the incumbent: towards the centre of the search, towards the best rollout (both only if it lies
        elsewhere), in the main direction of the stored policies, and in a random direction.
    """
    state, here = reading.state, reading.state.incumbent.theta
    apart = _scale(np.asarray(sample.data.thetas)[sample.rows] - here, sample.param_scale)
    usual = float(np.median(np.linalg.norm(apart, axis=1))) or 1.0
    best = int(np.argmax(state.memory.returns))
    places = {
        "centre": ("towards the centre of the search", state.centre),
        "best": (f"towards the best rollout, no. {best + 1}", state.memory.trajectories[best].theta),
    }
    found = []
    for name, (label, place) in places.items():
        towards = _scale(place - here, sample.param_scale)
        length = float(np.linalg.norm(towards))
        if length > SHORTEST * usual:
            mark = {"centre": "centre of the search", "best": f"rollout {best + 1}"}[name]
            found.append(Line(name, label, towards / length, 1.2 * max(usual, length), {mark: length}))
    main = np.linalg.svd(apart - apart.mean(axis=0), full_matrices=False)[2][0]
    random = make_rng(state.seed, 0, "report").standard_normal(len(here)) * (sample.param_scale > 0)
    size = float(np.linalg.norm(random)) or 1.0
    spread = 1.2 * max(usual, float(np.max(np.abs(apart @ main))))
    found.append(Line("main", "main direction of the stored policies", main, spread, {}))
    found.append(Line("random", "a random direction", random / size, 1.2 * usual, {}))
    return found


def place_policies(line: Line, here: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """Place policies along a line.

    Args:
        line: the direction and how far it goes.
        here: the incumbent, (D,).
        scale: of each parameter, (D,).

    Returns:
        The parameters at the points of the line, (P, D).
    """
    t = np.linspace(-line.extent, line.extent, POINTS)
    return here + t[:, None] * (line.towards * scale)


def _describe_line(line: Line, reading: Reading, policy: Policy, sample: Sample) -> dict[str, Any]:
    here = reading.state.incumbent.theta.astype(np.float64)
    thetas = place_policies(line, here, sample.param_scale)
    apart = _scale(np.asarray(sample.data.thetas, np.float64)[sample.rows] - here, sample.param_scale)
    at = apart @ line.towards
    return {
        "name": line.name,
        "label": line.label,
        "extent": line.extent,
        "points": POINTS,
        "marks": [{"label": label, "t": t} for label, t in line.marks.items()],
        "distances": encode_array(compute_distances(policy, thetas, sample)),
        "at": round_numbers(at),
        "off": round_numbers(np.linalg.norm(apart - at[:, None] * line.towards, axis=1)),
        "own": _estimate_as_the_run(thetas, reading, policy, sample),
    }


def _estimate_as_the_run(
    thetas: np.ndarray, reading: Reading, policy: Policy, sample: Sample
) -> list[float | None] | None:
    """Ĵ along the line as the run itself computes it; None where that is the estimator of the page.

    The page knows the weighted estimator of whole paths and no other. All others are computed here by the library,
    from the table of estimators: a new one needs no change of the report.
    """
    config = reading.about.config.surrogate
    whole = config.estimator == "weighted" and not (
        config.decisions or config.initial_state_correction or config.epsilon or config.weight_cap
    )
    if whole and sample.selected == len(sample.rows):
        return None
    means = [_believe(policy, config, theta, sample.data).mean for theta in thetas.astype(np.float32)]
    return round_numbers(sample.reward_scale * np.asarray(means, np.float64))


def _scale(thetas: np.ndarray, param_scale: np.ndarray) -> np.ndarray:
    """In parameter scales; what is no number is 0."""
    return np.nan_to_num(scale_params(thetas, param_scale, np))


@partial(jax.jit, static_argnames=("policy", "config"))
def _believe(policy: Policy, config: SurrogateConfig, theta: jax.Array, data: SurrogateData) -> Estimate:
    """What the run's own surrogate says of θ."""
    return estimate(log_weights(policy, theta, data, config), make_data_fn(policy, data)(theta), 1.0, config)
