"""The table of tasks: one folder and one line each, and everything else is derived from it."""

import re
import subprocess
import sys
from pathlib import Path

import gymnasium as gym
import pytest

from ddopg.envs import ENVS, TASKS, tasks
from ddopg.envs.adapter import SHORT_NAMES, make
from ddopg.experiments.bench.stats import REFERENCES, SOLVED
from tests.box2d import mark_box2d

FOLDERS = [path.parent for path in Path(tasks.__file__).parent.glob("*/__init__.py")]
PAGE = (Path(__file__).parents[2] / "docs" / "tasks.md").read_text()


def test_every_folder_is_in_the_table_under_its_own_name():
    assert set(TASKS) == {folder.name for folder in FOLDERS}
    assert all(spec.name == name for name, spec in TASKS.items())


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_every_folder_holds_physics_and_a_drawing(folder):
    assert {"physics.py", "drawing.py"} <= {path.name for path in folder.iterdir()}


@pytest.mark.parametrize("name", mark_box2d(TASKS))
class TestEveryTaskThatIsMade:
    def test_gymnasium_knows_it_as_the_table_says(self, name):
        spec = TASKS[name]
        known = gym.spec(spec.id)
        assert (known.entry_point, known.max_episode_steps) == (spec.entry_point, spec.horizon)
        assert type(make(name).unwrapped) is type(spec.make())

    def test_a_pure_simulator_has_the_time_limit_and_the_name_of_the_table(self, name):
        task = TASKS[name].make().task
        assert task is None or (task.name, task.horizon) == (name, TASKS[name].horizon)


@pytest.mark.parametrize("spec", TASKS.values(), ids=lambda spec: spec.name)
class TestEveryTask:
    def test_names_thresholds_and_references_are_those_of_the_table(self, spec):
        assert ENVS[spec.name] == (spec.id, spec.horizon)
        assert SHORT_NAMES[spec.name] == spec.id
        assert (SOLVED[spec.name], REFERENCES[spec.name]) == (spec.solved, spec.references)

    def test_the_page_of_the_tasks_says_the_same(self, spec):
        (row,) = re.findall(
            rf"^\| {spec.name} \|(.*)\|$", PAGE.partition("## Reference returns")[2].replace("−", "-"), re.M
        )
        nothing, _, best, solved = [float(re.search(r"-?[\d.]+", cell)[0]) for cell in row.split("|")]
        assert (nothing, round(best)) == spec.references
        assert solved == spec.solved
        (horizon,) = re.findall(rf"^\| `{spec.id}` \|[^|]*\| (\d+)", PAGE, re.M)
        assert int(horizon) == spec.horizon


def test_the_tables_of_thresholds_load_no_gymnasium():
    code = "import sys, ddopg.experiments.bench.stats; print('gymnasium' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
