"""A trap for one rollout, wherever it is played, and a real Ray cluster to play it on."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import contextmanager, suppress
from pathlib import Path

ROOT = Path(__file__).parents[1]
RAY = str(Path(sys.executable).parent / "ray")


class Trap:
    """A directory that all processes know by the variable TRAP; see `tests.worlds.Trapped`."""

    def __init__(self, path):
        self.path = path

    def set(self):
        """The next step of a `Trapped` world, in any process, will hang."""
        (self.path / "pid").unlink(missing_ok=True)
        (self.path / "set").touch()

    def caught(self, seconds=60):
        """The process that hangs."""
        end = time.monotonic() + seconds
        while not (self.path / "pid").exists():
            assert time.monotonic() < end, "nobody went into the trap"
            time.sleep(0.01)
        return int((self.path / "pid").read_text())

    @contextmanager
    def killing(self):
        """Within the block, whoever goes into the trap is killed."""
        thread = threading.Thread(target=lambda: os.kill(self.caught(), signal.SIGKILL))
        (self.path / "pid").unlink(missing_ok=True)
        thread.start()
        yield
        thread.join()
        assert not (self.path / "set").exists()

    @staticmethod
    def step_into():
        """Hang, if the trap is set; the first one takes it away."""
        path = Path(os.environ["TRAP"])
        with suppress(FileNotFoundError):
            (path / "set").unlink()
            (path / "draft").write_text(str(os.getpid()))
            (path / "draft").rename(path / "pid")
            time.sleep(60)


@contextmanager
def ray_cluster(log, cpus=2):
    """The address of a head node with so many CPUs, stopped afterwards by the process that started it."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    place = Path("/tmp") / f"ray-{os.getpid()}"  # Ray's sockets need a short path
    command = [RAY, "start", "--head", "--block", f"--num-cpus={cpus}", "--include-dashboard=false"]
    command += ["--node-ip-address=127.0.0.1", f"--port={port}", f"--temp-dir={place}"]
    command += ["--object-store-memory=80000000", "--disable-usage-stats"]
    environment = os.environ | {"PYTHONPATH": str(ROOT), "RAY_USAGE_STATS_ENABLED": "0"}
    with (
        log.open("w") as output,
        subprocess.Popen(command, env=environment, cwd=ROOT, stdout=output, stderr=output) as head,
    ):
        _wait_for(port, head)
        try:
            yield f"127.0.0.1:{port}"
        finally:
            head.terminate()
    shutil.rmtree(place, ignore_errors=True)


def _wait_for(port, head):
    for _ in range(300):
        assert head.poll() is None, "the cluster did not start"
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            time.sleep(0.2)
        else:
            return
    raise AssertionError("the cluster did not answer")
