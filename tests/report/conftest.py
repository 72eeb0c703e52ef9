"""Small runs that pages are made of, and a browser that looks at them."""

import base64
import dataclasses
import json
import os
import re
import shutil
from types import SimpleNamespace

import gymnasium as gym
import numpy as np
import pytest

import ddopg
from ddopg.cli.main import main
from ddopg.controllers import Parameter, controller
from ddopg.storage.reading import read_run
from tests.recorded import quick

QUICK = ["--preset", "trajectory", "--eval-episodes", "3", "--eval-points", "4", "--quiet"]
BALANCE = controller(
    [
        Parameter("position", 1.0, bounds=(0.1, 4.0), unit="N/m"),
        Parameter("factor", 1.0, fixed=True),
        Parameter("angle", -40.0, bounds=(-np.inf, 0.0), scale=10.0, unit="N/rad"),
    ],
    lambda p, o: [p["factor"] * (p["position"] * o[0] + p["angle"] * o[2])],
    observation_size=4,
    action_size=1,
)
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


def train(out, *options):
    assert main(["train", "cartpole", "--out", str(out), *map(str, options), *QUICK]) == 0
    return out


@pytest.fixture(scope="session")
def directories(tmp_path_factory):
    """Three seeds of one configuration, one run of the paper's, one of a two-joint robot, one of a controller."""
    home = tmp_path_factory.mktemp("runs")
    small = ["--selection.size", 12, "--search.steps", 10]
    seeds = [train(home / f"seed{seed}", "--episodes", 20, "--seed", seed, *small) for seed in (1, 2, 3)]
    paper = train(home / "paper", "--episodes", 14, "--preset", "paper", "--search.steps", 20)
    robot = ddopg.DDOPG(
        observation_space=gym.spaces.Box(-1, 1, (3,)),
        action_space=gym.spaces.Box(np.array([-1, -4]), np.array([1, 4]), dtype=np.float64),
        horizon=6,
        config=quick("trajectory", steps=12),
        run_directory=home / "robot",
    )
    for _ in range(12):
        for proposal in robot.pending or robot.ask():
            robot.tell(proposal, played(proposal))
    robot.close()
    tuned = ddopg.DDOPG("cartpole", policy=BALANCE, config=quick(), run_directory=home / "tuned")
    tuned.learn(total_episodes=12).close()
    return SimpleNamespace(
        seeds=seeds,
        paper=paper,
        robot=home / "robot",
        tuned=home / "tuned",
        all=[*seeds, paper, home / "robot", home / "tuned"],
    )


def played(proposal):
    observations = np.random.default_rng(proposal.number).uniform(-1, 1, (6, 3))
    actions = np.array([proposal.act(o) for o in observations])
    return proposal.trajectory(observations, actions, -np.square(actions - observations[:, :2]).sum(axis=1))


@pytest.fixture(scope="session")
def readings(directories):
    return [read_run(directory) for directory in directories.all]


@pytest.fixture(scope="session")
def report(directories, tmp_path_factory):
    """The page of them all."""
    path = tmp_path_factory.mktemp("page") / "report.html"
    assert main(["report", *map(str, directories.all), "-o", str(path)]) == 0
    return path


def data_of(path):
    """What a page carries."""
    text = path.read_text()
    return json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.S)[1])


def with_estimator(reading, name, **changes):
    """The same run with an estimator of that name, and other changes of the surrogate."""
    config = reading.about.config
    changed = dataclasses.replace(
        config, surrogate=dataclasses.replace(config.surrogate, estimator=name, **changes)
    )
    return reading._replace(about=reading.about._replace(config=changed))


def unpacked(text, columns):
    return np.frombuffer(base64.b64decode(text), "<f4").astype(np.float64).reshape(-1, columns)


def browser_path():
    """The browser of this machine. Without one there is nothing to see: in CI that is a failure."""
    found = next(filter(None, map(shutil.which, BROWSERS)), None)
    if found is None:
        say = pytest.fail if os.environ.get("CI") else pytest.skip
        say(
            f"the report is tested in a browser, and there is none of {', '.join(BROWSERS)}: install chromium"
        )
    return found


@pytest.fixture(scope="module")
def browser():
    path = browser_path()
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield browser
        browser.close()
