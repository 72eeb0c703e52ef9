"""Episodes recorded from the original environments, and ways of replaying them."""

import math
from functools import cache, partial
from pathlib import Path
from typing import NamedTuple

import jax
import numpy as np

import ddopg.envs
from ddopg.envs import JAX, PYTHON
from ddopg.envs.tasks.cartpole import physics as cartpole

ddopg.envs.register()


class Episode(NamedTuple):
    start: np.ndarray  # (O,) the observation that reset returned
    actions: np.ndarray  # (T, A)
    observations: np.ndarray  # (T, O) after each step
    rewards: np.ndarray  # (T,)
    done: np.ndarray  # (T,)
    full_state: np.ndarray  # (T, ·) before each step
    kind: str
    fresh: bool  # recorded in a newly built world: no solver caches of an earlier episode


@cache
def episodes(name):
    path = Path(__file__).parent / "fixtures" / f"{name}.npz"
    with np.load(path, allow_pickle=False) as file:
        data = dict(file)
    return [_episode(data, e) for e in range(len(data["length"]))]


def _episode(data, e):
    t = data["length"][e]
    steps = (data[key][e, :t] for key in ("action", "next_obs", "reward", "done", "full_state"))
    return Episode(data["init_obs"][e], *steps, str(data["kind"][e]), bool(data["fresh_env"][e]))


def each(name, fresh_only=False):
    """Arguments for `pytest.mark.parametrize`: every recorded episode under its label.

    `fresh_only` leaves out those recorded on a re-used world, whose contact caches are not ours.
    """
    chosen = [(i, e) for i, e in enumerate(episodes(name)) if e.fresh or not fresh_only]
    labels = [f"{i}: {episode.kind}" for i, episode in chosen]
    return {"argnames": "episode", "argvalues": [episode for _, episode in chosen], "ids": labels}


def replay(task, episode):
    """Open loop on plain floats: observations, rewards, terminated."""
    state, outcomes = task.start(episode.start.tolist(), PYTHON), []
    for action in episode.actions.tolist():
        state = task.step(state, action, PYTHON)
        outcome = (
            task.observe(state, PYTHON),
            task.reward(state, action, PYTHON),
            task.terminated(state, PYTHON),
        )
        outcomes.append(outcome)
    return tuple(map(np.array, zip(*outcomes, strict=True)))


def replay_compiled(task, episode):
    """The same in JAX, padded to one length so that every episode of a task shares one program."""
    padding = ((0, 1000 - len(episode.actions)), (0, 0))
    outcomes = _scan(task, episode.start, np.pad(episode.actions, padding))
    return tuple(np.asarray(part)[: len(episode.actions)] for part in outcomes)


@partial(jax.jit, static_argnums=0)
def _scan(task, start, actions):
    def step(state, action):
        state = task.step(state, action, JAX)
        return state, (task.observe(state, JAX), task.reward(state, action, JAX), task.terminated(state, JAX))

    return jax.lax.scan(step, task.start(start, JAX), actions)[1]


def cartpole_state(bodies, quiet=0.0):
    """The state from Box2D's bodies: x, y, angle, vx, vy, rate of the cart's, then of the pole's origin."""
    x, _, _, v, _, _, foot_x, foot_y, angle, qx, qy, rate = bodies[:12].tolist()
    px = foot_x - cartpole.HALF_LENGTH * math.sin(angle)
    py = foot_y - cartpole.CART_HEIGHT + cartpole.HALF_LENGTH * math.cos(angle)
    return cartpole.State(x, v, px, py, angle, qx, qy, rate, quiet)
