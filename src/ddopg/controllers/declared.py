"""A controller of one's own: parameters with names and units, and a function that acts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from ddopg.errors import ConfigError
from ddopg.parameters import Parameter, check_parameters, decode_parameters, free_parameters
from ddopg.policies import Policy, functional
from ddopg.policies.own import check_functions
from ddopg.support.compilation import in_float32


def controller(
    parameters: Sequence[Parameter],
    step: Callable[..., Any],
    observation_size: int,
    action_size: int,
    *,
    initial: Callable[[Any], Any] | None = None,
    squash: bool = False,
) -> Policy:
    """A controller with declared parameters, for `DDOPG(…, policy=…)`.

    Its actions are in the unit of the environment and are clipped to the action range. It must be deterministic, and
    a function of JAX: plain arithmetic, and `jax.numpy` in the place of NumPy. `black_box` takes any other.

    Args:
        parameters: what is tuned, and what is only named (`fixed=True`).
        step: `step(parameters, observation)` gives the action, A numbers, where `parameters["kp"]` is a number in its
            own unit. With `initial`, `step(parameters, state, observation)` gives (state, action).
        observation_size: numbers per observation, O.
        action_size: numbers per action, A.
        initial: `initial(parameters)` gives the state before the first step: a number, an array, or a dictionary of
            them. An integrator, a filter, a phase, the last observations.
        squash: approach the bounds of the action range smoothly, as tanh does, instead of clipping to them.

    Returns:
        The policy class. Its parameters θ are search coordinates: 0 is the start, 1 one scale away from it.

    Raises:
        ConfigError: if the parameters cannot be searched, `step` looks up another, or a function has other arguments
            or raises an error.
        SpaceError: if `step` does not give `action_size` numbers, or a state of another shape, or reads an
            observation that is not there.

    Example:
        >>> stiffness = Parameter("stiffness", 2.0, bounds=(0.1, 50.0), unit="N/m")
        >>> spring = controller(
        ...     [stiffness, Parameter("rest", 0.5, fixed=True, unit="m")],
        ...     lambda p, observation: [p["stiffness"] * (p["rest"] - observation[0])],
        ...     observation_size=1,
        ...     action_size=1,
        ... )
        >>> spring.describe(spring.init(None))
        {'stiffness': 2.0, 'rest': 0.5}
    """
    known = check_parameters(parameters)
    check_functions("step", step, initial)
    names = [each.name for each in known]

    def by_name(vector: Any) -> dict[str, Any]:
        return {name: vector[i] for i, name in enumerate(names)}

    def plain_step(vector: Any, observation: Any) -> Any:
        return as_action(call_step(step, by_name(vector), observation))

    def step_with_state(vector: Any, state: Any, observation: Any) -> Any:
        answer = call_step(step, by_name(vector), state, observation)
        if not isinstance(answer, tuple) or len(answer) != 2:
            return answer  # which `functional` refuses in words
        return answer[0], as_action(answer[1])

    if initial is None:
        return from_vector(known, plain_step, (observation_size, action_size), squash=squash)
    return from_vector(
        known,
        step_with_state,
        (observation_size, action_size),
        initial=lambda vector: initial(by_name(vector)),
        squash=squash,
    )


@in_float32
def from_vector(
    parameters: Sequence[Parameter],
    step: Callable[..., Any],
    sizes: tuple[int, int],
    *,
    initial: Callable[[Any], Any] | None = None,
    squash: bool = False,
) -> Policy:
    """`controller` for a function of all parameters as one vector (P,), in the order of their declaration.

    Args:
        parameters: all of them.
        step: `step(vector, observation)` → action (A,), or `step(vector, state, observation)` → (state, action).
        sizes: numbers per observation and per action, (O, A).
        initial: `initial(vector)` → the state before the first step.
        squash: as in `controller`.

    Returns:
        The policy class.

    Example:
        >>> from_vector([Parameter("gain", 1.0, scale=1.0)], lambda p, seen: p * seen, (1, 1)).size
        1
    """
    known = check_parameters(parameters)
    size = len(free_parameters(known))

    def unravel(theta: Any) -> jax.Array:
        values: jax.Array = decode_parameters(known, theta, jnp)
        return values

    policy = functional((size, *sizes), step, unravel, initial, "step")
    return policy._replace(parameters=known, squash=squash)


def call_step(step: Callable[..., Any], values: dict[str, Any], *arguments: Any) -> Any:
    """Call a user's `step`; a name that it looks up in vain is said in words, beside those that are declared."""
    try:
        return step(values, *arguments)
    except KeyError as error:
        raise ConfigError(
            f"step looks up {error}, which is not there; the declared parameters are {', '.join(values)}"
        ) from error


def as_action(answer: Any) -> jax.Array:
    """Numbers of a user, a list of them or one alone, as an array (A,)."""
    parts = [jnp.asarray(part) for part in answer] if isinstance(answer, list | tuple) else None
    return jnp.stack(parts) if parts else jnp.atleast_1d(jnp.asarray(answer))
