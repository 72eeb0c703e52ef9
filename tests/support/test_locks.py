"""The lock: one holder at a time, none when its process is gone, and what cannot be locked is not a busy place."""

import subprocess
import sys
import threading
import time

import pytest

from ddopg.errors import ArtefactError, StoreError
from ddopg.support.locks import acquire_lock

HOLDER = """
import sys, pathlib
from ddopg.errors import StoreError
from ddopg.support.locks import acquire_lock
lock = acquire_lock(pathlib.Path(sys.argv[1]), "busy", StoreError)
print("holding", flush=True)
sys.stdin.read()
"""


def acquire(path, **options):
    return acquire_lock(path, f"{path} is busy", StoreError, **options)


@pytest.fixture
def holder(tmp_path):
    """A process that holds the lock until its input ends."""
    command = [sys.executable, "-c", HOLDER, str(tmp_path / "lock")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout.readline() == "holding\n"
        yield child
        child.kill()


def test_another_process_is_refused_with_the_message_and_the_error_that_were_given(holder, tmp_path):
    started = time.monotonic()
    with pytest.raises(ArtefactError, match=r"^somebody is at work$"):
        acquire_lock(tmp_path / "lock", "somebody is at work", ArtefactError)
    assert time.monotonic() - started < 1


def test_the_lock_of_a_killed_process_does_not_count(holder, tmp_path):
    holder.kill()
    holder.wait()
    acquire(tmp_path / "lock").release()


def test_who_waits_gets_the_lock_when_the_other_is_done(holder, tmp_path):
    threading.Timer(0.3, holder.stdin.close).start()
    started = time.monotonic()
    acquire(tmp_path / "lock", wait=True).release()
    assert time.monotonic() - started > 0.2


def test_a_second_holder_in_the_same_process_is_refused_until_the_first_lets_go(tmp_path):
    first = acquire(tmp_path / "lock")
    with pytest.raises(StoreError, match="is busy"):
        acquire(tmp_path / "lock")
    first.release()
    second = acquire(tmp_path / "lock")
    first.release()  # a second release takes nothing from the next holder
    with pytest.raises(StoreError, match="is busy"):
        acquire(tmp_path / "lock")
    second.release()


def test_a_lock_that_nobody_refers_to_is_released(tmp_path):
    lock = acquire(tmp_path / "lock")
    del lock
    acquire(tmp_path / "lock").release()


def test_another_thread_may_release_it(tmp_path):
    lock = acquire(tmp_path / "lock")
    thread = threading.Thread(target=lock.release)
    thread.start()
    thread.join()
    acquire(tmp_path / "lock").release()


def test_a_lock_that_cannot_be_made_is_not_taken_for_another_holder(tmp_path):
    (tmp_path / "lock").mkdir()
    with pytest.raises(
        StoreError, match=r"^cannot write into .*: Is a directory; choose a writable directory$"
    ):
        acquire(tmp_path / "lock")
    with pytest.raises(StoreError, match=r": Is a directory; take another$"):
        acquire(tmp_path / "lock", advice="take another", wait=True)
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="cannot write into"):
        acquire(tmp_path / "file" / "lock")
