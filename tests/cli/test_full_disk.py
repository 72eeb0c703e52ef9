"""A disk that is full, in every command: a sentence, nothing harmed, and the same command ends the same later."""

import os
from contextlib import suppress

import pytest

from ddopg.experiments.bench import benchmark as bench
from ddopg.storage.reading import read_rollouts
from tests.cli.test_kill_commands import add_logs, curves_of, read_dataset, read_page, run_of
from tests.cli.test_robot import MACHINE, QUICK, roll_out
from tests.experiments.test_bench import QUICK as QUICK_BENCH
from tests.experiments.test_tune import QUICK as QUICK_TUNE
from tests.experiments.test_tune import WORLD
from tests.killing import open_nursery
from tests.recorded import SMALL, everything
from tests.storage.test_disk import can_mount

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(10_000),
    pytest.mark.skipif(not can_mount(), reason="this system lets nobody mount"),
]

ROOMS = (0, 12, 100)  # kB that are left
NAME = "mine/cartpole-v0"
MOVIE = ["--seed", "1", "--video"]


class Disk:
    """A small disk of its own, where processes of a nursery live; this process sees it by way of theirs."""

    def __init__(self, nursery, place, view):
        self.nursery, self.place, self.view = nursery, place, view
        self.tried = self.copies = 0

    def leave(self, kilobytes):
        """Fill the disk, up to so many kB; None makes room."""
        filler = self.view / "filler"
        with suppress(FileNotFoundError):
            filler.unlink()
        if kilobytes is None:
            return
        with suppress(OSError), filler.open("wb", buffering=0) as file:
            while file.write(bytes(4096)):
                pass
        os.truncate(filler, max(filler.stat().st_size - 1024 * kilobytes, 0))

    def copy(self, name):
        """A copy of a run that this process can open: SQLite finds no way through the view."""
        self.copies += 1
        copy = self.view.parent / f"copy{self.copies}"
        self.nursery.shell(f"cp -r {self.place / name} {copy}")
        return copy

    def refuse(self, arguments, room, **options):
        """The command, on a disk that is full; it says so, or did not need the room."""
        self.leave(room)
        life = self.nursery.live(arguments, **options)
        self.tried += 1
        assert life.code in (0, 1, 2), life
        if life.code:
            said = " ".join(life.said.split())
            full = any(sign in said for sign in ("No space left on device", "disk is full", "disk I/O"))
            assert full or "is empty: it holds no run" in said, (
                said
            )  # the disk was full before its first commit
        self.leave(None)
        return life


@pytest.fixture
def disk(tmp_path, monkeypatch):
    place = tmp_path / "disk"
    place.mkdir()
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(place / "datasets"))
    with open_nursery(tmp_path, "unshare", "-rm") as nursery:
        nursery.shell(f"mount -t tmpfs -o size=30m tmpfs {place}")
        view = tmp_path / "view"
        view.symlink_to(f"/proc/{nursery.pid}/root{place}")
        yield Disk(nursery, place, view)


@pytest.mark.parametrize("room", ROOMS)
def test_runs_go_on_when_there_is_room(disk, room, tmp_path):
    def train(out):
        return ["train", "cartpole", "--episodes", "12", "--seed", "3", *SMALL, "--quiet", "--out", out]

    disk.nursery.finish(train(tmp_path / "whole"))
    life = disk.refuse(train(disk.place / "run"), room)
    assert life.code == 2
    begun = (disk.view / "run" / "run.sqlite").exists()
    again = ["resume", disk.place / "run", "--quiet"] if begun else train(disk.place / "run")
    disk.refuse(again, 4)
    assert disk.nursery.live(again).code == 0 or disk.nursery.finish(train(disk.place / "run"))
    assert everything(disk.copy("run")) == everything(tmp_path / "whole")
    disk.leave(0)
    assert "mean return" in disk.nursery.finish(["evaluate", disk.place / "run", "--episodes", "2"]).said


@pytest.mark.parametrize("room", ROOMS)
def test_a_run_by_files_goes_on_when_there_is_room(disk, room):
    run, seen = disk.place / "run", disk.view / "run"
    begin = ["begin", run, *MACHINE, *QUICK, "--seed", "3"]
    assert disk.refuse(begin, 0).code == 2
    disk.nursery.finish(begin)
    disk.refuse(["ask", run], room)
    places = [
        seen / "proposals" / place.split("/")[-1] for place in disk.nursery.finish(["ask", run]).said.split()
    ]
    logs = [disk.place / roll_out(place).relative_to(disk.view) for place in places]
    disk.refuse(["tell", run, *logs], room)
    disk.nursery.finish(["tell", run, *logs])
    assert len(read_rollouts(disk.copy("run"))[1]) == 4
    more = add_logs(disk.view / "x", 2)
    disk.refuse(["add", run, *(disk.place / log.name for log in more)], room)
    disk.nursery.finish(["add", run, *(disk.place / log.name for log in more)])
    assert len(read_rollouts(disk.copy("run"))[1]) == 6


@pytest.mark.parametrize("room", ROOMS)
def test_what_is_there_already_stays_as_it_was(disk, room, tmp_path):
    runs = [run_of(tmp_path / str(episodes), episodes) for episodes in (3, 9)]
    for name, command in {
        "page.html": lambda run, path: ["report", run, "-o", path],
        "policy.onnx": lambda run, path: ["export", run, path],
        "film.gif": lambda run, path: ["play", run, *MOVIE, path],
        "film.mp4": lambda run, path: ["play", run, *MOVIE, path],
    }.items():
        path, seen = disk.place / name, disk.view / name
        results = []
        for run in reversed(runs):
            disk.nursery.finish(command(run, path))
            results.append(read_page(seen))
        new, old = results
        assert new != old
        life = disk.refuse(command(runs[1], path), room)
        assert read_page(seen) == (new if life.code == 0 else old), name
        disk.nursery.finish(command(runs[1], path))
        assert read_page(seen) == new
    assert not list(disk.view.glob(".*.draft"))


@pytest.mark.parametrize("room", ROOMS)
def test_data_sets_and_backups_are_there_whole_or_not_at_all(disk, room, tmp_path, monkeypatch):
    runs = [run_of(tmp_path / str(episodes), episodes) for episodes in (3, 9)]
    export = ["--minari", NAME, "--overwrite"]
    disk.nursery.finish(["export", runs[0], *export])
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(disk.view / "datasets"))
    old = read_dataset(NAME)
    life = disk.refuse(["export", runs[1], *export], room)
    assert life.code == 0 or read_dataset(NAME) == old
    disk.nursery.finish(["export", runs[1], *export])
    assert read_dataset(NAME)[0] == 9
    life = disk.refuse(["backup", runs[1], disk.place / "copy.sqlite"], room)
    assert (disk.view / "copy.sqlite").exists() == (life.code == 0)
    if life.code:
        disk.nursery.finish(["backup", runs[1], disk.place / "copy.sqlite"])
    assert not list(disk.view.glob(".*.draft"))


@pytest.mark.parametrize("room", ROOMS)
def test_benchmarks_searches_and_figures_go_on_when_there_is_room(disk, room):
    jobs = ["bench", "--envs", WORLD, "--seeds", "1", "2", *QUICK_BENCH, "--out", disk.place / "bench"]
    life = disk.refuse(jobs, room)
    before = curves_of(disk.view / "bench") if life.code else {}
    disk.nursery.finish(jobs)
    assert before.items() <= curves_of(disk.view / "bench").items()
    assert len(bench.read_finished(disk.view / "bench")) == 2
    search = ["tune", WORLD, "--trials", "1", *QUICK_TUNE, "--out", disk.place / "tune"]
    disk.refuse(search, room, grace=2)
    disk.nursery.finish(search, grace=2)
    figure = ["figure", "surrogate", "--quick", "--quiet", "--data", disk.place / "data", "--out", disk.place]
    assert disk.refuse(figure, 0).code == 2
    disk.refuse(figure, room)
    disk.nursery.finish(figure)


def test_a_full_disk_of_compiled_programs_costs_time_only(disk, tmp_path):
    train = ["train", "cartpole", "--episodes", "9", *SMALL, "--quiet", "--out"]
    variables = {"DDOPG_CACHE": str(disk.place / "cache")}
    for room, out in ((0, "none"), (12, "few"), (None, "all")):
        disk.leave(room)
        life = disk.nursery.finish([*train, tmp_path / out], variables=variables)
        assert "persistent compilation cache" not in life.said
    assert not list((disk.view / "cache").glob(".*.draft"))
