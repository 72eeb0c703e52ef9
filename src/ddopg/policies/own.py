"""Policies of one's own: any function of JAX arrays, with a memory or without one."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from ddopg.errors import ConfigError, DDOPGError, SpaceError, require, require_function, require_size
from ddopg.policies.record import Policy, Recurrence
from ddopg.support.compilation import in_float32

SWAPPED = "init(key) gives the parameters, and apply(parameters, observation) the action: are they swapped?"


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
        ConfigError: if a function has other arguments, such as where `init` and `apply` are swapped, if one raises an
            error, or if `apply` is not written with `jax.numpy`.

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
    require_function("init", init, ("key",), SWAPPED)
    example, unravel = _read_parameters(init)
    sizes = (len(example), observation_size, action_size)
    answer = functional(sizes, apply, unravel, initial)
    return answer._replace(init=lambda key: ravel_pytree(init(key))[0], squash=squash)


def _read_parameters(init: Callable[[jax.Array], Any]) -> tuple[Any, Callable[[Any], Any]]:
    """The parameters as one vector, and the way back from it."""
    parameters = call_once("init(key)", init, jax.random.key(0))
    try:
        flat, unravel = ravel_pytree(parameters)
    except (TypeError, ValueError) as error:
        raise ConfigError(f"init(key) must give arrays, or a pytree of them: {error}") from error
    require(
        len(flat) >= 1,
        f"init(key) must give at least one parameter to learn, got {parameters!r:.80}",
        ConfigError,
    )
    return flat, unravel


def functional(
    sizes: tuple[int, int, int],
    apply: Callable[..., Any],
    unravel: Callable[[Any], Any],
    initial: Callable[[Any], Any] | None = None,
    name: str = "apply",
) -> Policy:
    """A policy class from a function of JAX arrays; it starts at θ = 0.

    Args:
        sizes: numbers of θ, of an observation and of an action, (D, O, A).
        apply: `apply(parameters, observation)` → action, or, with `initial`, `apply(parameters, state, observation)`
            → (state, action).
        unravel: θ (D,) → parameters, in the form that `apply` takes.
        initial: `initial(parameters)` → the state before the first step, any pytree of arrays.
        name: what the user calls `apply`, for messages.

    Returns:
        The policy class.

    Raises:
        SpaceError: if the action or the state has another shape than it must have, or an observation is read that
            is not there.
        ConfigError: if a size is no whole number above 0, or a function has other arguments or raises an error.

    Example:
        >>> functional((1, 2, 1), lambda gain, seen: gain * seen[:1], lambda theta: theta[0]).size
        1
    """
    size, observation_size, action_size = sizes = check_sizes(*sizes)
    check_functions(name, apply, initial)
    zeros, seen = jnp.zeros(size), jnp.zeros(observation_size)
    if initial is not None:
        recurrence = _make_recurrence(sizes, apply, unravel, initial, name)
        return Policy(
            size,
            lambda key: zeros,
            refuse_to_act,
            (1.0,) * action_size,
            recurrence=recurrence,
            observation_size=observation_size,
        )
    call = f"{name}(parameters, observation)"
    _require_actions(call, _trace(call, apply, unravel(zeros), seen), sizes)

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


def check_sizes(size: int, observation_size: int, action_size: int) -> tuple[int, int, int]:
    """The sizes (D, O, A) as whole numbers; those of a user are at least 1."""
    return (
        size,
        require_size("observation_size", observation_size),
        require_size("action_size", action_size),
    )


def check_functions(name: str, apply: object, initial: object = None) -> None:
    """Refuse functions of other arguments than a controller has, with a memory or without one."""
    if initial is None:
        advice = "one with a memory, (parameters, state, observation), needs initial=..."
        require_function(name, apply, ("parameters", "observation"), advice)
        return
    advice = "it gives the state before the first step"
    require_function("initial", initial, ("parameters",), advice)
    advice = "with initial=..., it has a memory and gives (state, action)"
    require_function(name, apply, ("parameters", "state", "observation"), advice)


def call_once(call: str, function: Callable[..., Any], *arguments: Any) -> Any:
    """What a function of the user gives; an error inside it is named, with the call that it came from."""
    try:
        return function(*arguments)
    except DDOPGError:
        raise
    except Exception as error:
        said = str(error).partition("\n")[0]
        raise ConfigError(
            f"{call} raises {type(error).__name__}: {said}; it was called once, "
            "with the parameters to start with, and zeros where it takes an observation"
        ) from error


def _make_recurrence(
    sizes: tuple[int, int, int],
    apply: Callable[..., Any],
    unravel: Callable[[Any], Any],
    initial: Callable[[Any], Any],
    name: str,
) -> Recurrence:
    """The state, any pytree, as one flat vector; `apply` must keep its shape."""
    size, observation_size, _ = sizes
    zeros, seen = jnp.zeros(size), jnp.zeros(observation_size)
    example = call_once("initial(parameters)", lambda: jax.tree.map(jnp.asarray, initial(unravel(zeros))))
    flat, unravel_state = ravel_pytree(example)
    call = f"{name}(parameters, state, observation)"
    answer = _trace(call, apply, unravel(zeros), example, seen)
    require(
        isinstance(answer, tuple) and len(answer) == 2,
        f"a controller with a memory gives two things, (state, action), got {answer}",
        SpaceError,
    )
    after, action = answer
    _require_actions(call, action, sizes)
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


def _trace(call: str, apply: Callable[..., Any], *arguments: Any) -> Any:
    """What the function gives, by shape; refuse what JAX cannot differentiate, such as code written with NumPy."""
    _refuse_missing_observations(apply, *arguments)

    def trace() -> Any:
        try:
            return jax.eval_shape(apply, *arguments)
        except (
            jax.errors.ConcretizationTypeError,
            jax.errors.TracerArrayConversionError,
            jax.errors.TracerIntegerConversionError,
        ) as error:
            raise ConfigError(
                f"{call} must be written with jax.numpy, because the search differentiates it; it needs the values "
                "of its arguments, as NumPy, float() and if do. Write jnp for np (import jax.numpy as jnp) and "
                "jnp.where for if, or take it as it is: ddopg.controllers.black_box. JAX says: "
                f"{str(error).splitlines()[0]}"
            ) from error

    return call_once(call, trace)


def _refuse_missing_observations(apply: Callable[..., Any], *arguments: Any) -> None:
    """An index beyond an array is no error in JAX: it reads another number. NumPy knows better.

    Nothing is traced, so that NumPy sees the value of every index, also of one that JAX computed.
    """
    *others, seen = arguments
    try:
        with np.errstate(all="ignore"):
            apply(*others, np.zeros(seen.shape, np.float32))
    except IndexError as error:
        require(
            "out of bounds" not in str(error),
            f"the policy reads a number that is not there ({error}); an observation has {len(seen)} numbers, "
            f"0 to {len(seen) - 1}",
            SpaceError,
        )
    except Exception:  # whatever else is wrong shows with arrays of JAX, which are what counts
        pass


def _require_actions(call: str, answer: Any, sizes: tuple[int, int, int]) -> None:
    _, observation_size, action_size = sizes
    shape = getattr(answer, "shape", None)
    require(
        shape == (action_size,),
        f"{call} must give {action_size} numbers for one observation of {observation_size}, got "
        f"{answer if shape is None else f'an array of shape {shape}'}; action_size is the length of an action",
        SpaceError,
    )


def refuse_to_act(theta: Any, observation: Any) -> Any:
    """`act` of a policy with a memory: an error that says what to use instead."""
    raise ConfigError(
        "this policy has a memory, so one observation alone has no action; use `policy.at(theta)` for an episode, "
        "`begin()` of a proposal or of a trained policy, or `predict(observation, state)`"
    )
