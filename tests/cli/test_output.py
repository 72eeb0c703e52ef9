"""What a command prints, where it prints it to, and what becomes of its work if it cannot print."""

import errno
import os
import subprocess
import sys

import pytest

from ddopg.cli.main import main
from tests.recorded import SIZES
from tests.traps import ROOT

QUICK = [*SIZES, "--eval-points", "1"]
FILES = {"run.sqlite", "policy.safetensors"}


def train(out, *more):
    """A run that ends before the first improvement, for which programs would be compiled."""
    return ["train", "cartpole", "--episodes", "3", "--out", str(out), *QUICK, *more]


def start(arguments, **options):
    settings = {"cwd": ROOT, "text": True, "stderr": subprocess.PIPE} | options
    return subprocess.Popen([sys.executable, "-m", "ddopg", *arguments], **settings)


def assert_finished(process, out, code=0):
    """The work was done, the files are there, and nothing was raised."""
    shown = process.communicate(timeout=300)[1] or ""
    assert "Traceback" not in shown, shown
    assert "Exception ignored" not in shown, shown
    assert process.returncode == code, shown
    assert set(os.listdir(out)) >= FILES
    return shown


class TestNames:
    @pytest.mark.parametrize("name", ["m[/x]", "m[bold]y", "m:smile:"])
    def test_a_directory_is_printed_as_it_is_called(self, name, tmp_path, capsys):
        out = tmp_path / name
        assert main(train(out, "--quiet")) == 0
        shown = capsys.readouterr().out
        assert f"   policy: {out}/policy.safetensors\n" in shown
        assert f"all files: {out}\n" in shown
        page = out / "page.html"
        assert main(["report", str(out), "--out", str(page)]) == 0
        assert f"report: {page} (" in capsys.readouterr().out

    def test_names_of_a_benchmark_are_printed_as_they_are(self, tmp_path, capsys):
        out = tmp_path / "m[bold]y"
        options = ["--envs", "cartpole", "--methods", "random", "--seeds", "1", "--steps", "200", "--quiet"]
        assert main(["bench", "--out", str(out), "--eval-episodes", "2", *options]) == 0
        assert f"records: {out}/" in capsys.readouterr().out


@pytest.mark.long
class TestStandardOutput:
    def test_a_reader_that_leaves_does_not_stop_the_work(self, tmp_path):
        """As `ddopg train ... 2>&1 | head -1` does: the pipe is closed before anything is written."""
        process = start(train(tmp_path / "run"), stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        process.stdout.close()
        assert process.wait(300) == 0
        assert set(os.listdir(tmp_path / "run")) >= FILES

    def test_a_reader_of_standard_output_alone_may_leave_too(self, tmp_path):
        process = start(train(tmp_path / "run", "--quiet"), stdout=subprocess.PIPE)
        process.stdout.close()
        process.stdout = None
        assert_finished(process, tmp_path / "run")

    def test_standard_output_may_be_closed(self, tmp_path):
        code = "import os, sys; os.close(1); os.execv(sys.executable, sys.argv[1:])"
        program = [sys.executable, "-m", "ddopg"]
        command = [sys.executable, "-c", code, *program, *train(tmp_path / "run", "--quiet")]
        assert_finished(
            subprocess.Popen(command, cwd=ROOT, text=True, stderr=subprocess.PIPE), tmp_path / "run"
        )

    @pytest.mark.skipif(not os.path.exists("/dev/full"), reason="only Linux has a device that is always full")
    def test_output_that_cannot_be_written_is_said_at_the_end(self, tmp_path):
        with open("/dev/full", "w") as full:
            process = start(train(tmp_path / "run", "--quiet"), stdout=full)
            shown = assert_finished(process, tmp_path / "run", code=1)
        assert f"standard output could not be written: {os.strerror(errno.ENOSPC)}" in shown

    def test_a_terminal_that_knows_only_ascii_is_enough(self, tmp_path):
        environment = os.environ | {"LANG": "C", "LC_ALL": "C", "PYTHONIOENCODING": "ascii"}
        process = start(train(tmp_path / "run"), stdout=subprocess.PIPE, env=environment)
        assert_finished(process, tmp_path / "run")

    def test_help_for_a_reader_that_leaves_is_no_error(self):
        process = start(["train", "--help"], stdout=subprocess.PIPE)
        process.stdout.close()
        process.stdout = None
        shown = process.communicate(timeout=60)[1]
        assert process.returncode == 0
        assert shown == ""
