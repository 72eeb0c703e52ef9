"""Files that are there whole or not at all, whatever happens while they are written."""

import errno
import os
import sys
from pathlib import Path

import pytest

from ddopg.errors import ArtefactError, DisplayError
from ddopg.rollouts import video
from ddopg.support.files import STALE, exchange, replace_when_done, write_atomically


def test_the_old_file_stays_until_the_new_one_is_whole(tmp_path):
    path = write_atomically(tmp_path / "page.html", b"old")
    with replace_when_done(path) as draft:
        draft.write_bytes(b"ne")
        assert path.read_bytes() == b"old"
        draft.write_bytes(b"new")
    assert path.read_bytes() == b"new"
    assert os.listdir(tmp_path) == ["page.html"]


def _write_half(path, failure):
    with replace_when_done(path) as draft:
        draft.write_bytes(b"ne")
        raise failure


@pytest.mark.parametrize("failure", [OSError(errno.ENOSPC, "No space left on device"), KeyboardInterrupt()])
def test_what_cannot_be_finished_leaves_the_old_file_and_nothing_else(failure, tmp_path):
    path = write_atomically(tmp_path / "page.html", b"old")
    expected = ArtefactError if isinstance(failure, OSError) else KeyboardInterrupt
    with pytest.raises(expected):
        _write_half(path, failure)
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["page.html"]


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux can")
def test_two_directories_take_each_other_s_place(tmp_path):
    one, other = tmp_path / "one", tmp_path / "other"
    for path in (one, other):
        path.mkdir()
        (path / "name").write_text(path.name)
    assert exchange(one, other)
    assert [(path / "name").read_text() for path in (one, other)] == ["other", "one"]
    assert not exchange(one, tmp_path / "missing")
    assert (one / "name").read_text() == "other"


def test_drafts_of_killed_processes_are_removed_an_hour_later(tmp_path):
    path = tmp_path / "a[b].html"
    drafts = [
        tmp_path / f".{name}.{number}.draft" for number, name in enumerate(["a[b].html"] * 2 + ["b.html"])
    ]
    for draft in drafts:
        draft.write_bytes(b"")
    for draft in drafts[1:]:
        then = draft.stat().st_mtime - STALE - 60
        os.utime(draft, (then, then))
    write_atomically(path, b"", tidy=False)
    assert [draft.exists() for draft in drafts] == [True, True, True]
    write_atomically(path, b"")
    assert [draft.exists() for draft in drafts] == [True, False, True]


@pytest.mark.filterwarnings("ignore:os.fork:RuntimeWarning")  # of JAX, if it is loaded here: ffmpeg is forked
@pytest.mark.parametrize("name", ["film.gif", "film.mp4"])
def test_a_film_that_breaks_off_leaves_the_old_one(name, tmp_path):
    import numpy as np

    def pictures(most):
        for number in range(40):
            if number == most:
                raise DisplayError("the environment cannot draw itself")
            yield np.full((64, 64, 3), number, np.uint8)

    path: Path = video.write(tmp_path / name, pictures(99), fps=30)
    before = path.read_bytes()
    assert before[:3] == b"GIF" or before[4:8] == b"ftyp"
    with pytest.raises(DisplayError):
        video.write(path, pictures(20), fps=30)
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == [name]
