"""The presets on one task.

python benchmarks/presets.py --env cartpole --steps 8000 --presets released paper
"""

import argparse
import json
from pathlib import Path

import curves

from ddopg.config import preset, to_dict


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--env", default="cartpole")
    parser.add_argument("--steps", type=int, default=8000)
    parser.add_argument("--presets", nargs="+", default=["paper", "released"])
    parser.add_argument("--seeds", nargs="+", type=int, default=curves.PAPER_SEEDS)
    parser.add_argument("--episodes", type=int, default=100, help="per evaluation")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "presets")
    options = parser.parse_args()
    for name in options.presets:
        config = to_dict(preset(name))
        path = options.out / f"{options.env}-{name}.jsonl"
        jobs = [(name, config, options.env, options.steps, seed, options.episodes) for seed in options.seeds]
        rows = [row for row in curves.complete(path, jobs, options.workers) if row["seed"] in options.seeds]
        print(options.env, name, json.dumps(curves.summarise(rows)))


if __name__ == "__main__":
    main()
