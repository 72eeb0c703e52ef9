"""Nothing of ours reads or writes pickles: shown on the source, and by a whole run where pickle is broken."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src" / "ddopg"
MODULES = sorted(SOURCE.rglob("*.py"))
MODULES_THAT_PICKLE = {
    *("pickle", "cPickle", "_pickle", "dill", "cloudpickle", "marshal", "shelve", "joblib", "jsonpickle"),
    *("copyreg", "dbm", "pickletools", "xdrlib"),
}
CALLS_THAT_PICKLE = {"send", "recv", "save_pickle", "read_pickle", "to_pickle"}  # of pipes, and of tables
CALLS_OF_BYTES = {"worker.send(content)", "self.send(content, timeout)"}  # of our own workers, over a socket
CALLS_THAT_MAY = {"load", "savez", "save"}  # of numpy, unless told not to


def calls_of(tree):
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            yield node, ast.unparse(node.func.value), node.func.attr


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(SOURCE)))
def test_no_module_imports_or_calls_what_pickles(path):
    tree = ast.parse(path.read_text())
    for node in ast.walk(tree):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import | ast.ImportFrom) else []
        names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        assert not {part for name in names for part in name.split(".")} & MODULES_THAT_PICKLE
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            assert node.value not in MODULES_THAT_PICKLE, "no import by name either"
    for node, owner, name in calls_of(tree):
        reads_bytes = (
            name == "recv" and len(node.args) == 1
        )  # of a socket; a pipe's, which unpickles, takes nothing
        if not reads_bytes and ast.unparse(node) not in CALLS_OF_BYTES:
            assert name not in CALLS_THAT_PICKLE, ast.unparse(node)
        if owner in ("np", "numpy") and name in CALLS_THAT_MAY:
            options = {k.arg: ast.unparse(k.value) for k in node.keywords}
            assert options.get("allow_pickle") == "False", ast.unparse(node)
        assert owner != "torch" or name != "load", ast.unparse(node)


@pytest.mark.long
def test_training_resuming_loading_and_evaluating_work_where_pickle_is_broken(tmp_path):
    code = f"""
import pickle, sys

def broken(*arguments, **options):
    raise AssertionError("pickle was called")

class Broken:
    __init__ = broken

def watch(event, arguments):
    assert not event.startswith("pickle."), event

sys.addaudithook(watch)
for name in ("load", "loads", "dump", "dumps", "_load", "_loads", "_dump", "_dumps"):
    setattr(pickle, name, broken)
for name in ("Pickler", "Unpickler", "_Pickler", "_Unpickler"):
    setattr(pickle, name, Broken)

from ddopg.cli.main import main
import ddopg

run = {str(tmp_path / "run")!r}
quick = ["--preset", "trajectory", "--search.steps", "5", "--selection.size", "8"]
quick += ["--eval-episodes", "2", "--eval-points", "2", "--quiet"]
assert main(["train", "cartpole", "--episodes", "9", "--out", run, *quick]) == 0
assert main(["resume", run, "--episodes", "11", "--quiet"]) == 0
assert main(["evaluate", run, "--episodes", "2"]) == 0
assert ddopg.load(run + "/policy.safetensors").act([0, 0, 0, 0]).shape == (1,)
try:
    pickle.loads(b"")
except AssertionError:
    print("and pickle is broken")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    assert "and pickle is broken" in done.stdout
