"""A program that computes in float64, or on another device, for reasons of its own: the learner's run stays the same.

Each case is a process of its own, because the switches hold for a whole process.
"""

import os
import subprocess
import sys

import pytest

from tests.traps import ROOT

pytestmark = pytest.mark.long

LEARN = """
import hashlib, sys
import jax, jax.numpy as jnp, numpy as np
{switch}
import ddopg
from ddopg.policies import custom
from tests.probes import Follow
from tests.recorded import contents, quick

def digest(thing):
    print(hashlib.sha256(repr(thing).encode()).hexdigest())

place = sys.argv[1]
for name in ("default", "paper"):
    agent = ddopg.DDOPG("cartpole", preset=name, seed=3, run_directory=f"{{place}}/{{name}}")
    agent.learn(total_episodes=11)
    agent.close()
    agent = ddopg.DDOPG.resume(f"{{place}}/{{name}}")
    agent.learn(total_episodes=2)
    digest(contents(agent.state))
    digest(agent.predict(np.ones(4))[0].tolist() if name == "default" else None)
    digest(ddopg.evaluate(agent, episodes=3).tolist())
    shown = agent.state.memory.trajectories[-1]
    digest(agent.add(shown._replace(theta=np.zeros(0, np.float32))))
    agent.close()

own = custom(
    lambda key: {{"w": jax.random.normal(key, (1, 1))}}, lambda p, o: p["w"] @ o + jnp.zeros(1), 1, 1
)
agent = ddopg.DDOPG(Follow(), config=quick(), seed=1, policy=own).learn(total_episodes=9)
digest(contents(agent.state))
{check}
"""
NOTHING = "pass"
X64 = "assert jnp.zeros(1).dtype == 'float64'"
SWITCHES = {
    "the variable": ({"JAX_ENABLE_X64": "1"}, NOTHING, X64),
    "the program": ({}, "jax.config.update('jax_enable_x64', True)", X64),
    "another device": (
        {"XLA_FLAGS": f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count=2"},
        "jax.config.update('jax_default_device', jax.devices()[1])",
        "assert jnp.zeros(1).devices() == {jax.devices()[1]}",
    ),
}


def learn(place, variables, switch, check):
    clean = {name: value for name, value in os.environ.items() if name != "JAX_ENABLE_X64"}
    code = LEARN.format(switch=switch, check=check)
    done = subprocess.run(
        [sys.executable, "-c", code, str(place)],
        env=clean | variables,
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout.split()


@pytest.fixture(scope="module")
def ordinary(tmp_path_factory):
    return learn(tmp_path_factory.mktemp("ordinary"), {}, NOTHING, NOTHING)


QUICK = "the variable"  # the others take a process each, and are slow


@pytest.mark.parametrize(
    "name", [name if name == QUICK else pytest.param(name, marks=pytest.mark.slow) for name in SWITCHES]
)
def test_what_the_program_around_it_has_switched_on_changes_no_bit_of_a_run(name, ordinary, tmp_path):
    found = learn(tmp_path, *SWITCHES[name])
    assert len(found) == 9
    assert found == ordinary
