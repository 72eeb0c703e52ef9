"""A robot that cannot run this library: it reads policies from files and writes logs, and so learns to park a cart.

    python examples/ask_tell_robot.py [ROLLOUTS]

Two programs in one file. The laboratory calls `ddopg begin`, `add`, `ask` and `tell`. The robot is a process of its
own that sees only the directory of proposals; of ddopg it has one file, `numpy_policy.py`, which needs NumPy alone.
"""

import csv
import importlib.util
import json
import shutil
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

HORIZON, STEP = 40, 0.1
COLUMNS = ["observation_0", "observation_1", "action_0", "reward"]  # position, velocity; force; reward


def park(act, seed):
    """The machine: a cart on rails that shall stand at 0. One row per step: the observation before each action."""
    rng = np.random.default_rng(seed)
    position, velocity = rng.uniform(0.5, 1.5), 0.0
    rows = []
    for _ in range(HORIZON):
        force = float(act(np.array([position, velocity])).item())
        rows.append([position, velocity, force, -(position**2) - 0.1 * force**2])
        velocity += STEP * (3 * force - 0.5 * velocity)
        position += STEP * velocity
    return rows


def write_log(path, rows):
    """Under another name first: a log that is there is complete."""
    draft = path.with_suffix(".draft")
    with draft.open("w", newline="") as file:
        csv.writer(file).writerows([COLUMNS, *rows])
    draft.rename(path)


def robot(directory):
    """Roll out every proposal that has no log yet, until the laboratory says stop."""
    spec = importlib.util.spec_from_file_location("numpy_policy", directory / "numpy_policy.py")
    numpy_policy = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(numpy_policy)
    while not (directory / "stop").exists():
        for about in sorted(directory.glob("proposals/*/proposal.json")):
            log = about.with_name("rollout.csv")
            if not log.exists():
                policy = numpy_policy.load(about.with_name("policy.safetensors"))
                write_log(log, park(policy, json.loads(about.read_text())["seed"]))
        time.sleep(0.02)


def ddopg(*arguments):
    """One command, as it would be typed; what it prints."""
    command = [sys.executable, "-m", "ddopg", *map(str, arguments)]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def laboratory(directory, rollouts):
    machine = ["--observations", 2, "--low", -1, "--high", 1, "--horizon", HORIZON]
    print(ddopg("begin", directory, *machine, "--seed", 1), end="")

    by_hand = directory / "by_hand.csv"  # what the engineer's own controller did last year
    write_log(by_hand, park(lambda o: np.clip(-0.4 * o[0] - 0.1 * o[1], -1, 1), seed=0))
    print(ddopg("add", directory, by_hand), end="")

    shutil.copy(Path(importlib.util.find_spec("ddopg").origin).with_name("numpy_policy.py"), directory)
    machine = subprocess.Popen([sys.executable, __file__, "robot", directory])
    try:
        told = 0
        while told < rollouts:
            logs = [Path(place) / "rollout.csv" for place in ddopg("ask", directory).splitlines()]
            while not all(log.exists() for log in logs):
                assert machine.poll() is None, "the robot has stopped"
                time.sleep(0.02)
            print(ddopg("tell", directory, *logs), end="")
            told += len(logs)
    finally:
        (directory / "stop").touch()
        machine.wait(timeout=60)
    print(f"the policy to keep: {directory / 'policy.safetensors'}")


if __name__ == "__main__":
    if sys.argv[1:2] == ["robot"]:
        robot(Path(sys.argv[2]))
    else:
        laboratory(Path("cart"), int(sys.argv[1]) if len(sys.argv) > 1 else 20)
