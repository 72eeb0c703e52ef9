"""What `ddopg train cartpole` loads, and how long it takes, before the first rollout: `python benchmarks/startup.py`.

Each round is a process of its own, which stops where the first rollout would begin. Several source trees are measured
in turn, so that a machine that is slower at times is slower for all of them:

    python benchmarks/startup.py [--rounds 7] [--source src ../before/src]
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

HERE = Path(__file__).parents[1] / "src"

CHILD = """
import json, runpy, sys, time
begun, used = time.perf_counter(), time.process_time()

def stop(*arguments, **options):
    seconds, processor = time.perf_counter() - begun, time.process_time() - used
    own = sum(name.split(".")[0] == "ddopg" for name in sys.modules)
    heavy = sorted({"matplotlib", "minari", "optuna", "ray", "torch"} & sys.modules.keys())
    told = {"own_modules": own, "modules": len(sys.modules), "seconds": seconds, "processor_seconds": processor}
    print(json.dumps(told | {"heavy": heavy}))
    raise SystemExit(0)

import ddopg.rollouts.scheduling
ddopg.rollouts.scheduling.play_proposal = stop
sys.argv[1:] = ["train", "cartpole", "--steps", "200", "--quiet", "--out", sys.argv[1]]
runpy.run_module("ddopg", run_name="__main__", alter_sys=True)
"""


def measure(source):
    """One start of the command from that source tree."""
    with tempfile.TemporaryDirectory() as place:
        command = [sys.executable, "-c", CHILD, str(Path(place) / "run")]
        environment = os.environ | {"PYTHONPATH": str(source)}
        done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
    return json.loads(done.stdout.splitlines()[-1])


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--source", type=Path, nargs="+", default=[HERE])
    given = parser.parse_args()
    starts = {source: [measure(source)] for source in given.source}  # the first one warms the caches
    for _ in range(given.rounds):
        for source in given.source:
            starts[source].append(measure(source))
    for source, (first, *rest) in starts.items():
        timed = {name: median(one[name] for one in rest) for name in ("seconds", "processor_seconds")}
        print(json.dumps({"source": str(source)} | first | timed))


if __name__ == "__main__":
    main()
