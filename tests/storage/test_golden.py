"""Files written by every release load for ever, and say what they said then."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

import ddopg
from ddopg.storage.database import STORE
from ddopg.storage.exports import POLICY
from tests.probes import Follow

RELEASES = sorted(
    path for path in (Path(__file__).parents[1] / "golden").iterdir() if (path / STORE).exists()
)


def test_this_version_has_its_golden_files():
    assert ddopg.__version__ in [path.name for path in RELEASES]


@pytest.mark.parametrize("release", RELEASES, ids=lambda path: path.name)
class TestEveryRelease:
    def test_its_policy_acts_as_it_did(self, release):
        known, policy = json.loads((release / "known.json").read_text()), ddopg.load(release / POLICY)
        assert policy.theta.tolist() == known["theta"]
        assert policy.note["steps"] == known["steps"]
        np.testing.assert_allclose(policy.predict(known["observation"])[0], known["action"], rtol=1e-6)

    def test_its_run_is_read_and_goes_on(self, release, tmp_path):
        shutil.copy(release / STORE, tmp_path / STORE)
        known, agent = (
            json.loads((release / "known.json").read_text()),
            ddopg.DDOPG.resume(tmp_path, env=Follow()),
        )
        memory = agent.state.memory
        assert list(memory.returns) == known["returns"]
        assert [trajectory.seed for trajectory in memory.trajectories] == known["seeds"]
        assert [row["return"] for row in agent.store.log()] == known["returns"]
        assert agent.state.steps == known["steps"]
        assert agent.state.incumbent.theta.tolist() == known["theta"]
        assert agent.learn(total_episodes=1).state.memory.size == known["rollouts"] + 1
