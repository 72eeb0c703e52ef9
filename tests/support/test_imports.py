"""What waits for another module: the tasks are registered whoever comes first; each order in its own process."""

import subprocess
import sys

import pytest

KNOWN = "assert {'ddopg/Cartpole-v0', 'ddopg/MountainCar-v0', 'ddopg/Swimmer-v0'} <= set(gymnasium.registry)"


def run(*lines):
    done = subprocess.run(
        [sys.executable, "-c", "\n".join(lines)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


@pytest.mark.parametrize(
    "imports",
    [
        ["import gymnasium", "import ddopg"],
        ["import ddopg", "import gymnasium"],
        ["import ddopg", "import gymnasium.spaces", "import gymnasium"],
        ["import ddopg", "from ddopg import DDOPG", "import gymnasium"],
        ["import gymnasium", "import ddopg.envs"],
    ],
    ids="; ".join,
)
def test_the_tasks_are_registered_whoever_is_imported_first(imports):
    run(*imports, KNOWN)


def test_a_task_can_be_made_by_its_id_in_either_order():
    for imports in ("import gymnasium, ddopg", "import ddopg, gymnasium"):
        run(imports, "gymnasium.make('ddopg/Cartpole-v0').reset(seed=0)")


def test_importing_ddopg_imports_no_gymnasium():
    assert run("import sys, ddopg", "print('gymnasium' in sys.modules)") == ["False"]


def test_what_waits_is_done_once_and_at_the_end_of_the_import(tmp_path):
    (tmp_path / "slow_module.py").write_text("half = 1\nwhole = 2\n")
    shown = run(
        f"import sys; sys.path.insert(0, {str(tmp_path)!r})",
        "from ddopg.support.imports import after_import",
        "before = list(sys.meta_path)",
        "after_import('slow_module', lambda: print(sys.modules['slow_module'].whole))",
        "print('waiting')",
        "import slow_module, importlib",
        "assert sys.meta_path == before",
        "importlib.reload(slow_module)",
        "after_import('slow_module', lambda: print('at once'))",
    )
    assert shown == ["waiting", "2", "at", "once"]


def test_a_module_that_is_not_there_is_still_missing():
    shown = run(
        "from ddopg.support.imports import after_import",
        "after_import('no_such_module', lambda: print('never'))",
        "try: import no_such_module",
        "except ModuleNotFoundError as error: print(error.name)",
    )
    assert shown == ["no_such_module"]
