"""One harness for hostile files of every kind that comes in: `make fuzz` runs it whole, the tests a little of it.

Each kind is a function of an empty directory that gives an attempt: a function of a random generator that mutates a
valid file, reads it, and returns whether it was refused with an error of ours. Any other error ends the harness and
says with which seed it comes again.
"""

import io
import json
import os
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import NamedTuple

import numpy as np

import ddopg
from ddopg.core.problem import Problem
from ddopg.errors import DDOPGError
from ddopg.storage import policy_file, rows
from ddopg.storage.robot_logs import log_to_trajectory, read_log
from ddopg.storage.run_store import RunStore
from ddopg.support.presets import load_config
from tests.storage import test_fuzz as files

PROBLEM = Problem(observation_size=2, low=(-1.0,), high=(1.0,), horizon=6)
LOG = {
    "observations": [[0.5, -1.25], [1.0, 2e-3], [0.0, 3.5], [1, 2]],
    "actions": [[0.5], [-1.0], [0.25], [0]],
    "rewards": [1.0, -2.5, 1e3, 0],
    "terminated": True,
    "proposal": 3,
}
ODD_CELLS = [
    *(
        "",
        " ",
        "x",
        "1_0",
        "1e400",
        "nan",
        "-inf",
        "9" * 401,
        "0x1",
        "١",
        '"',
        ",",
        "\n",
        "\0",
        "\ufeff",
        "1,1",
    ),
    *(
        "true",
        "-0",
        "1e-400",
        "observation_0",
        "terminated",
        "=1+1",
        "1 2",
        "1.2.3",
        "'",
        "é",
        "\r",
        "2",
        "1",
    ),
]
ODD_KINDS = ["f2", ">f8", "i1", "u8", "?", "c16", "M8[s]", "m8[s]", "U3", "S2", "V4", "f4", "g"]
ODD_SHAPES = [(), (0,), (1,), (4,), (4, 1), (4, 2), (2, 4), (7,), (7, 2), (4, 2, 1), (0, 2), (1000,)]
PRESET = """preset = "trajectory"
[changes]
search.radius = 0.5
search.steps = 7
policy.hidden = [4, 4]
selection.rule = "latest"
surrogate.initial_state_correction = false
[note]
why = "a test"
"""
WHOLE = {
    "policy, bytes": 10_000,
    "policy, forged": 10_000,
    "store, bytes": 10_000,
    "store, forged": 5_000,
    "log .csv": 20_000,
    "log .json": 20_000,
    "log .npz": 20_000,
    "Minari metadata": 10_000,
    "preset file": 20_000,
}


class Count(NamedTuple):
    """What came of the mutations of one kind."""

    kind: str
    tried: int
    refused: int


def fuzz(kind, count, seed=0):
    """Mutate and read so many files of a kind; the same seed gives the same files."""
    with tempfile.TemporaryDirectory() as place, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of Minari and Gymnasium, about what is odd
        attempt = KINDS[kind](Path(place))
        refused = 0
        for number in range(count):
            try:
                refused += attempt(np.random.default_rng([seed, number]))
            except Exception as error:
                raise AssertionError(f"{kind}, seed {seed}, number {number}: {error!r}") from error
    return Count(kind, count, refused)


def try_reading(read, *arguments):
    """Whether it was refused with an error of ours that can be printed."""
    try:
        read(*arguments)
    except DDOPGError as error:
        str(error).encode()
        return True
    return False


def fuzz_policy_bytes(place):
    policies = files.make_policies(place)
    return lambda rng: files.is_refused(place / "p.safetensors", files.mutated(rng, *policies))


def fuzz_forged_policies(place):
    path = place / "p.safetensors"
    path.write_bytes(files.make_policies(place)[0])
    described, theta = policy_file.read_unchecked(path)

    def attempt(rng):
        forged = json.loads(json.dumps(described))
        forged.pop("checksum")
        files.place(rng, forged, files.odd_json(rng))
        return files.is_refused(path, policy_file.encode_policy(forged, theta))

    return attempt


def fuzz_store_bytes(place):
    stores = files.make_stores(place)

    def attempt(rng):
        files.fresh(place).write_bytes(files.mutated(rng, *stores))
        return try_reading(resume, place)

    return attempt


def fuzz_forged_stores(place):
    stores = files.make_stores(place)

    def attempt(rng):
        with files.opened(place, stores[0]) as connection:
            for _ in range(int(rng.integers(1, 3))):
                files.disturb(rng, connection)
        check, rows.check_checksum = rows.check_checksum, lambda found, expected, what: None
        try:
            return try_reading(resume, place)
        finally:
            rows.check_checksum = check

    return attempt


def resume(place):
    store, _ = RunStore.resume(place)
    store.close()


def read_whole_log(path):
    """What is let in is a trajectory of finite numbers."""
    trajectory = log_to_trajectory(read_log(path, PROBLEM), path, PROBLEM)
    assert trajectory.observations.shape == (6, 2)
    assert trajectory.actions.shape == (6, 1)
    assert all(np.isfinite(array).all() for array in trajectory[:4])


def fuzz_logs(ending, make_odd, good):
    """A kind of log: half of the mutations are of bytes, half of what the bytes mean."""

    def begin(place):
        path = place / f"log{ending}"

        def attempt(rng):
            path.write_bytes(files.mutated(rng, good, good) if rng.random() < 0.5 else make_odd(rng))
            return try_reading(read_whole_log, path)

        return attempt

    return begin


def to_csv(cells):
    return "\n".join(",".join(row) for row in cells).encode()


def list_cells():
    header = ["observation_0", "observation_1", "action_0", "reward", "terminated"]
    table = zip(LOG["observations"], LOG["actions"], LOG["rewards"], strict=True)
    steps = [[str(number) for number in (*seen, *acted, reward)] for seen, acted, reward in table]
    return [header, *([*step, str(int(i == 3))] for i, step in enumerate(steps))]


def make_odd_csv(rng):
    cells = list_cells()
    for _ in range(int(rng.integers(1, 4))):
        row, cell = cells[rng.integers(len(cells))], ODD_CELLS[rng.integers(len(ODD_CELLS))]
        kind = rng.integers(4)
        if kind == 0 or not row:
            row.append(cell)
        elif kind == 1:
            row.pop(int(rng.integers(len(row))))
        else:
            row[rng.integers(len(row))] = cell
    return to_csv(cells * int(rng.integers(1, 3)))


def make_odd_json(rng):
    log = json.loads(json.dumps(LOG))
    for _ in range(int(rng.integers(1, 4))):
        files.place(
            rng, log, files.odd_json(rng) if rng.random() < 0.7 else ODD_CELLS[rng.integers(len(ODD_CELLS))]
        )
    return json.dumps(log).encode()


def make_odd_npz(rng):
    arrays = {name: np.array(value) for name, value in LOG.items()}
    name = list(arrays)[rng.integers(len(arrays))]
    shape = ODD_SHAPES[rng.integers(len(ODD_SHAPES))] if rng.random() < 0.5 else arrays[name].shape
    kind = ODD_KINDS[rng.integers(len(ODD_KINDS))]
    arrays[name] = np.zeros(shape, kind)
    if rng.random() < 0.1:
        del arrays[name]
    return to_npz(arrays, np.savez if rng.random() < 0.5 else np.savez_compressed)


def to_npz(arrays, save=np.savez_compressed):
    file = io.BytesIO()
    save(file, **arrays)
    return file.getvalue()


def fuzz_minari(place):
    """Metadata of a small data set: bytes, values, and values within its spaces."""
    from ddopg.minari import export, trajectories

    os.environ["MINARI_DATASETS_PATH"] = str(place / "datasets")
    agent = ddopg.DDOPG("cartpole", seed=3, run_directory=place / "run", preset="trajectory").learn(
        total_episodes=2
    )
    agent.close()
    export(place / "run", "mine/cartpole-v0")
    path = place / "datasets" / "mine" / "cartpole-v0" / "data" / "metadata.json"
    good = path.read_bytes()

    def attempt(rng):
        path.write_bytes(
            files.mutated(rng, good, good) if rng.random() < 0.3 else make_odd_metadata(rng, good)
        )
        return try_reading(trajectories, "mine/cartpole-v0")

    return attempt


def make_odd_metadata(rng, good):
    about = json.loads(good)
    about["ddopg"].pop("config")
    part = ("observation_space", "action_space", "env_spec", "ddopg", "ddopg", None)[rng.integers(6)]
    inner = about if part is None else about[part] if part == "ddopg" else json.loads(about[part])
    files.place(rng, inner, files.odd_json(rng))
    if part is not None:
        about[part] = inner if part == "ddopg" else json.dumps(inner)
    return json.dumps(about).encode()


def fuzz_presets(place):
    """Preset files in both formats."""
    import tomllib

    table, text = tomllib.loads(PRESET), PRESET.encode()

    def attempt(rng):
        odd = json.loads(json.dumps(table))
        files.place(rng, odd, files.odd_json(rng))
        as_json = json.dumps(odd).encode()
        path = place / ("p.toml" if rng.random() < 0.5 else "p.json")
        mutated = files.mutated(rng, text if path.suffix == ".toml" else as_json, text)
        path.write_bytes(as_json if path.suffix == ".json" and rng.random() < 0.6 else mutated)
        return try_reading(load_config, path)

    return attempt


KINDS = {
    "policy, bytes": fuzz_policy_bytes,
    "policy, forged": fuzz_forged_policies,
    "store, bytes": fuzz_store_bytes,
    "store, forged": fuzz_forged_stores,
    "log .csv": fuzz_logs(".csv", make_odd_csv, to_csv(list_cells())),
    "log .json": fuzz_logs(".json", make_odd_json, json.dumps(LOG).encode()),
    "log .npz": fuzz_logs(".npz", make_odd_npz, to_npz(LOG)),
    "Minari metadata": fuzz_minari,
    "preset file": fuzz_presets,
}


def main(share=1.0, seed=1):
    """All kinds, and a table of what came of them."""
    print(f"{'kind':<16} {'mutations':>10} {'refused':>8} {'unharmed':>9} {'seconds':>8}", flush=True)
    total = 0
    for kind, whole in WHOLE.items():
        began = time.monotonic()
        _, tried, refused = fuzz(kind, max(1, int(whole * share)), seed)
        total += tried
        took = time.monotonic() - began
        print(f"{kind:<16} {tried:>10,} {refused:>8,} {tried - refused:>9,} {took:>8.0f}", flush=True)
    print(f"{'all':<16} {total:>10,}, every one refused with an error of ours or read without harm")


if __name__ == "__main__":
    main(*map(float, sys.argv[1:2]), *map(int, sys.argv[2:3]))
