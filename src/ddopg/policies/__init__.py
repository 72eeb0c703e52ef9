"""Policies: records of functions over one flat parameter vector θ (D,). Imports settings, errors and support only.

`act(θ, observation)` runs on NumPy arrays at NumPy's price (rollouts) and on JAX arrays under `jit`, `grad` and
`vmap` (the surrogate): one definition serves both. Observations may have leading axes.
"""

from ddopg.policies.importing import import_policy
from ddopg.policies.making import make_policy
from ddopg.policies.networks import linear, mlp
from ddopg.policies.own import custom, functional
from ddopg.policies.record import BlackBox, Policy, Recurrence, Step, compile_step, relu, tanh
from ddopg.policies.wrappers import clipped, limited, normalised, squashed

__all__ = [
    "BlackBox",
    "Policy",
    "Recurrence",
    "Step",
    "clipped",
    "compile_step",
    "custom",
    "functional",
    "import_policy",
    "limited",
    "linear",
    "make_policy",
    "mlp",
    "normalised",
    "relu",
    "squashed",
    "tanh",
]
