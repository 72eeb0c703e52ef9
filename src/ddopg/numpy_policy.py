"""A trained policy with NumPy alone. Copy this one file to the robot; reading a policy runs no code.

policy = load("policy.safetensors")
action = policy(observation)  # one observation (O,) or a batch (B, O); clipped to the action range
"""

import json
from itertools import pairwise
from pathlib import Path

import numpy as np


class Policy:
    """a = clip(network(observation)), squashed onto the action range where the policy was learnt so.

    Args:
        theta: the parameters, (D,).
        description: what the policy file says of itself.

    Raises:
        ValueError: if the parameters are not finite, or not those of the network described.

    Example:
        >>> about = {"problem": {"observation_size": 1, "low": [-1.0], "high": [1.0]},
        ...          "config": {"policy": {"hidden": [], "squash": False}}}
        >>> Policy(np.array([2.0, 0.5]), about)(np.array([0.1])).round(3).tolist()
        [0.7]
    """

    def __init__(self, theta: np.ndarray, description: dict) -> None:
        problem, policy = description["problem"], description["config"]["policy"]
        self.low, self.high = (np.asarray(problem[name], np.float32) for name in ("low", "high"))
        self.observation_size, self.squash = problem["observation_size"], policy["squash"]
        sizes = [self.observation_size, *policy["hidden"], len(self.low)]
        self.layers, start = [], 0
        for rows, columns in pairwise(sizes):
            middle, end = start + rows * columns, start + (rows + 1) * columns
            self.layers.append((theta[start:middle].reshape(rows, columns), theta[middle:end]))
            start = end
        if "own_policy" in description or len(theta) != start or not np.isfinite(theta).all():
            raise ValueError(
                f"expected {start} finite parameters of a plain network, found {len(theta)} others"
            )

    def __call__(self, observation: np.ndarray) -> np.ndarray:
        """The action for one observation, or the actions for a batch of them.

        Args:
            observation: (O,), or (B, O).

        Returns:
            The action (A,), or (B, A), within the action range.

        Raises:
            ValueError: if the last axis is not of the observation's size.
        """
        x: np.ndarray = np.asarray(observation, np.float32)
        if x.shape[-1:] != (self.observation_size,):
            raise ValueError(f"expected observations of {self.observation_size} numbers, got shape {x.shape}")
        for i, (weights, bias) in enumerate(self.layers):
            x = x @ weights + bias
            if i < len(self.layers) - 1:
                x = np.tanh(x)
        if self.squash:
            x = (self.low + self.high) / 2 + (self.high - self.low) / 2 * np.tanh(x)
        return np.clip(x, self.low, self.high)


def load(path: str) -> Policy:
    """Read a policy file of ddopg: 8 bytes of header length, a JSON header, raw float32 numbers.

    Args:
        path: a file that `ddopg.DDOPG.save` wrote.

    Returns:
        The policy, to be called with observations.

    Raises:
        ValueError: if it is not such a file, or it is damaged.

    Example:
        >>> import ddopg
        >>> _ = ddopg.DDOPG("cartpole", seed=0).save("policy.safetensors")
        >>> load("policy.safetensors")(np.zeros(4)).shape
        (1,)
    """
    data = Path(path).read_bytes()
    end = 8 + int.from_bytes(data[:8], "little")
    try:
        header = json.loads(data[8:end])
        first, last = header["theta"]["data_offsets"]
        theta = np.frombuffer(data[end:][first:last], "<f4")
        return Policy(theta, json.loads(header["__metadata__"]["ddopg"]))
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise ValueError(f"{path} is not a policy file of ddopg, or it is damaged: {error!r}") from error
