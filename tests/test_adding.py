"""Adding is copying: what CONTRIBUTING.md promises under "Adding something", one test per kind of thing.

`TestFromOutside` adds to the package as it is installed. `TestInside` adds one file or folder, and one line, to a
copy of it.
"""

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from itertools import count
from pathlib import Path

import gymnasium as gym
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import ddopg
from ddopg import baselines
from ddopg.baselines import AlgorithmSpec, Method
from ddopg.baselines.base import Checkpoint
from ddopg.core.acquisitions import OBJECTIVES
from ddopg.core.optimisers import OPTIMISERS
from ddopg.core.selection import RULES, Selection
from ddopg.core.surrogate import ESTIMATORS
from ddopg.experiments.bench import workers
from ddopg.experiments.bench.jobs import make_job, run
from ddopg.loggers import Logging
from ddopg.policies import linear
from ddopg.rollouts.playing import rollout
from ddopg.support.records import change
from tests.recorded import quick

SOURCE = Path(ddopg.__file__).parent


class Slide(gym.Env):
    """A task: a point on a line, to be held at 0."""

    observation_space = gym.spaces.Box(-np.inf, np.inf, (1,))
    action_space = gym.spaces.Box(-1.0, 1.0, (1,))

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place = self.np_random.uniform(-1, 1)
        return np.array([self.place], np.float32), {}

    def step(self, action):
        self.place += 0.3 * float(action[0])
        return np.array([self.place], np.float32), -abs(self.place), False, False, {}


gym.register("Slide-v0", "tests.test_adding:Slide", max_episode_steps=10)
TASK = "tests.test_adding:Slide-v0"


class Steps:
    """A logger: remembers the steps."""

    def begin(self, about):
        self.about, self.steps, self.ended = about, [], False
        return 0

    def write(self, values, step):
        self.steps.append(step)

    def close(self):
        self.ended = True


@dataclass(frozen=True)
class GuessSettings:
    spread: float = 1.0


def guess(env, seed, settings):
    """A rival: every checkpoint is another random policy."""
    policy, rng = (
        linear(env.observation_space.shape[0], env.action_space.shape[0]),
        np.random.default_rng(seed),
    )
    steps = 0
    for number in count():
        theta = settings.spread * rng.standard_normal(policy.size).astype(np.float32)
        yield Checkpoint(steps, policy, theta)
        steps += rollout(env, policy, theta, seed=number).length


SPEC = AlgorithmSpec(guess, GuessSettings)


class TestFromOutside:
    def test_a_task_is_a_gymnasium_id(self):
        agent = ddopg.DDOPG(TASK, config=quick(), seed=1).learn(total_episodes=6)
        assert (agent.state.memory.size, agent.problem.horizon, agent.state.steps) == (6, 10, 60)

    def test_a_logger_is_an_object_with_three_methods(self):
        log = Steps()
        ddopg.DDOPG(TASK, config=quick(), seed=1).learn(total_episodes=3, callback=Logging(log))
        assert (log.steps, log.ended, log.about["environment"]) == ([10, 20, 30], True, TASK)

    def test_a_rival_is_an_entry_of_the_two_tables(self, monkeypatch):
        monkeypatch.setitem(baselines.KINDS, "guess", SPEC)
        monkeypatch.setitem(baselines.METHODS, "guess", Method("guess", GuessSettings(spread=0.5)))
        record = run(make_job(TASK, "guess", seed=3, budget=50, episodes=2))
        assert (record["kind"], record["settings"], record["steps"]) == ("guess", {"spread": 0.5}, 50)
        assert len({value for _, value in record["curve"]}) == 6  # θ of every checkpoint was judged

    def test_a_rival_named_by_its_module_runs_in_other_processes_too(self, monkeypatch):
        monkeypatch.setitem(baselines.METHODS, "guess", Method("tests.test_adding:SPEC"))
        job = make_job(TASK, "guess", seed=3, budget=30, episodes=2)
        *_, done = workers.run_locally([job], workers=1)
        assert isinstance(done, workers.Done), done
        assert done.record["curve"] == [list(point) for point in run(job)["curve"]]
        assert (done.record["kind"], done.record["settings"]) == ("tests.test_adding:SPEC", {"spread": 1.0})


def learn_with(**changes):
    """A small run in which some names of the configuration are new ones; what each `tell` reported."""
    infos = []
    config = change(quick(), {name.replace("__", "."): value for name, value in changes.items()})
    agent = ddopg.DDOPG(TASK, config=config, seed=1)
    agent.learn(total_episodes=12, callback=lambda agent, info: infos.append(info))
    return infos


class TestTheMethodFromOutside:
    def test_a_selection_rule_is_a_function_of_returns(self, monkeypatch):
        asked = []

        def first_ones(rng, returns, config):
            asked.append(len(returns))
            return Selection(np.arange(4), np.ones(4, int))

        monkeypatch.setitem(RULES, "first_ones", first_ones)
        infos = learn_with(selection__rule="first_ones")
        assert asked == [8, 9, 10, 11, 12]
        assert all(info.ess <= 4.001 for info in infos[7:])

    def test_an_estimator_is_a_function_of_weights_and_data(self, monkeypatch):
        monkeypatch.setitem(ESTIMATORS, "seven", lambda log_w, data, config: 7.0 + 0.0 * jnp.sum(log_w))
        assert {info.predicted for info in learn_with(surrogate__estimator="seven")[7:]} == {7.0}

    def test_an_objective_is_a_function_of_a_belief(self, monkeypatch):
        monkeypatch.setitem(OBJECTIVES, "worst", lambda belief, config: -belief.mean)
        best, worst = (
            learn_with(surrogate__objective="upper_confidence"),
            learn_with(surrogate__objective="worst"),
        )
        assert worst[-1].predicted < best[-1].predicted

    def test_an_optimiser_is_an_optax_transformation(self, monkeypatch):
        monkeypatch.setitem(OPTIMISERS, "none", lambda config, key: optax.set_to_zero())
        agents = [info.search_steps for info in learn_with(search__optimiser="none")[7:]]
        assert agents == [quick().search.steps] * 5


@pytest.fixture
def package(tmp_path):
    """A copy of the package that a test may change, and a way to run Python with it."""
    shutil.copytree(SOURCE, tmp_path / "ddopg", ignore=shutil.ignore_patterns("__pycache__"))

    class Package:
        home = tmp_path / "ddopg"

        def add_line(self, file, after, line):
            text = (self.home / file).read_text()
            assert text.count(after) == 1
            (self.home / file).write_text(text.replace(after, after + line))

        def run(self, code):
            path = os.pathsep.join([str(tmp_path), str(SOURCE.parents[1])])
            done = subprocess.run(
                [sys.executable, "-c", code],
                env={**os.environ, "PYTHONPATH": path},
                capture_output=True,
                text=True,
                check=False,
            )
            assert done.returncode == 0, done.stderr
            return done.stdout.split()

    return Package()


@pytest.mark.long
class TestInside:
    """One file or folder, and one line."""

    def test_a_task_is_a_folder_and_a_line(self, package):
        tasks = package.home / "envs" / "tasks"
        shutil.copytree(tasks / "cartpole", tasks / "balance")
        for path in (tasks / "balance").glob("*.py"):
            text = (
                path.read_text().replace("tasks.cartpole", "tasks.balance").replace('"cartpole"', '"balance"')
            )
            path.write_text(text.replace("ddopg/Cartpole-v0", "ddopg/Balance-v0").replace("950.0", "900.0"))
        package.add_line("envs/tasks/__init__.py", "FOLDERS = (\n", '    "balance",\n')
        shown = package.run(
            "import ddopg, gymnasium\n"
            "from ddopg.experiments.bench.stats import REFERENCES, SOLVED\n"
            "from ddopg.envs.adapter import make\n"
            "assert make('balance').spec.max_episode_steps == 100\n"
            "made = gymnasium.make('ddopg/Balance-v0').unwrapped\n"
            "print(made.task.name, SOLVED['balance'], 'balance' in REFERENCES)"
        )
        assert shown == ["balance", "900.0", "True"]

    def test_a_logger_is_a_file_and_a_line(self, package):
        mine = "class Mine:\n    pass\n\n\ndef make(directory, project):\n    return Mine()\n"
        (package.home / "loggers" / "mine.py").write_text(mine)
        package.add_line(
            "loggers/__init__.py",
            '"ddopg.loggers.tables:make",\n',
            '    "mine": "ddopg.loggers.mine:make",\n',
        )
        shown = package.run(
            "from ddopg.cli.main import parse\n"
            "from ddopg.loggers import loggers_for\n"
            "names = parse(['train', 'cartpole', '--log', 'mine']).log\n"
            "print(*(type(logger).__name__ for logger in loggers_for(names, '.', 'p')))"
        )
        assert shown == ["CsvLogger", "Mine"]

    def test_a_rival_is_a_file_and_a_line(self, package):
        shutil.copy(__file__, package.home / "baselines" / "guess.py")
        package.add_line(
            "baselines/__init__.py", "METHODS = {\n", '    "guess": Method("ddopg.baselines.guess:SPEC"),\n'
        )
        shown = package.run(
            "from ddopg.experiments.bench.jobs import plan_jobs, run\n"
            "(job,) = plan_jobs(['cartpole'], ['guess'], [1], 30, 2)\n"
            "print(job.kind, len(run(job)['curve']))"
        )
        assert shown == ["ddopg.baselines.guess:SPEC", "50"]
