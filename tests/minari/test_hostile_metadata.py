"""Metadata of data sets made by mistake or to do harm: each edit gives our error, and none costs memory."""

import gc
import json
import tracemalloc

import h5py
import numpy as np
import pytest

import ddopg
from ddopg.errors import ArtefactError, DDOPGError, SpaceError, TrajectoryError
from ddopg.minari import export, trajectories

NAME = "mine/cartpole-v0"
BOX = {"type": "Box", "dtype": "float32", "shape": [4], "low": [-1.0] * 4, "high": [1.0] * 4}


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """A small data set, and its metadata as a table."""
    place = tmp_path_factory.mktemp("hostile")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MINARI_DATASETS_PATH", str(place / "datasets"))
        agent = ddopg.DDOPG("cartpole", seed=3, run_directory=place / "run", preset="trajectory")
        agent.learn(total_episodes=2)
        agent.close()
        export(place / "run", NAME)
        yield place / "datasets" / NAME / "data"


@pytest.fixture
def data(written):
    """The same, as it was when the test is over."""
    kept = {path: path.read_bytes() for path in written.iterdir()}
    yield written
    for path, content in kept.items():
        path.write_bytes(content)


def edit(data, *keys, value):
    about = json.loads((data / "metadata.json").read_text())
    table = about
    for key in keys[:-1]:
        table = table[key]
    table[keys[-1]] = value
    (data / "metadata.json").write_text(json.dumps(about))


def box(**changed):
    return json.dumps(BOX | changed)


def test_the_data_set_is_good_before_it_is_edited(data):
    assert len(trajectories(NAME)) == 2


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "null", '"x"', "3", "[" * 100_000, "\x00", '{"a": 1e999}', "é"]
)
def test_metadata_that_are_no_table(text, data):
    (data / "metadata.json").write_bytes(text.encode("latin-1"))
    with pytest.raises(ArtefactError, match=NAME):
        trajectories(NAME)


@pytest.mark.parametrize(
    "key", ["total_episodes", "total_steps", "data_format", "dataset_id", "minari_version", "action_space"]
)
def test_metadata_of_which_a_part_is_missing(key, data):
    about = json.loads((data / "metadata.json").read_text())
    del about[key]
    (data / "metadata.json").write_text(json.dumps(about))
    with pytest.raises(ArtefactError, match=NAME):
        trajectories(NAME)


@pytest.mark.parametrize("count", [-1, 3, 10**6, 2**62, 10**400, 2.0, True, "2", None, [2], {}])
def test_counts_of_episodes_that_are_not_true(count, data):
    edit(data, "total_episodes", value=count)
    with pytest.raises(ArtefactError, match=NAME):
        trajectories(NAME)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("data_format", "no"),
        ("data_format", 3),
        ("data_format", ["hdf5"]),
        ("dataset_id", "../x-v0"),
        ("dataset_id", "\ud800"),
        ("minari_version", "9.9"),
        ("minari_version", None),
        ("author", 5),
        ("author", [[]]),
        ("env_spec", 3),
        ("env_spec", "{"),
        ("env_spec", '{"id": "\\ud800"}'),
        ("env_spec", '{"id": "x-v0", "additional_wrappers": [3]}'),
        ("total_steps", -1),
        ("total_steps", "8"),
        ("ddopg", []),
        ("ddopg", "x"),
        ("ddopg", {"problem": 3}),
    ],
)
def test_values_of_the_wrong_type(key, value, data):
    edit(data, key, value=value)
    with pytest.raises(ArtefactError, match=NAME) as caught:
        trajectories(NAME)
    str(caught.value).encode()


@pytest.mark.parametrize("which", ["observation_space", "action_space"])
@pytest.mark.parametrize(
    "space",
    [
        *(3, None, [], "", "{", "[]", "3", '{"type": "Box"}', '{"type": ["Box"]}', "[" * 100_000),
        box(type="Nothing"),
        box(shape=[5]),
        box(shape=[-4]),
        box(shape="4"),
        box(dtype="O"),
        box(dtype="S1000000000"),
        box(dtype="datetime64[s]"),
        box(low=["x"] * 4),
        box(low=[2.0] * 4),
        box(shape=[10**10], low=-1.0, high=1.0),
        json.dumps({"type": "Dict", "subspaces": {"a": 3}}),
        json.dumps({"type": "Tuple", "subspaces": 3}),
        json.dumps({"type": "Discrete", "dtype": "int64", "start": 0, "n": 10**10}),
        json.dumps({"type": "MultiBinary", "n": 10**10}),
    ],
)
def test_spaces_that_are_none(which, space, data):
    edit(data, which, value=space)
    tracemalloc.start()
    with pytest.raises((SpaceError, ArtefactError)):
        trajectories(NAME)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 2**26


@pytest.mark.parametrize(
    "horizon", [-1, 0, 1, 10**7, 2**31 - 1, 2**62, 10**400, 1.5, True, "100", [100], {}, float("nan")]
)
def test_a_forged_horizon_is_refused_and_costs_no_memory(horizon, data):
    edit(data, "ddopg", "problem", "horizon", value=horizon)
    tracemalloc.start()
    with pytest.raises(TrajectoryError):
        trajectories(NAME)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 2**26


def test_a_forged_time_limit_is_refused_unless_the_reader_says_it(data):
    about = json.loads((data / "metadata.json").read_text())
    del about["ddopg"]
    about["env_spec"] = about["env_spec"].replace(
        '"max_episode_steps": 100', '"max_episode_steps": 2000000000'
    )
    (data / "metadata.json").write_text(json.dumps(about))
    with pytest.raises(TrajectoryError, match="give the horizon of your learner"):
        trajectories(NAME)
    assert {t.horizon for t in trajectories(NAME, horizon=150)} == {150}


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("theta", "hostile"),
        ("theta", np.zeros((2, 2))),
        ("theta", np.array([np.nan])),
        ("theta", np.zeros(3, complex)),
        ("theta", 3.0),
        ("seed", "x"),
        ("seed", np.zeros(2)),
        ("theta/x", 3.0),
    ],
)
def test_notes_of_episodes_that_are_none(key, value, data):
    with h5py.File(data / "main_data.hdf5", "a") as file:
        file["episode_1"].attrs[key] = value
    with pytest.raises(ArtefactError):
        trajectories(NAME)


@pytest.mark.parametrize("horizon", [None, 1])
def test_a_data_set_that_cannot_be_read_is_let_go_at_once(horizon, data):
    """Nobody waits for the garbage collector: the error is still held, and the file can be written again."""
    path = data / "main_data.hdf5"
    if horizon is None:
        with h5py.File(path, "a") as file:
            file["episode_1"].attrs["theta"] = "hostile"
    gc.disable()
    try:
        with pytest.raises(DDOPGError) as held:
            trajectories(NAME, horizon)
        h5py.File(path, "a").close()
        assert held.value is not None
    finally:
        gc.enable()


def test_a_damaged_neighbour_does_no_harm(data):
    other = data.parent.parent / "other-v0" / "data"
    other.mkdir(parents=True)
    (other / "metadata.json").write_text("{")
    assert len(trajectories(NAME)) == 2
    with pytest.raises(DDOPGError, match="on this machine"):
        trajectories("mine/third-v0")
