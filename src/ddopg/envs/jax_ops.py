"""The JAX arithmetic for the tasks' physics. Apart from `base` because importing it imports JAX."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from ddopg.envs.base import Ops


def _apply_if(condition: jax.Array, function: Callable[[Any], Any], state: Any) -> Any:
    """Both branches are computed and one is chosen: vmap would turn a `lax.cond` into the same."""
    return jax.tree.map(lambda yes, no: jnp.where(condition, yes, no), function(state), state)


JAX = Ops(
    sin=jnp.sin,
    cos=jnp.cos,
    absolute=jnp.abs,
    clip=jnp.clip,
    where=jnp.where,
    constant=lambda value, like: jnp.full_like(like, value),
    apply_if=_apply_if,
    stack=jnp.stack,
)
