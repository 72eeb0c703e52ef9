"""Worker processes: every way in which a request can end, and every way in which a process can."""

import ctypes
import gc
import json
import os
import select
import signal
import subprocess
import sys
import threading
import time

import pytest

from ddopg.rollouts.workers.processes import ProcessPool
from ddopg.support.processes import Reply, Worker, WorkerDied, echo, function_name, import_function
from tests.traps import ROOT
from tests.waiting import gone, wait_until

pytestmark = pytest.mark.long

START = 60  # seconds; a process that answers at all does so much earlier


def misbehave(content, report):
    """What a request asks for."""
    word, _, rest = content.partition(b" ")
    if word == b"raise":
        raise ValueError(rest.decode())
    if word == b"exit":
        os._exit(int(rest))
    if word == b"sleep":
        time.sleep(float(rest))
    if word == b"hold":
        ctypes.PyDLL(None).sleep(int(rest))  # compiled code that keeps the interpreter to itself
    if word == b"report":
        report(0.25)
    if word == b"print":
        print(rest.decode(), flush=True)
    return content


def tell(content, report):
    """What the process knows: a variable, its session, what is typed."""
    return json.dumps([os.environ.get(content.decode()), os.getsid(0), sys.stdin.read()]).encode()


def in_a_thread(function):
    """What it returns, computed by a thread that has ended."""
    found = []
    thread = threading.Thread(target=lambda: found.append(function()))
    thread.start()
    thread.join()
    return found[0]


def members(session):
    """The processes of a session."""
    listed = subprocess.run(["ps", "-o", "pid=", "-s", str(session)], capture_output=True, check=False)
    return listed.stdout.split()


PARENT = """
import sys
from ddopg.support.processes import Worker
from tests.support.test_processes import in_a_thread, misbehave
def make():
    worker = Worker(misbehave)
    worker.call(b"begin")
    return worker
worker = {start}
worker.send_bytes(b"{doing}")
print(worker.pid, flush=True)
sys.stdin.read()
"""


@pytest.fixture
def worker():
    worker = Worker(misbehave)
    yield worker
    worker.kill()


class TestReplies:
    def test_requests_are_answered_in_turn_whatever_their_size(self, worker):
        for content in (b"", b"one", b"two three\n", bytes(3_000_000)):
            assert worker.call(content, START) == Reply("done", content)

    def test_what_the_function_raises_comes_as_a_traceback_and_the_next_request_is_served(self, worker):
        kind, content = worker.call(b"raise no battery", START)
        assert kind == "failed"
        assert content.decode().strip().endswith("ValueError: no battery")
        assert worker.call(b"go on", START) == Reply("done", b"go on")

    def test_progress_comes_before_the_result(self, worker):
        worker.send_bytes(b"report")
        assert worker.receive(START) == Reply("progress", b"0.25")
        assert worker.receive(START) == Reply("done", b"report")

    def test_a_reply_that_is_late_can_still_be_received(self, worker):
        worker.call(b"begin", START)
        worker.send_bytes(b"sleep 0.3")
        with pytest.raises(TimeoutError):
            worker.receive(0.05)
        assert worker.receive(START) == Reply("done", b"sleep 0.3")


class TestTheEnd:
    def test_a_process_that_dies_says_with_which_exit_code(self, worker):
        with pytest.raises(WorkerDied, match=r"process died \(exit code 7\)"):
            worker.call(b"exit 7", START)
        assert not worker.alive

    def test_a_process_that_is_killed_says_by_which_signal(self, worker):
        worker.call(b"begin", START)
        os.kill(worker.pid, signal.SIGKILL)
        with pytest.raises(WorkerDied) as death:
            worker.call(b"anything", START)
        assert death.value.exit_code == -signal.SIGKILL

    def test_a_call_that_takes_too_long_ends_the_process(self, worker):
        worker.call(b"begin", START)
        with pytest.raises(TimeoutError):
            worker.call(b"sleep 60", 0.1)
        assert not worker.alive

    def test_a_call_that_is_interrupted_ends_the_process(self, worker):
        worker.call(b"begin", START)
        threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
        with pytest.raises(KeyboardInterrupt):
            worker.call(b"sleep 60")
        assert not worker.alive

    def test_a_message_that_stops_in_the_middle_is_a_matter_of_time_too(self, worker):
        """The process is stopped while it writes: a part of its reply is there, the rest never comes."""
        worker.call(b"begin", START)
        large = bytes(20_000_000)
        worker.send_bytes(large)
        wait_until(lambda: select.select([worker], [], [], 0)[0])
        os.kill(worker.pid, signal.SIGSTOP)
        with pytest.raises(TimeoutError):
            worker.receive(0.3)

    def test_stopping_is_polite_and_final(self):
        worker = Worker(echo)
        worker.stop()
        assert not worker.alive
        worker.stop()

    def test_a_worker_that_nobody_holds_any_more_ends(self):
        worker = Worker(echo)
        pid = worker.pid
        del worker
        gc.collect()
        assert gone(pid)

    @pytest.mark.parametrize("doing", ["sleep 60", "hold 60"])
    @pytest.mark.parametrize("start", ["make()", "in_a_thread(make)"])
    def test_it_ends_with_its_parent_whatever_it_is_doing(self, doing, start):
        """Also where compiled code holds the interpreter, so that no thread of the worker can do anything."""
        pipe = subprocess.PIPE
        with subprocess.Popen(
            [sys.executable, "-c", PARENT.format(doing=doing, start=start)],
            cwd=ROOT,
            stdin=pipe,
            stdout=pipe,
            text=True,
        ) as parent:
            pid = int(parent.stdout.readline())
            time.sleep(0.3)  # until it holds the interpreter
            assert not gone(pid)
            parent.kill()
        wait_until(lambda: gone(pid), 20)

    def test_it_outlives_the_thread_that_started_it(self):
        worker = in_a_thread(lambda: Worker(misbehave))
        assert worker.call(b"begin", START) == Reply("done", b"begin")
        time.sleep(0.3)
        assert worker.call(b"go on", START) == Reply("done", b"go on")
        worker.kill()

    def test_nothing_is_left_of_a_worker_that_was_killed(self):
        """Nor of the process that watches it, where the kernel does not."""
        worker = in_a_thread(lambda: Worker(misbehave))
        worker.call(b"begin", START)
        pid = worker.pid
        os.kill(pid, signal.SIGKILL)
        with pytest.raises(WorkerDied):
            worker.call(b"anything", START)
        wait_until(lambda: not members(pid), 20)


class TestSurroundings:
    def test_what_it_prints_goes_to_standard_error(self, capfd):
        worker = Worker(misbehave)
        worker.call(b"print good morning", START)
        worker.kill()
        shown = capfd.readouterr()
        assert "good morning" in shown.err
        assert shown.out == ""

    def test_it_has_a_session_of_its_own_and_nothing_to_read(self):
        worker = Worker(tell)
        _, session, typed = json.loads(worker.call(b"HOME", START).content)
        assert session == worker.pid != os.getsid(0)
        assert typed == ""
        worker.kill()

    def test_variables_are_set_where_the_user_has_not_set_them(self, monkeypatch):
        monkeypatch.setenv("MINE", "kept")
        worker = Worker(tell, {"MINE": "overwritten", "YOURS": "set"})
        assert json.loads(worker.call(b"MINE", START).content)[0] == "kept"
        assert json.loads(worker.call(b"YOURS", START).content)[0] == "set"
        worker.kill()

    @pytest.mark.parametrize(("user", "expected"), [(None, "1"), ("3", "3")])
    def test_the_processes_of_a_pool_run_one_thread_unless_the_user_says_otherwise(
        self, user, expected, monkeypatch
    ):
        monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
        if user:
            monkeypatch.setenv("OMP_NUM_THREADS", user)
        pool = ProcessPool(tell, 1)
        pool.submit(0, b"OMP_NUM_THREADS")
        assert json.loads(pool.wait().content)[0] == expected
        pool.close()

    def test_a_function_is_found_by_its_name(self):
        assert function_name(tell) == "tests.support.test_processes:tell"
        assert import_function(function_name(echo)) is echo
