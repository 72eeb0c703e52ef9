"""Hostile files: thousands of mutations of valid ones give our errors, or a learner that works. Nothing else."""

import json
import math
import sqlite3
from contextlib import closing, contextmanager, suppress

import numpy as np
import pytest
import safetensors.numpy

import ddopg
from ddopg.cli.reproduce import make_recipe
from ddopg.errors import DDOPGError
from ddopg.report import collect_data
from ddopg.report.page import build_page
from ddopg.storage import policy_file, rows
from ddopg.storage.database import STORE
from ddopg.storage.policy_file import load
from ddopg.storage.reading import read_run
from ddopg.storage.run_store import RunStore
from ddopg.storage.tensors import read_header, write_tensors
from tests.probes import Follow
from tests.recorded import quick
from tests.storage.test_run_store import learnt


def few_or_many(few, many):
    """The same test, short in the fast suite and long in the slow one."""
    slow = pytest.param(many, marks=[pytest.mark.slow, pytest.mark.timeout(3000)])
    return pytest.mark.parametrize("mutations", [few, slow])


ODD_VALUES = [
    *(None, 0, -1, 1, 2, 7, 2**31, 2**62, -(2**63), 0.5, -1e300, 1e308, math.inf, -math.inf),
    *(
        "",
        "x",
        "\ud7ff",
        "[]",
        "{}",
        "null",
        "[[[[",
        "-5",
        "[1e999]",
        "[-1]",
        "[4, 4]",
        "float64",
        "int",
        "tuple",
    ),
    *(b"", b"\0", b"\xff" * 8, bytes(16), bytes(10_000), b"\xff" * 400),
]


def mutated(rng, data, donor):
    """One to four accidents: bits, bytes, cuts, repetitions, parts of another file, another length field."""
    data = bytearray(data)
    for _ in range(int(rng.integers(1, 5))):
        at, size = int(rng.integers(len(data))), int(rng.integers(1, 64))
        kind = rng.integers(8)
        if kind <= 1:
            data[at] ^= 1 << int(rng.integers(8))
        elif kind == 2:
            data[at : at + size] = rng.bytes(size)
        elif kind == 3:
            del data[at : at + size]
        elif kind == 4:
            data[at:at] = data[at : at + size] * int(rng.integers(1, 4))
        elif kind == 5:
            del data[at:]
        elif kind == 6:
            there = int(rng.integers(len(donor)))
            data[at : at + size] = donor[there : there + size]
        else:
            data[:8] = int(rng.integers(2**63)).to_bytes(8, "little")
        if not data:
            return b""
    return bytes(data)


def make_policies(place):
    """The bytes of two policy files."""
    agents = [
        ddopg.DDOPG(Follow(), config=quick(name), seed=s) for s, name in enumerate(("trajectory", "paper"))
    ]
    return [agent.save(place / f"{agent.state.seed}.safetensors").read_bytes() for agent in agents]


def make_stores(place):
    """The bytes of two run stores."""
    for seed in (0, 1):
        learnt(place / str(seed), 9, seed=seed)
    return [(place / str(seed) / STORE).read_bytes() for seed in (0, 1)]


@pytest.fixture(scope="module")
def policies(tmp_path_factory):
    return make_policies(tmp_path_factory.mktemp("policies"))


@pytest.fixture(scope="module")
def stores(tmp_path_factory):
    return make_stores(tmp_path_factory.mktemp("stores"))


def is_refused(path, policy):
    """Whether a policy of these bytes gets our error; any other error ends the test."""
    path.write_bytes(policy)
    try:
        load(path).act(np.zeros(1))
    except DDOPGError:
        return True
    return False


@few_or_many(250, 10_000)
def test_mutated_policies_are_refused_or_unharmed(policies, tmp_path, mutations):
    rng, path, refused = np.random.default_rng(mutations), tmp_path / "policy.safetensors", 0
    for _ in range(mutations):
        refused += is_refused(path, mutated(rng, *policies))
    print(f"{mutations} mutated policies, {refused} refused")
    assert refused > 0.95 * mutations


@few_or_many(250, 10_000)
def test_policies_with_odd_descriptions_and_a_forged_checksum_are_refused_or_work(
    policies, tmp_path, mutations
):
    rng, path, refused = np.random.default_rng(mutations), tmp_path / "policy.safetensors", 0
    path.write_bytes(policies[0])
    described, theta = policy_file.read_unchecked(path)
    for _ in range(mutations):
        forged = json.loads(json.dumps(described))
        forged.pop("checksum")
        place(rng, forged, odd_json(rng))
        refused += is_refused(path, policy_file.encode_policy(forged, theta))
    print(f"{mutations} policies with odd descriptions, {refused} refused")
    assert refused > 0.3 * mutations


@few_or_many(250, 10_000)
def test_mutated_run_stores_are_refused_or_unharmed(stores, tmp_path, mutations):
    rng, refused = np.random.default_rng(mutations), 0
    for _ in range(mutations):
        fresh(tmp_path).write_bytes(mutated(rng, *stores))
        try:
            store, state = RunStore.resume(tmp_path)
        except DDOPGError:
            refused += 1
            continue
        store.close()
        assert state.memory.size == 9
    print(f"{mutations} mutated run stores, {refused} refused")
    assert refused > 0.5 * mutations


@few_or_many(60, 3_000)
def test_run_stores_with_odd_values_and_forged_checksums_are_refused_or_can_go_on(
    stores, tmp_path, mutations, monkeypatch
):
    """The checksums are not looked at: as if somebody had computed them anew. What is let in must work."""
    monkeypatch.setattr(rows, "check_checksum", lambda found, expected, what: None)
    rng, refused = np.random.default_rng(mutations), 0
    for _ in range(mutations):
        with opened(tmp_path, stores[0]) as connection:
            touched = {disturb(rng, connection) for _ in range(int(rng.integers(1, 3)))}
        try:
            agent = ddopg.DDOPG.resume(tmp_path, env=Follow())
        except DDOPGError:
            refused += 1
            continue
        try:
            if "run" not in touched:  # another configuration would be compiled anew each time
                agent.learn(total_episodes=1)
        except DDOPGError:
            refused += 1
        finally:
            agent.close()
    print(f"{mutations} run stores with odd values, {refused} refused")
    assert refused > 0.3 * mutations


@few_or_many(60, 1_000)
def test_run_stores_with_odd_values_and_forged_checksums_are_refused_or_can_be_shown(
    stores, tmp_path, mutations, monkeypatch
):
    """The same for who only looks."""
    monkeypatch.setattr(rows, "check_checksum", lambda found, expected, what: None)
    rng, refused = np.random.default_rng(mutations), 0
    for _ in range(mutations):
        with opened(tmp_path, stores[0]) as connection:
            connection.execute("INSERT INTO evaluation VALUES (9, 27, -1.0, 0.5, -2.0, 3, x'00')")
            for _ in range(int(rng.integers(1, 3))):
                disturb(rng, connection, ("rollout", "rollout", "state", "evaluation"))
        try:
            shown = build_page(collect_data([read_run(tmp_path)], "now", make_recipe))
            assert "</html>" in shown
        except DDOPGError:
            refused += 1
    print(f"{mutations} run stores with odd values, {refused} not shown")
    assert 0.2 * mutations < refused < mutations


@contextmanager
def opened(directory, content):
    """A store with that content, open to be changed in any way."""
    fresh(directory).write_bytes(content)
    with closing(sqlite3.connect(directory / STORE, isolation_level=None)) as connection:
        connection.execute("PRAGMA foreign_keys = OFF")
        yield connection


def fresh(directory):
    for leftover in directory.glob(f"{STORE}*"):
        leftover.unlink()
    return directory / STORE


USUAL = ("run", "rollout", "rollout", "state", "state", "state")


def disturb(rng, connection, tables=USUAL):
    """Put an odd value, or that of another row, into a random cell of the table returned; or delete a row."""
    table = tables[rng.integers(len(tables))]
    columns = [name for _, name, *_ in connection.execute(f"PRAGMA table_info({table})")]
    identifiers = [row for (row,) in connection.execute(f"SELECT rowid FROM {table}")]
    if not identifiers:
        return table
    row, column = int(rng.choice(identifiers)), columns[rng.integers(len(columns))]
    value = ODD_VALUES[rng.integers(len(ODD_VALUES))]
    if rng.random() < 0.3:
        other = int(rng.choice(identifiers))
        (value,) = connection.execute(f"SELECT {column} FROM {table} WHERE rowid = {other}").fetchone()
    elif rng.random() < 0.4:
        (value,) = connection.execute(f"SELECT {column} FROM {table} WHERE rowid = {row}").fetchone()
        value = twisted(rng, value)
    try:
        if rng.random() < 0.05:
            connection.execute(f"DELETE FROM {table} WHERE rowid = ?", (row,))
        else:
            connection.execute(f"UPDATE {table} SET {column} = ? WHERE rowid = ?", (value, row))
    except sqlite3.IntegrityError:
        pass  # the table itself does not let it in
    return table


def twisted(rng, value):
    """Nearly what it was."""
    if isinstance(value, bytes) and value[8:9] == b"{":
        with suppress(DDOPGError, ValueError, safetensors.SafetensorError):  # it may have been cut before
            if rng.random() < 0.8:
                return twisted_state(rng, value)
        return value[: rng.integers(len(value))]
    if isinstance(value, bytes) and value:
        twisted = bytearray(value)
        twisted[rng.integers(len(value))] ^= 1 << int(rng.integers(8))
        return bytes(twisted)
    if isinstance(value, str) and value.startswith("{"):
        content = json.loads(value)
        place(rng, content, odd_json(rng))
        return json.dumps(content)
    return value + int(rng.integers(-2, 3)) if isinstance(value, int) else value


def twisted_state(rng, content):
    """A state of sound bytes with an odd count, proposal or tensor in it."""
    text, tensors = read_header(content).text, safetensors.numpy.load(content)
    if rng.random() < 0.5:
        about = json.loads(text)
        place(rng, about, odd_json(rng))
        text = json.dumps(about)
    else:
        name = sorted(tensors)[rng.integers(len(tensors))]
        array = tensors[name]
        odd = [
            array.ravel()[:-1],
            array.astype(np.int32),
            array[None],
            array * 0 - 1,
            array * np.float32(1e30),
        ]
        odd += [np.full_like(array, value) for value in (math.nan, math.inf, 0) if array.dtype.kind == "f"]
        tensors[name] = odd[rng.integers(len(odd))]
    return write_tensors(text, tensors)


def place(rng, tree, value):
    """Put a value somewhere into nested tables and lists."""
    while tree:
        key = list(tree)[rng.integers(len(tree))] if isinstance(tree, dict) else int(rng.integers(len(tree)))
        if isinstance(tree[key], dict | list) and tree[key] and rng.random() < 0.8:
            tree = tree[key]
        elif rng.random() < 0.1:
            del tree[key]
            return
        else:
            tree[key] = value
            return


def odd_json(rng):
    odd = [
        None,
        True,
        0,
        -1,
        3,
        10**6,
        2**31,
        10**30,
        0.5,
        -2.5,
        math.nan,
        math.inf,
        "",
        "x",
        "adam",
        [],
        {},
        [1],
        [-1.0],
    ]
    return odd[rng.integers(len(odd))]
