import subprocess
import sys
import warnings

import gymnasium as gym
import jax
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

import ddopg.envs
from ddopg.envs import CARTPOLE, ENVS, PYTHON, SWIMMER, SWINGUP, Task, initial_observation
from ddopg.envs.tasks.cartpole.drawing import paint as paint_cartpole
from ddopg.envs.tasks.mountaincar import physics as mountaincar
from ddopg.envs.tasks.mountaincar.drawing import paint as paint_mountaincar
from ddopg.envs.tasks.swimmer.drawing import paint as paint_swimmer
from ddopg.envs.tasks.swimmer.mujoco_model import Camera
from ddopg.envs.tasks.swingup.drawing import paint as paint_swingup
from tests.box2d import mark_box2d
from tests.envs.policies import rewards

IDS = mark_box2d(identifier for identifier, _ in ENVS.values())
CART = CARTPOLE.start([0.0, 0.0, 0.0, 0.0], PYTHON)
FISH = SWIMMER.start([0.0] * 10, PYTHON)
HANGING = SWINGUP.start([0.0, 0.0, -1.0, 0.0, 0.0], PYTHON)
NORMALISED = "For Box action spaces, we recommend using a symmetric and normalized space"


@pytest.fixture(params=IDS)
def env(request):
    ddopg.envs.register()
    env = gym.make(request.param, render_mode="rgb_array")
    yield env
    env.close()


def test_gymnasiums_checker_has_no_complaint(env):
    with warnings.catch_warnings():
        # The actions are forces in SI units, as in the original tasks: this one advice cannot be followed.
        warnings.filterwarnings("ignore", message=f".*{NORMALISED}")
        check_env(env.unwrapped)


def test_registering_again_changes_nothing():
    before = dict(gym.registry)
    ddopg.envs.register()
    assert dict(gym.registry) == before


def test_importing_the_tasks_loads_no_simulator():
    code = (
        "import sys, ddopg.envs; ddopg.envs.register(); "
        "import ddopg.envs.tasks.cartpole.drawing, ddopg.envs.tasks.mountaincar.physics; "
        "print([m for m in ('jax', 'mujoco', 'Box2D', 'PIL') if m in sys.modules])"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"


def test_making_a_cartpole_does_not_load_jax():
    code = (
        "import sys, gymnasium, ddopg.envs as e; e.register(); gymnasium.make('ddopg/Cartpole-v0').reset(); "
    )
    code += "print('jax' in sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "False"


def test_the_seed_decides_the_episode(env):
    def play(seed):
        observation, _ = env.reset(seed=seed)
        return [observation, *(env.step(env.action_space.high / 3)[0] for _ in range(5))]

    np.testing.assert_array_equal(play(4), play(4))
    assert not np.array_equal(play(4), play(5))


def test_resets_without_a_seed_differ(env):
    env.reset(seed=1)
    assert not np.array_equal(env.reset()[0], env.reset()[0])


def test_a_given_start_is_the_start_that_was_drawn(env):
    drawn, _ = env.reset(seed=9)
    there = [env.step(env.action_space.low)[0] for _ in range(5)]
    given, _ = env.reset(options={"observation": drawn})
    np.testing.assert_array_equal(given, drawn)
    np.testing.assert_array_equal([env.step(env.action_space.low)[0] for _ in range(5)], there)


@pytest.mark.parametrize("task", [CARTPOLE, SWIMMER, SWINGUP])
def test_a_seed_means_the_same_start_in_gym_and_compiled(task):
    env = gym.make(ENVS[task.name][0])
    np.testing.assert_array_equal(env.reset(seed=11)[0], initial_observation(task, 11))


@pytest.mark.parametrize(("task", "steps"), [(CARTPOLE, 25), (SWIMMER, 1000), (SWINGUP, 50)])
def test_a_compiled_batch_earns_what_the_gym_loop_earns(task, steps):
    env = gym.make(ENVS[task.name][0])
    gains = np.random.default_rng(0).standard_normal((task.action_size, task.observation_size))
    bias = np.zeros(task.action_size)
    starts = np.stack([initial_observation(task, seed) for seed in range(5)])
    batch = jax.jit(jax.vmap(lambda start: rewards(task, gains, bias, start)))(starts)
    for seed, compiled in enumerate(np.asarray(batch)):
        looped = gym_rewards(env, gains, seed)[:steps]
        np.testing.assert_allclose(compiled[: len(looped)], looped, atol=1e-4)
        if len(looped) < steps:
            assert not compiled[len(looped) :].any()


def gym_rewards(env, gains, seed):
    observation, _ = env.reset(seed=seed)
    collected, over = [], False
    while not over:
        observation, reward, terminated, truncated, _ = env.step(gains @ observation)
        collected.append(reward)
        over = terminated or truncated
    return collected


def test_a_falling_pole_terminates_and_a_swimmer_is_only_cut_off():
    pole = gym.make("ddopg/Cartpole-v0")
    pole.reset(seed=0)
    *_, terminated, truncated, _ = [pole.step(np.array([10.0])) for _ in range(12)][-1]
    assert (terminated, truncated) == (True, False)
    fish = gym.make("ddopg/Swimmer-v0")
    fish.reset(seed=0)
    *_, terminated, truncated, _ = [fish.step(np.zeros(2)) for _ in range(1000)][-1]
    assert (terminated, truncated) == (False, True)


def test_actions_are_not_clipped_and_the_metadata_say_so(env):
    assert env.unwrapped.metadata["unclipped_actions"] is True
    env.reset(seed=2)
    _, usual, *_ = env.step(env.action_space.high)
    env.reset(seed=2)
    _, excessive, *_ = env.step(env.action_space.high * 3)
    if env.spec.id in ("ddopg/MountainCar-v0", "ddopg/CartpoleSwingUp-v0"):
        assert excessive == usual  # their rewards do not know the action
    else:
        assert excessive < usual


def test_the_pure_simulator_is_within_reach(env):
    expected = {
        "ddopg/Cartpole-v0": CARTPOLE,
        "ddopg/Swimmer-v0": SWIMMER,
        "ddopg/CartpoleSwingUp-v0": SWINGUP,
    }.get(env.spec.id)
    assert env.unwrapped.task is expected
    assert expected is None or isinstance(expected, Task)


@pytest.mark.parametrize("wrong", [np.nan, np.inf])
def test_an_action_that_is_no_number_is_refused(env, wrong):
    env.reset(seed=0)
    with pytest.raises(ValueError, match="action must be finite"):
        env.step(np.full(env.action_space.shape, wrong))


def test_an_action_of_the_wrong_shape_is_refused(env):
    env.reset(seed=0)
    size = env.action_space.shape[0]
    with pytest.raises(ValueError, match=rf"action must have shape \({size},\), got shape \(1, {size}\)"):
        env.step(np.zeros((1, size)))


def test_a_wrong_start_is_refused(env):
    size = env.observation_space.shape[0]
    with pytest.raises(ValueError, match="must have shape"):
        env.reset(options={"observation": np.zeros(size + 1)})
    with pytest.raises(ValueError, match="must be finite"):
        env.reset(options={"observation": np.full(size, np.nan)})
    with pytest.raises(ValueError, match="knows the option 'observation'"):
        env.reset(options={"observations": np.zeros(size)})


def test_stepping_or_looking_before_the_first_reset_is_refused(env):
    with pytest.raises(gym.error.ResetNeeded, match="cannot step before"):
        env.unwrapped.step(np.zeros(env.action_space.shape))
    with pytest.raises(gym.error.ResetNeeded, match="cannot render before"):
        env.unwrapped.render()


def test_an_unknown_render_mode_is_refused():
    with pytest.raises(ValueError, match="must be None or 'rgb_array', got 'ansi'"):
        gym.make("ddopg/Cartpole-v0", render_mode="ansi")


def test_a_picture_shows_the_state(env):
    env.reset(seed=0)
    before, again = env.render(), env.render()
    assert before.shape == (400, 600, 3)
    assert before.dtype == np.uint8
    np.testing.assert_array_equal(before, again)
    for _ in range(4):
        env.step(env.action_space.high)
    assert (env.render() != before).any()


@pytest.mark.parametrize(
    ("draw", "state", "field"),
    [
        (paint_cartpole, CART, "x"),
        (paint_cartpole, CART, "px"),
        (paint_cartpole, CART, "angle"),
        (paint_mountaincar, mountaincar.State(0.0, 0.2, 0.0), "x"),
        (paint_mountaincar, mountaincar.State(0.0, 0.2, 0.0), "y"),
        (paint_mountaincar, mountaincar.State(0.0, 0.2, 0.0), "angle"),
        (paint_swingup, HANGING, "x"),
        (paint_swingup, HANGING, "sin"),
        (paint_swimmer, FISH, "heading"),
        (paint_swimmer, FISH, "bend2"),
        (paint_swimmer, FISH, "bend3"),
        (Camera().paint, FISH, "x"),
        (Camera().paint, FISH, "bend3"),
    ],
)
def test_nothing_visible_is_left_out_of_the_picture(draw, state, field):
    moved = state._replace(**{field: getattr(state, field) + 0.1})
    changed = (draw(state) != draw(moved)).any(axis=-1)
    assert changed.sum() > 250  # pixels: more than a mark on the body, which moves along with it


def test_egl_may_be_asked_for_after_mujoco_was_imported(monkeypatch):
    """As `record` does for environments of others; MuJoCo itself has made its choice by then."""
    for asked in ("", "egl"):
        monkeypatch.setenv("MUJOCO_GL", asked) if asked else monkeypatch.delenv("MUJOCO_GL", raising=False)
        assert Camera().paint(FISH).shape == (400, 600, 3)  # drawn flat, it would warn


def test_without_opengl_the_swimmer_is_drawn_flat_and_says_so_once(monkeypatch):
    def broken(legacy_inertia):
        raise RuntimeError("no display")

    monkeypatch.setattr("ddopg.envs.tasks.swimmer.mujoco_model._Scene", broken)
    camera, state = Camera(), SWIMMER.start([0.1] * 10, PYTHON)
    with pytest.warns(UserWarning, match="MUJOCO_GL"):
        first = camera.paint(state)
    assert first.shape == (400, 600, 3)
    moved = camera.paint(state._replace(bend2=0.9))  # a second warning would be an error here
    assert (moved != first).any()
