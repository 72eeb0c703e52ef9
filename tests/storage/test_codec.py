"""The codec of the learner's state: bit for bit and back, the bytes of its version, and nothing else is let in."""

import json
import math
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import safetensors
import safetensors.numpy

import ddopg
from ddopg.config import PRESETS, Config, SearchConfig
from ddopg.core.memory import Memory
from ddopg.core.policy_update import init_opt_state
from ddopg.core.state import Incumbent
from ddopg.errors import ArtefactError
from ddopg.storage.codec import VERSION, VERSION_WITH_CRITIC, decode_state, encode_state
from ddopg.storage.tensors import KEY, read_header, write_tensors
from ddopg.support.records import change
from tests.golden.write import STATE
from tests.probes import Follow
from tests.recorded import contents, example_state, is_key, quick

ADAM = Config(search=SearchConfig(optimiser="adam", keep_opt_state=True))
GOLDEN = sorted((Path(__file__).parents[1] / "golden").glob(f"*/{STATE}"))

NAMES = [
    "centre", "ema_params", "incumbent.params", "incumbent.value", "opt_state.0", "opt_state.1", "opt_state.2",
    "param_sensitivity", "pending.params", "return_bound",
]  # fmt: skip
"""The tensors of the example."""


OPTIMISER_STATES = [  # with the damping of the natural gradient, where there may be one
    ("sgd", [], 0.0),
    ("sgd", [], 0.1),
    ("momentum", ["float32"], 0.0),
    ("momentum", ["float32"], 0.1),
    ("adam", ["int32", "float32", "float32"], 0.0),
    ("sghmc", ["float32", "key"], 0.0),
]


def filled(leaf, rng):
    """An array like this one of a fresh optimiser, with other values."""
    if is_key(leaf):
        return jax.random.key(rng.integers(2**31))
    return jnp.asarray(1000 * rng.standard_normal(leaf.shape), leaf.dtype)


def decoded(data, config=ADAM, size=2, memory=None):
    return decode_state(data, Memory() if memory is None else memory, size, config)


class TestThereAndBack:
    @pytest.mark.parametrize("name", PRESETS)
    @pytest.mark.parametrize("episodes", [0, 3, 10])
    def test_the_state_of_a_learner_comes_back_bit_for_bit(self, name, episodes):
        agent = ddopg.DDOPG(Follow(), config=quick(name), seed=3)
        if episodes:
            agent.learn(total_episodes=episodes)
        agent.ask(2)
        state = agent.state
        again = decoded(encode_state(state), agent.config, agent.policy.size, state.memory)
        assert contents(again) == contents(state)
        assert encode_state(again) == encode_state(state)

    @pytest.mark.parametrize(("optimiser", "kinds", "damping"), OPTIMISER_STATES)
    def test_the_state_of_an_optimiser_comes_back_bit_for_bit(self, optimiser, kinds, damping):
        config = quick("released", optimiser=optimiser, fisher_damping=damping)
        rng = np.random.default_rng(0)
        state = example_state(opt_state=tuple(filled(leaf, rng) for leaf in init_opt_state(2, config)))
        again = decoded(encode_state(state), config)
        assert contents(again) == contents(state)
        assert ["key" if is_key(leaf) else leaf.dtype.name for leaf in again.opt_state] == kinds

    @pytest.mark.parametrize(
        ("optimiser", "kinds", "damping"),
        [pytest.param(*one, marks=[] if one[0] == "sghmc" else pytest.mark.slow) for one in OPTIMISER_STATES],
    )
    def test_the_state_that_an_optimiser_leaves_comes_back_bit_for_bit(self, optimiser, kinds, damping):
        config = quick("released", optimiser=optimiser, sghmc_temperature=0.1, fisher_damping=damping)
        agent = ddopg.DDOPG(Follow(), config=config, seed=3).learn(total_episodes=6)
        again = decoded(encode_state(agent.state), config, agent.policy.size, agent.state.memory)
        assert contents(again) == contents(agent.state)
        assert ["key" if is_key(leaf) else leaf.dtype.name for leaf in again.opt_state] == kinds

    @pytest.mark.parametrize("value", [0.0, -0.0, 0.1, 5e-324, 1e308, math.inf, -math.inf, math.nan])
    def test_every_float_comes_back_with_its_bits(self, value):
        params = np.array([value if abs(value) < 1e38 or not math.isfinite(value) else 1e38, 1], np.float32)
        kept = (jnp.int32(0), jnp.asarray(params), jnp.asarray(params))
        state = example_state(
            return_bound=value, incumbent=Incumbent(np.zeros(2, np.float32), value), opt_state=kept
        )
        assert contents(decoded(encode_state(state))) == contents(state)

    @pytest.mark.parametrize("value", [0, 2**31, 2**63, 2**64, 10**4000])
    def test_integers_of_any_size_come_back(self, value):
        one = example_state().pending[0]._replace(number=value, seed=value)
        state = example_state(seed=value, asked=value, steps=value, pending=(one,))
        assert contents(decoded(encode_state(state))) == contents(state)

    def test_an_optimiser_without_state_is_not_one_whose_state_is_not_kept(self):
        sgd = Config(search=SearchConfig(optimiser="sgd", keep_opt_state=True))
        for kept in ((), None):
            assert decoded(encode_state(example_state(opt_state=kept)), sgd).opt_state == kept

    @pytest.mark.parametrize("wrong", [np.zeros(3, np.float32), np.zeros(2)], ids=["shape", "dtype"])
    @pytest.mark.parametrize("name", ["ema_params", "param_sensitivity", "incumbent", "pending"])
    def test_what_could_not_be_read_is_not_written(self, name, wrong):
        state = example_state()
        parts = {"incumbent": state.incumbent._replace(theta=wrong)}
        parts["pending"] = (state.pending[0]._replace(theta=wrong),)
        with pytest.raises(TypeError, match=r"is float\d\d \(\d,\), which a run store cannot hold"):
            encode_state(example_state(**{name: parts.get(name, wrong)}))


class TestTheBytes:
    @pytest.mark.parametrize("path", GOLDEN, ids=lambda path: path.parent.name)
    def test_every_release_s_state_is_read(self, path):
        assert contents(decoded(path.read_bytes())) == contents(example_state())

    def test_they_are_those_of_the_release_whatever_a_field_is_called_in_python(self):
        path = Path(__file__).parents[1] / "golden" / ddopg.__version__ / STATE
        assert encode_state(example_state()) == path.read_bytes()

    def test_any_reader_of_safetensors_understands_them(self, tmp_path):
        (tmp_path / "state").write_bytes(encode_state(example_state()))
        with safetensors.safe_open(tmp_path / "state", framework="np") as file:
            about, names = json.loads(file.metadata()[KEY]), list(file.keys())
            arrays = {name: file.get_tensor(name) for name in names}
        assert about["version"] == VERSION
        assert about["pending"][1] == {"number": 6, "seed": 2**63, "purpose": "check"}
        assert sorted(names) == NAMES
        assert arrays["pending.params"].tolist() == [[0, 0], [1, -0.25]]
        assert arrays["incumbent.value"] == -math.inf

    def test_what_the_library_writes_is_read_as_well(self):
        data = encode_state(example_state())
        tensors, text = safetensors.numpy.load(data), read_header(data).text
        assert contents(decoded(safetensors.numpy.save(tensors, metadata={KEY: text}))) == contents(
            example_state()
        )


class TestForeignBytes:
    """A forger can compute every checksum, so everything is looked at."""

    @staticmethod
    def changed(about=None, tensors=None, without=()):
        data = encode_state(example_state())
        found = {**safetensors.numpy.load(data), **(tensors or {})}
        texts = {**json.loads(read_header(data).text), **(about or {})}
        kept = [{k: v for k, v in table.items() if k not in without} for table in (texts, found)]
        return write_tensors(json.dumps(kept[0]), kept[1])

    def test_the_change_of_nothing_is_let_in(self):
        assert contents(decoded(self.changed())) == contents(example_state())

    @pytest.mark.parametrize("version", [None, 0, VERSION_WITH_CRITIC + 1, "1", 2**70])
    def test_another_version_is_refused_by_its_number(self, version):
        with pytest.raises(
            ArtefactError, match=rf"of version {version!r}, ddopg .* reads {VERSION} and 2; use the"
        ):
            decoded(self.changed({"version": version}))

    def test_a_critic_that_does_not_fit_is_refused(self):
        config = change(quick(), {"critic.updates": 1.0, "critic.hidden": (4,)})
        agent = ddopg.DDOPG(Follow(), config=config, seed=3).learn(total_episodes=9)
        state, data = agent.state, encode_state(agent.state)

        def decode(state, config=config, memory=state.memory):
            return decoded(encode_state(state), config, agent.policy.size, memory)

        assert json.loads(read_header(data).text)["version"] == VERSION_WITH_CRITIC
        assert contents(decode(state)) == contents(state)
        with pytest.raises(ArtefactError, match="no rollout that it could have learnt from"):
            decode(state, memory=Memory())
        with pytest.raises(ArtefactError, match=r"the critic has [0-9]+ parts, expected"):
            decode(state, change(config, {"critic.hidden": (4, 4)}))
        with pytest.raises(ArtefactError, match=r"critic\."):
            decode(state, change(config, {"critic.hidden": (5,)}))
        odd = state.critic._replace(zero=jnp.float32(jnp.nan))
        with pytest.raises(ArtefactError, match=r"critic\.[0-9]+ holds what is not a finite number"):
            decode(state._replace(critic=odd))
        without = {"version": 1} | {
            name: value for name, value in json.loads(read_header(data).text).items() if name != "version"
        }
        with pytest.raises(ArtefactError, match="the learner's state holds"):
            decoded(
                write_tensors(json.dumps(without), safetensors.numpy.load(data)),
                config,
                agent.policy.size,
                state.memory,
            )

    @pytest.mark.parametrize("name", ["centre", "return_bound", "pending.params", "opt_state.1"])
    def test_a_missing_tensor_is_refused(self, name):
        with pytest.raises(ArtefactError, match=rf"tensors \['{name}'\] are missing"):
            decoded(self.changed(without=[name]))

    @pytest.mark.parametrize("name", ["surprise", "opt_state.3", "centre2"])
    def test_a_surplus_tensor_is_refused(self, name):
        with pytest.raises(ArtefactError, match=rf"tensors \['{name}'\] are unknown"):
            decoded(self.changed(tensors={name: np.zeros(2, np.float32)}))

    @pytest.mark.parametrize(
        ("name", "array"),
        [
            ("centre", np.zeros(3, np.float32)),
            ("centre", np.zeros((2, 1), np.float32)),
            ("centre", np.zeros(2, np.float64)),
            ("ema_params", np.zeros(2, np.int32)),
            ("param_sensitivity", np.zeros(0, np.float32)),
            ("incumbent.params", np.zeros(1, np.float32)),
            ("incumbent.value", np.zeros(1, np.float64)),
            ("return_bound", np.zeros((), np.float32)),
            ("pending.params", np.zeros((3, 2), np.float32)),
            ("pending.params", np.zeros((1, 4), np.float32)),
            ("opt_state.0", np.zeros((), np.uint32)),
            ("opt_state.1", np.zeros(3, np.float32)),
        ],
        ids=lambda value: value if isinstance(value, str) else f"{value.dtype}{value.shape}",
    )
    def test_a_misshaped_tensor_is_refused(self, name, array):
        with pytest.raises(ArtefactError, match=f"the tensor {name} is .*, expected"):
            decoded(self.changed(tensors={name: array}))

    @pytest.mark.parametrize("name", ["centre", "ema_params", "incumbent.params", "param_sensitivity"])
    @pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
    def test_parameters_that_are_no_finite_numbers_are_refused(self, name, value):
        data = self.changed(tensors={name: np.array([0, value], np.float32)})
        if name == "param_sensitivity" and not math.isnan(value):
            assert decoded(data).param_sensitivity[1] == value
            return
        with pytest.raises(ArtefactError, match=f"{name} holds what is not a finite number"):
            decoded(data)

    def test_proposals_that_are_no_finite_numbers_are_refused(self):
        with pytest.raises(ArtefactError, match=r"pending\.params holds what is not a finite number"):
            decoded(self.changed(tensors={"pending.params": np.full((2, 2), np.inf, np.float32)}))

    @pytest.mark.parametrize(
        ("about", "message"),
        [
            ({"seed": -1}, "seed of the learner's state is -1, expected int, not negative"),
            ({"seed": 1.0}, "seed .* is 1.0, expected int"),
            ({"asked": True}, "asked .* is True, expected int"),
            ({"steps": None}, "steps .* is None, expected int"),
            ({"steps": "9"}, "steps .* is '9', expected int"),
            ({"pending": {}}, "pending .* is {}, expected list"),
            ({"pending": [7]}, r"a pending proposal holds \[\], expected"),
            ({"pending": [{"number": 1, "seed": 2}]}, "a pending proposal holds"),
            ({"pending": [{"number": 1, "seed": 2, "purpose": 3}]}, "purpose of a pending proposal is 3"),
            ({"pending": [{"number": -1, "seed": 2, "purpose": ""}]}, "number of a pending proposal is -1"),
            ({"opt_state": 2}, "optimiser's state has 2 parts, expected 3"),
            ({"opt_state": None}, r"\['opt_state.0', .* are unknown"),
            ({"surprise": 1}, "the learner's state holds .*'surprise'"),
        ],
    )  # fmt: skip
    def test_odd_counts_and_proposals_are_refused(self, about, message):
        with pytest.raises(ArtefactError, match=message):
            decoded(self.changed(about))

    def test_a_missing_count_is_refused(self):
        for name in ("seed", "asked", "steps", "pending", "opt_state"):
            with pytest.raises(ArtefactError, match="the learner's state holds"):
                decoded(self.changed(without=[name]))

    @pytest.mark.parametrize(
        "text", ["", "{", "[]", "7", "[" * 100_000, '{"version": 1, "seed": 1' + "0" * 5000]
    )
    def test_a_text_that_is_no_table_is_refused(self, text):
        with pytest.raises(ArtefactError, match="the learner's state is"):
            decoded(write_tensors(text, {}))

    def test_bytes_that_are_no_safetensors_are_refused(self):
        data = encode_state(example_state())
        end = 8 + int.from_bytes(data[:8], "little")
        deep = b"[" * 100_000
        broken = [
            b"",
            data[:7],
            data[:8],
            data[:end],
            data[:-1],
            data + b"\0",
            b"\xff" * 64,
            bytes(64),
            None,
            3,
        ]
        broken += [
            data[:8] + b"x" * (end - 8) + data[end:],
            len(deep).to_bytes(8, "little") + deep,
            (2).to_bytes(8, "little") + b"[]",
            data.replace(b'"__metadata__"', b'"__otherdata_"'),
            data.replace(b"[0,8]", b"[0,9]"),
            data.replace(b"[8,16]", b"[0,8]".ljust(6)),
        ]
        for content in broken:
            with pytest.raises(ArtefactError):
                decoded(content)

    @pytest.mark.parametrize("content", [b"", b"\xff" * 64, bytes(64)])
    def test_a_header_of_an_impossible_length_is_said(self, content):
        with pytest.raises(ArtefactError, match=f"{len(content)} bytes cannot hold a header that ends at"):
            decoded(content)

    def test_a_header_that_promises_much_takes_no_memory(self):
        data = encode_state(example_state()).replace(b'"shape":[2]', b'"shape":[9]')
        with pytest.raises(ArtefactError, match=r"expected .*'shape': \[17179869184\]"):
            decoded(data, size=2**34)  # an array of it would not fit into any memory here
