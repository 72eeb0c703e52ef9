"""The parameters of a controller for the page: what they are declared as, what they are now, how they moved."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ddopg.parameters import Parameter, decode_parameters
from ddopg.report.numbers import round_number, round_numbers
from ddopg.storage.reading import Reading

MOST_DRAWN = 12  # free parameters whose values over the rollouts are drawn
NEAR = 1e-5  # relative distance to a bound that counts as being there: float32 has seven digits


def describe_controller(reading: Reading, kept: Sequence[int]) -> dict[str, Any]:
    """Describe the declared parameters of a run; their declaration is in the run, so no class is needed.

    Args:
        reading: the run.
        kept: indices of the rollouts that the page draws.

    Returns:
        `parameters`: the declaration with the incumbent's values, in real units; `drawn`: of the first free ones the
        place in the declaration and the value in every kept rollout. Empty for a network.
    """
    declared, memory = reading.about.parameters, reading.state.memory
    if not declared:
        return {}
    now = decode_parameters(declared, reading.state.incumbent.theta)
    values = np.array([decode_parameters(declared, memory.trajectories[i].theta) for i in kept])
    free = [i for i, each in enumerate(declared) if not each.fixed][:MOST_DRAWN]
    return {
        "parameters": [_describe(each, float(value)) for each, value in zip(declared, now, strict=True)],
        "drawn": [{"parameter": i, "values": round_numbers(values[:, i])} for i in free],
    }


def _describe(each: Parameter, value: float) -> dict[str, Any]:
    low, high = each.bounds or (-math.inf, math.inf)
    at = [name for name, end in (("lower", low), ("upper", high)) if math.isclose(value, end, rel_tol=NEAR)]
    return {
        "name": each.name,
        "unit": each.unit,
        "value": round_number(value),
        "start": round_number(each.start),
        "bounds": round_numbers([low, high]),
        "fixed": each.fixed,
        "log": each.is_log,
        "at_bound": at[0] if at and not each.fixed else "",
    }
