"""Writes the golden files of this version: `python -m tests.golden.write`; after its release, never again.

They must load for ever, and give the numbers that are written beside them.
"""

import json
import tempfile
from pathlib import Path

import ddopg
from ddopg.storage.codec import encode_state
from ddopg.storage.database import STORE
from ddopg.storage.exports import POLICY
from tests.probes import Follow
from tests.recorded import example_state, quick

EPISODES = 10
STATE = "state.safetensors"


def main():
    place = Path(__file__).parent / ddopg.__version__
    place.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as temporary:
        agent = ddopg.DDOPG(Follow(), config=quick("released", steps=5), seed=16, run_directory=temporary)
        agent.learn(total_episodes=EPISODES)
        agent.save(place / POLICY)
        agent.close()
        (place / STORE).write_bytes((Path(temporary) / STORE).read_bytes())
    (place / STATE).write_bytes(encode_state(example_state()))
    known = {
        "rollouts": agent.state.memory.size,
        "steps": agent.state.steps,
        "returns": agent.state.memory.returns.tolist(),
        "seeds": [t.seed for t in agent.state.memory.trajectories],
        "theta": agent.state.incumbent.theta.tolist(),
        "observation": [0.25],
        "action": agent.predict([0.25])[0].tolist(),
    }
    (place / "known.json").write_text(json.dumps(known, indent=2) + "\n")


if __name__ == "__main__":
    main()
