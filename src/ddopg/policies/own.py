"""Policies of one's own: any function of JAX arrays, with a memory or without one."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from ddopg.errors import ConfigError, SpaceError, require
from ddopg.policies.record import Policy, Recurrence
from ddopg.support.compilation import in_float32


@in_float32
def custom(
    init: Callable[[jax.Array], Any],
    apply: Callable[..., Any],
    observation_size: int,
    action_size: int,
    *,
    initial: Callable[[Any], Any] | None = None,
    squash: bool = False,
) -> Policy:
    """A policy class of your own, such as a module of Flax or Equinox.

    It must be deterministic, and smooth enough to be differentiated. Its answers are actions in the unit of the
    environment and are clipped to the action range; nothing else is done to them unless you choose `squash`.

    Args:
        init: `init(key)` gives its parameters, any pytree of arrays.
        apply: `apply(parameters, observation)` gives the action (A,) for one observation (O,). With `initial`,
            `apply(parameters, state, observation)` gives the next state and the action.
        observation_size: numbers per observation, O.
        action_size: numbers per action, A.
        initial: `initial(parameters)` gives the state before the first step, any pytree of arrays: a memory.
        squash: send the answer through tanh onto the action range, ±1 being most of it, instead of clipping it.

    Returns:
        The policy class, for `DDOPG(…, policy=…)`.

    Raises:
        SpaceError: if `apply` does not give `action_size` numbers, or a state of another shape, or reads an
            observation that is not there.
        ConfigError: if `apply` is not written with `jax.numpy`.

    Example:
        >>> import jax.numpy as jnp
        >>> policy = custom(
        ...     init=lambda key: {"gain": jnp.array([2.0])},
        ...     apply=lambda parameters, observation: -parameters["gain"] * observation,
        ...     observation_size=1,
        ...     action_size=1,
        ... )
        >>> policy.size
        1
    """
    example, unravel = ravel_pytree(init(jax.random.key(0)))
    sizes = (len(example), observation_size, action_size)
    answer = functional(sizes, apply, unravel, initial)
    return answer._replace(init=lambda key: ravel_pytree(init(key))[0], squash=squash)


def functional(
    sizes: tuple[int, int, int],
    apply: Callable[..., Any],
    unravel: Callable[[Any], Any],
    initial: Callable[[Any], Any] | None = None,
) -> Policy:
    """A policy class from a function of JAX arrays; it starts at θ = 0.

    Args:
        sizes: numbers of θ, of an observation and of an action, (D, O, A).
        apply: `apply(parameters, observation)` → action, or, with `initial`, `apply(parameters, state, observation)`
            → (state, action).
        unravel: θ (D,) → parameters, in the form that `apply` takes.
        initial: `initial(parameters)` → the state before the first step, any pytree of arrays.

    Returns:
        The policy class.

    Raises:
        SpaceError: if the action or the state has another shape than it must have, or an observation is read that
            is not there.

    Example:
        >>> functional((1, 2, 1), lambda gain, seen: gain * seen[:1], lambda theta: theta[0]).size
        1
    """
    size, observation_size, action_size = sizes
    zeros, seen = jnp.zeros(size), jnp.zeros(observation_size)
    if initial is not None:
        recurrence = _make_recurrence(sizes, apply, unravel, initial)
        return Policy(
            size,
            lambda key: zeros,
            refuse_to_act,
            (1.0,) * action_size,
            recurrence=recurrence,
            observation_size=observation_size,
        )
    _require_actions(_trace(apply, unravel(zeros), seen), observation_size, action_size)

    def act(theta: Any, observation: Any) -> Any:
        each = jnp.vectorize(partial(apply, unravel(theta)), signature="(o)->(a)")
        return each(observation)

    compiled = in_float32(jax.jit(act))

    def act_on_either(theta: Any, observation: Any) -> Any:
        if isinstance(theta, np.ndarray) and isinstance(observation, np.ndarray):
            return np.asarray(compiled(theta, observation))
        return act(theta, observation)

    return Policy(
        size, lambda key: zeros, act_on_either, (1.0,) * action_size, observation_size=observation_size
    )


def _make_recurrence(
    sizes: tuple[int, int, int],
    apply: Callable[..., Any],
    unravel: Callable[[Any], Any],
    initial: Callable[[Any], Any],
) -> Recurrence:
    """The state, any pytree, as one flat vector; `apply` must keep its shape."""
    size, observation_size, action_size = sizes
    zeros, seen = jnp.zeros(size), jnp.zeros(observation_size)
    example = jax.tree.map(jnp.asarray, initial(unravel(zeros)))
    flat, unravel_state = ravel_pytree(example)
    answer = _trace(apply, unravel(zeros), example, seen)
    require(
        isinstance(answer, tuple) and len(answer) == 2,
        f"a controller with a memory gives two things, (state, action), got {answer}",
        SpaceError,
    )
    after, action = answer
    _require_actions(action, observation_size, action_size)
    first, then = (jax.tree.map(jnp.shape, state) for state in (example, after))
    require(
        first == then,
        f"the state must keep its names and shapes from step to step: it begins with {first} and becomes {then}",
        SpaceError,
    )

    def flatten(state: Any) -> Any:
        return ravel_pytree(state)[0].astype(jnp.float32)

    def begin(theta: Any) -> Any:
        return flatten(jax.tree.map(jnp.asarray, initial(unravel(jnp.asarray(theta)))))

    def step(theta: Any, state: Any, observation: Any) -> tuple[Any, Any]:
        before = unravel_state(jnp.asarray(state).astype(flat.dtype))
        after, action = apply(unravel(jnp.asarray(theta)), before, jnp.asarray(observation))
        return flatten(after), action

    return Recurrence(len(flat), begin, step)


def _trace(apply: Callable[..., Any], *arguments: Any) -> Any:
    """What the function gives, by shape; refuse what JAX cannot differentiate, such as code written with NumPy."""
    _refuse_missing_observations(apply, *arguments)
    try:
        return jax.eval_shape(apply, *arguments)
    except (
        jax.errors.ConcretizationTypeError,
        jax.errors.TracerArrayConversionError,
        jax.errors.TracerIntegerConversionError,
    ) as error:
        raise ConfigError(
            "apply(parameters, observation) must be written with jax.numpy, because the search differentiates it; it "
            "needs the values of its arguments, as NumPy, float() and if do. Write jnp for np (import jax.numpy as "
            "jnp) and jnp.where for if, or take it as it is: ddopg.controllers.black_box. JAX says: "
            f"{str(error).splitlines()[0]}"
        ) from error


def _refuse_missing_observations(apply: Callable[..., Any], *arguments: Any) -> None:
    """An index beyond an array is no error in JAX: it reads the last number. NumPy knows better."""
    *others, seen = arguments
    try:
        jax.eval_shape(lambda *given: apply(*given, np.zeros(seen.shape, np.float32)), *others)
    except IndexError as error:
        raise SpaceError(
            f"the policy reads a number that is not there ({error}); an observation has {len(seen)} numbers, "
            f"0 to {len(seen) - 1}"
        ) from error
    except Exception:  # whatever else is wrong shows with arrays of JAX, which are what counts
        pass


def _require_actions(answer: Any, observation_size: int, action_size: int) -> None:
    require(
        getattr(answer, "shape", None) == (action_size,),
        f"apply(parameters, observation) must give {action_size} numbers for one observation of {observation_size}, "
        f"got {answer}; let the last layer have {action_size} outputs",
        SpaceError,
    )


def refuse_to_act(theta: Any, observation: Any) -> Any:
    """`act` of a policy with a memory: an error that says what to use instead."""
    raise ConfigError(
        "this policy has a memory, so one observation alone has no action; use `policy.at(theta)` for an episode, "
        "`begin()` of a proposal or of a trained policy, or `predict(observation, state)`"
    )
