"""Parameters of a controller: from real units to the coordinates of the search and back, and what is refused."""

import json

import jax.numpy as jnp
import numpy as np
import pytest

from ddopg.errors import ConfigError
from ddopg.parameters import (
    Parameter,
    check_parameters,
    decode_parameters,
    encode_parameters,
    parameters_from_dict,
    parameters_to_dict,
    reflect,
    search_limits,
)

KP = Parameter("kp", 2.0, bounds=(0.2, 50.0), unit="N/m")
KD = Parameter("kd", 0.5, bounds=(0.0, 4.0))
DT = Parameter("dt", 0.05, fixed=True, unit="s")
BIAS = Parameter("bias", -1.0, scale=0.5)
TAU = Parameter("tau", 0.3, log=True, scale=3.0)
ALL = check_parameters([KP, DT, KD, BIAS, TAU])


class TestTheCoordinates:
    def test_zero_is_the_start_of_every_parameter(self):
        assert decode_parameters(ALL, np.zeros(4)).tolist() == [2.0, 0.05, 0.5, -1.0, 0.3]

    def test_one_is_one_scale_away(self):
        values = decode_parameters(ALL, np.ones(4))
        np.testing.assert_allclose(values, [2.0 * 250**0.25, 0.05, 1.5, -0.5, 0.9], rtol=1e-12)

    def test_the_bounds_map_onto_the_limits_and_back(self):
        low, high = search_limits(ALL)
        np.testing.assert_allclose(decode_parameters(ALL, low)[[0, 2]], [0.2, 0.0], atol=1e-6)
        np.testing.assert_allclose(decode_parameters(ALL, high)[[0, 2]], [50.0, 4.0], rtol=1e-6)
        assert low[2] == low[3] == -np.inf

    def test_no_coordinate_leads_beyond_the_bounds(self):
        values = decode_parameters(ALL, np.array([99.0, -99.0, 0.0, 0.0]))
        assert values[0] == 50.0
        assert values[2] == 0.0

    def test_encoding_is_the_inverse(self):
        chosen = {"kp": 7.0, "kd": 3.0, "bias": 4.0, "tau": 0.01}
        values = decode_parameters(ALL, encode_parameters(ALL, chosen))
        np.testing.assert_allclose(values, [7.0, 0.05, 3.0, 4.0, 0.01], rtol=1e-6)

    def test_jax_computes_the_same(self):
        theta = np.array([0.3, -0.2, 1.0, -2.0], np.float32)
        np.testing.assert_allclose(
            decode_parameters(ALL, jnp.asarray(theta), jnp), decode_parameters(ALL, theta), rtol=1e-6
        )

    def test_what_lies_beyond_a_limit_is_mirrored_and_never_outside(self):
        limits = (np.array([-1.0, -np.inf, 0.0]), np.array([1.0, 2.0, 0.5]))
        assert reflect(np.array([-1.25, 2.5, 0.25]), limits).tolist() == [-0.75, 1.5, 0.25]
        assert reflect(np.array([9.0, -9.0, -9.0]), limits).tolist() == [-1.0, -9.0, 0.0]

    def test_positive_bounds_a_decade_apart_are_searched_by_the_logarithm(self):
        assert Parameter("a", 1.0, bounds=(0.5, 5.0)).is_log
        assert not Parameter("a", 1.0, bounds=(0.5, 4.9)).is_log
        assert not Parameter("a", 1.0, bounds=(0.0, 50.0)).is_log
        assert not Parameter("a", 1.0, bounds=(0.5, 5.0), log=False).is_log


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (
            [Parameter("kp", 9.0, bounds=(0.0, 4.0))],
            "kp must start at a finite number within its bounds 0.0 to 4.0",
        ),
        ([Parameter("kp", 1.0)], "kp needs finite bounds, or a scale"),
        ([Parameter("kp", 1.0, bounds=(0.0, np.inf))], "kp needs finite bounds, or a scale"),
        ([Parameter("kp", 1.0, bounds=(2.0, 1.0))], "the bounds of kp must have low < high, got 2.0 and 1.0"),
        ([Parameter("kp", 1.0, bounds=(0.0, 1.0, 2.0))], "bounds two of them"),
        ([Parameter("kp", 1.0, bounds=())], "bounds two of them"),
        (Parameter("kp", 1.0, scale=1.0), r"list of Parameters, got Parameter; write \[Parameter"),
        ({"kp": 1.0}, "list of Parameters, got dict"),
        ([Parameter("kp", 1.0, scale=-1.0)], "scale of kp must be finite and above 0"),
        ([Parameter("kp", 1.0, log=True, scale=0.5)], "must be above 1, got 0.5"),
        ([Parameter("kp", -1.0, log=True)], "start and bounds must be positive"),
        (
            [Parameter("kp", 1.0, bounds=(0.0, 4.0), log=True)],
            "set log=False, or a small positive lower bound",
        ),
        ([Parameter("kp", 1.0, scale=1.0), Parameter("kp", 2.0, scale=1.0)], "a name of its own"),
        ([Parameter("dt", 1.0, fixed=True)], "nothing to tune"),
        ([], "nothing to tune"),
        ([("kp", 1.0)], "declared with Parameters, got tuple"),
        ([Parameter("kp", "fast", scale=1.0)], "must be numbers"),
        ([Parameter("kp", 1.0, bounds=3.0)], "must be numbers"),
    ],
)
def test_a_declaration_that_cannot_be_searched_is_refused(wrong, said):
    with pytest.raises(ConfigError, match=said):
        check_parameters(wrong)


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"kq": 1.0}, "no parameter 'kq'"),
        ({"kp": 51.0}, "within its bounds"),
        ({"dt": 0.1}, "is fixed at 0.05"),
    ],
)
def test_values_that_cannot_be_are_refused(values, said):
    with pytest.raises(ConfigError, match=said):
        encode_parameters(ALL, values)


def test_a_declaration_comes_back_from_plain_values():
    half_open = Parameter("gain", 1.0, bounds=(0.0, np.inf), scale=2.0)
    declared = (*ALL, half_open)
    text = json.dumps(parameters_to_dict(declared), allow_nan=False)
    assert parameters_from_dict(json.loads(text)) == declared
