"""A crane whose controller is not JAX, tuned over files: `ddopg begin`, `ask` and `tell`.

    python examples/tune_black_box.py [ROLLOUTS]

Three programs in one file. The crane is a process of its own that knows nothing of ddopg: it reads the parameters
of a proposal from proposal.json, as a program in C++ or a PLC would, and writes a log. The laboratory calls commands.
And `ddopg` itself imports `crane` from this file: with the same controller at hand, it learns from every action.
"""

import csv
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

DT, STEPS, WAY, ROPE = 0.1, 120, 5.0, 3.0  # s, steps, m, m
COLUMNS = [*(f"observation_{i}" for i in range(4)), "action_0", "reward"]
ABOUT = ["--observations", 4, "--low", -2, "--high", 2, "--horizon", STEPS, "--exploration.random", 0]
PARAMETERS = {  # name: start, bounds, unit
    "speed": (0.5, (0.2, 4.0), "m/s"),  # at which the trolley travels
    "braking": (0.3, (0.05, 5.0), "1/s"),  # per metre that is left
    "gain": (1.0, (0.2, 20.0), "kN s/m"),
    "swing": (0.1, (0.02, 20.0), "kN/rad"),
    "swing_rate": (0.1, (0.02, 20.0), "kN s/rad"),
}


def control(p, observation):
    """The crane's own program: travel, brake in time, damp the swing; nothing within the dead zone of the brake."""
    place, speed, angle, rate = map(float, observation)
    left = WAY - place
    if abs(left) < 0.02 and abs(speed) < 0.02 and abs(angle) < 0.02:
        return [0.0]
    wanted = max(-p["speed"], min(p["speed"], p["braking"] * left))
    force = p["gain"] * (wanted - speed) + p["swing"] * angle + p["swing_rate"] * rate
    return [max(-2.0, min(2.0, force))]


def transport(p, seed):
    """The machine: a trolley of 1 t with a load of 0.5 t on a rope. One row per step."""
    rng = np.random.default_rng(seed)
    place, speed, angle, rate = rng.normal(0, [0.05, 0.0, 0.03, 0.03])
    rows = []
    for _ in range(STEPS):
        (force,) = control(p, np.array([place, speed, angle, rate]))
        load = place + ROPE * np.sin(angle)
        cost = 0.02 * (load - WAY) ** 2 + 0.2 * angle**2 + 0.5 * rate**2 + 0.2 * max(0.0, load - WAY)
        rows.append([place, speed, angle, rate, force, -cost])
        for _ in range(5):
            pull = 0.5 * np.sin(angle) * (ROPE * rate**2 + 9.81 * np.cos(angle))
            push = (force - 0.2 * speed + pull) / (1 + 0.5 * np.sin(angle) ** 2)
            turn = -(push * np.cos(angle) + 9.81 * np.sin(angle)) / ROPE - 0.02 * rate
            speed, rate = speed + DT / 5 * push, rate + DT / 5 * turn
            place, angle = place + DT / 5 * speed, angle + DT / 5 * rate
    return rows


def write_log(path, rows):
    """Under another name first: a log that is there is complete."""
    draft = path.with_suffix(".draft")
    with draft.open("w", newline="") as file:
        csv.writer(file).writerows([COLUMNS, *rows])
    draft.rename(path)


def machine(directory):
    """Play every proposal that has no log yet, until the laboratory says stop."""
    while not (directory / "stop").exists():
        for about in sorted(directory.glob("proposals/*/proposal.json")):
            if not about.with_name("rollout.csv").exists():
                proposal = json.loads(about.read_text())
                write_log(about.with_name("rollout.csv"), transport(proposal["parameters"], proposal["seed"]))
        time.sleep(0.02)


def ddopg(*arguments):
    """One command, as it would be typed; what it prints."""
    command = [sys.executable, "-m", "ddopg", *map(str, arguments)]
    known = {"PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")])}
    run = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=os.environ | known)
    return run.stdout


def laboratory(directory, rollouts):
    own = ["--policy", "tune_black_box:crane"]
    print(ddopg("begin", directory, *ABOUT, *own), end="")
    crane = subprocess.Popen([sys.executable, __file__, "machine", directory])
    try:
        for _ in range(rollouts):
            log = Path(ddopg("ask", directory, "--number", 1, *own).strip()) / "rollout.csv"
            while not log.exists():
                assert crane.poll() is None, "the crane has stopped"
                time.sleep(0.02)
            print(ddopg("tell", directory, log, *own), end="")
    finally:
        (directory / "stop").touch()
        crane.wait(timeout=60)
    print(f"the policy to keep: {directory / 'policy.safetensors'}")


if __name__ == "__main__":
    if sys.argv[1:2] == ["machine"]:
        machine(Path(sys.argv[2]))
    else:
        laboratory(Path("crane"), int(sys.argv[1]) if len(sys.argv) > 1 else 30)
else:  # imported by ddopg: what is tuned, and what acts
    from ddopg.controllers import Parameter, black_box

    declared = [
        Parameter(name, start, bounds, unit=unit) for name, (start, bounds, unit) in PARAMETERS.items()
    ]
    crane = black_box(declared, control, observation_size=4, action_size=1)
