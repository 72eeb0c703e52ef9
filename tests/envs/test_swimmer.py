import mujoco
import numpy as np
import pytest

from ddopg.envs import PYTHON, SWIMMER
from ddopg.envs.tasks.swimmer.chain import JOINT_LIMIT, link
from ddopg.envs.tasks.swimmer.mujoco_model import xml
from ddopg.envs.tasks.swimmer.physics import swimmer
from tests.envs.policies import returns, starts
from tests.envs.recordings import each, replay, replay_compiled


@pytest.mark.parametrize(**each("swimmer"))
def test_whole_episodes_are_mujocos(episode):
    check(replay(SWIMMER, episode), episode, tolerance=1e-9)


@pytest.mark.parametrize(**each("swimmer"))
def test_compiled_float32_episodes_stay_close(episode):
    check(replay_compiled(SWIMMER, episode), episode, tolerance=1e-4)


@pytest.mark.parametrize(**each("swimmer"))
def test_compiled_float64_episodes_are_mujocos(episode, float64):
    check(replay_compiled(SWIMMER, episode), episode, tolerance=1e-9)


def check(outcomes, episode, tolerance):
    observations, rewards, terminated = outcomes
    np.testing.assert_allclose(observations, episode.observations, atol=tolerance, rtol=0)
    np.testing.assert_allclose(rewards, episode.rewards, atol=tolerance, rtol=0)
    np.testing.assert_array_equal(terminated, episode.done)


@pytest.mark.parametrize("legacy_inertia", [True, False])
@pytest.mark.parametrize("where", ["inside", "near the limits", "far beyond the limits"])
def test_mujoco_agrees_on_single_steps(legacy_inertia, where):
    model = mujoco.MjModel.from_xml_string(xml(legacy_inertia))
    task, generator = swimmer(legacy_inertia), np.random.default_rng(3)
    constraints = set()
    for _ in range(300):
        state, action = random_state(generator, where), 60 * generator.standard_normal(2)
        expected, active = mujoco_step(model, state, action)
        constraints.add(active)
        stepped = task.step(task.start(state.tolist(), PYTHON), action.tolist(), PYTHON)
        np.testing.assert_allclose(stepped, expected, atol=1e-11)
    assert constraints == ({0} if where == "inside" else {0, 1, 2} if where == "near the limits" else {2})


def random_state(generator, where):
    position, velocity = (
        generator.standard_normal(5),
        generator.standard_normal(5) * generator.choice([0.1, 1, 5]),
    )
    sides = generator.choice([-1, 1], 2)
    beyond = {
        "inside": generator.uniform(-1.7, -0.1, 2),
        "near the limits": generator.choice([1e-4, 7e-4, 5e-3]) * generator.standard_normal(2),
        "far beyond the limits": generator.uniform(0.01, 0.3, 2),
    }[where]
    position[3:] = sides * (JOINT_LIMIT + beyond)
    return np.concatenate([position, velocity])


def mujoco_step(model, state, action):
    """State after one step, and how many joint limits were active in it."""
    data = mujoco.MjData(model)
    data.qpos[:], data.qvel[:], data.ctrl[:] = state[:5], state[5:], action
    mujoco.mj_step(model, data)
    return np.concatenate([data.qpos, data.qvel]), data.nefc


@pytest.mark.parametrize("legacy_inertia", [True, False])
def test_mujoco_agrees_on_the_links(legacy_inertia):
    model, body = mujoco.MjModel.from_xml_string(xml(legacy_inertia)), link(legacy_inertia)
    np.testing.assert_allclose(model.body_mass[1:], body.mass)
    np.testing.assert_allclose(
        np.sort(model.body_inertia[1]), [body.axial_inertia, body.inertia, body.inertia]
    )
    np.testing.assert_allclose(model.dof_invweight0[3:], body.joint_weight)


def test_torque_beyond_fifty_costs_but_does_not_push():
    state = SWIMMER.start([0.0] * 10, PYTHON)
    strong, excessive = (SWIMMER.step(state, [torque, 0.0], PYTHON) for torque in (50.0, 100.0))
    assert strong == excessive
    costs = [SWIMMER.reward(strong, [torque, 0.0], PYTHON) for torque in (50.0, 100.0)]
    assert costs[0] - costs[1] == pytest.approx(0.005 * (4 - 1))


def test_a_swimmer_at_rest_stays_at_rest():
    state = SWIMMER.start([0.3, -0.2, 0.5, 0.4, -0.6, 0, 0, 0, 0, 0], PYTHON)
    assert SWIMMER.step(state, [0.0, 0.0], PYTHON) == state


def test_draws_scatter_as_the_original_resets():
    drawn = starts(SWIMMER, 2000)
    np.testing.assert_allclose(np.std(drawn[:, :10], axis=0), [0.01] * 5 + [0.1] * 5, rtol=0.06)
    np.testing.assert_array_equal(drawn[:, 10:12], drawn[:, :2])


def test_constant_full_torque_returns_273():
    scores = returns(SWIMMER, np.zeros((2, 13)), np.array([50.0, 50.0]), starts(SWIMMER, 500))
    assert np.mean(scores) == pytest.approx(273, abs=12)
    assert np.std(scores) == pytest.approx(80, abs=10)


def test_doing_nothing_returns_nothing_on_average():
    scores = returns(SWIMMER, np.zeros((2, 13)), np.zeros(2), starts(SWIMMER, 500))
    assert np.mean(scores) == pytest.approx(0, abs=12)
    assert np.std(scores) == pytest.approx(84, abs=10)
