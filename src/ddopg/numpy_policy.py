"""A trained policy with NumPy alone. Copy this one file to the robot; reading a policy runs no code.

policy = load("policy.safetensors")
action = policy(observation)  # one observation (O,) or a batch (B, O); clipped to the action range

A reading that is NaN or infinite is an error, or the safe action: load(path, on_invalid="safe", safe_action=[0.0]).
"""

import hashlib
import json
from itertools import pairwise
from pathlib import Path

import numpy as np

LARGEST = 256 * 2**20  # bytes of a file: 64 million parameters


class Policy:
    """a = clip(network(observation)), squashed onto the action range where the policy was learnt so.

    Args:
        theta: the parameters, (D,).
        description: what the policy file says of itself.

    Raises:
        ValueError: if the parameters or the action range are not finite, or not those of the network described.

    Example:
        >>> about = {"problem": {"observation_size": 1, "low": [-1.0], "high": [1.0]},
        ...          "config": {"policy": {"hidden": [], "squash": False}}}
        >>> Policy(np.array([2.0, 0.5]), about)(np.array([0.1])).round(3).tolist()
        [0.7]
    """

    def __init__(self, theta: np.ndarray, description: dict) -> None:
        problem, policy = description["problem"], description["config"]["policy"]
        low, high = (np.asarray(problem[name], np.float64) for name in ("low", "high"))
        self.low, self.high = low.astype(np.float32), high.astype(np.float32)
        # Of float32, the smallest and the largest within the range: a bound may lie between two of them.
        up, down = np.nextafter(self.low, np.float32(np.inf)), np.nextafter(self.high, np.float32(-np.inf))
        self.smallest, self.largest = (
            np.where(self.low < low, up, self.low),
            np.where(self.high > high, down, self.high),
        )
        self.safe_action: np.ndarray | None = None  # the answer to what is not finite; None raises
        self.observation_size, self.squash = problem["observation_size"], policy["squash"]
        sizes = [self.observation_size, *policy["hidden"], self.low.size]
        beside = policy.get("linear_path", False)  # older files do not say it
        switches = (self.squash, beside)
        if not all(type(size) is int and 0 < size <= LARGEST for size in sizes) or not all(
            type(switch) is bool for switch in switches
        ):
            raise ValueError(
                f"expected layers of 1 to {LARGEST} numbers and two switches, found {sizes}, {switches}"
            )
        self.linear_path = beside and len(sizes) > 2  # the last layer sees the observation too
        bounded = not self.squash or np.isfinite([low, high]).all()
        if self.low.ndim != 1 or not bounded or not (low <= high).all():
            raise ValueError(f"expected an action range, found {self.low} to {self.high}")
        shapes = list(pairwise(sizes))
        if self.linear_path:
            shapes[-1] = (sizes[-2] + sizes[0], sizes[-1])
        count = sum((rows + 1) * columns for rows, columns in shapes)
        own = "own_policy" in description or policy.get("controller")
        if own or theta.shape != (count,) or not np.isfinite(theta).all():
            raise ValueError(
                f"expected {count} finite parameters of a plain network, found {theta.size} others"
            )
        self.layers, start = [], 0
        for rows, columns in shapes:
            middle, end = start + rows * columns, start + (rows + 1) * columns
            self.layers.append((theta[start:middle].reshape(rows, columns), theta[middle:end]))
            start = end

    def __call__(self, observation: np.ndarray) -> np.ndarray:
        """The action for one observation, or the actions for a batch of them.

        Args:
            observation: (O,), or (B, O).

        Returns:
            The action (A,), or (B, A), within the action range; `safe_action` where an observation is not finite.

        Raises:
            ValueError: if the last axis is not of the observation's size; or if a number is not finite, and there is
                no safe action.
        """
        with np.errstate(over="ignore", invalid="ignore"):
            seen: np.ndarray = np.asarray(observation, np.float32)
            if seen.shape[-1:] != (self.observation_size,):
                raise ValueError(
                    f"expected observations of {self.observation_size} numbers, got shape {seen.shape}"
                )
            x = self._answer(seen)
        sound = np.isfinite(seen).all(axis=-1) & np.isfinite(x).all(axis=-1)
        if not sound.all():
            x = self._replace(x, seen, sound)
        return np.clip(x, self.smallest, self.largest)

    def _answer(self, seen: np.ndarray) -> np.ndarray:
        x, (*inner, (weights_out, bias_out)) = seen, self.layers
        for weights, bias in inner:
            x = np.tanh(x @ weights + bias)
        if self.linear_path:
            x = np.concatenate([x, seen], axis=-1)
        x = x @ weights_out + bias_out
        if self.squash:
            x = (self.low + self.high) / 2 + (self.high - self.low) / 2 * np.tanh(x)
        return x

    def _replace(self, x: np.ndarray, seen: np.ndarray, sound: np.ndarray) -> np.ndarray:
        """The safe action where an observation, or the answer to it, is not finite."""
        if self.safe_action is not None:
            return np.where(sound[..., None], x, self.safe_action)
        bad = seen[~np.isfinite(seen)]
        where = f"in row {int(np.flatnonzero(~sound)[0])}" if sound.ndim else f"among {len(seen)} numbers"
        expected = "a policy acts on finite observations, got"
        found = f"{expected} {bad[0]}" if bad.size else "there is no finite action"
        raise ValueError(
            f"{found} {where}; check the sensors, or give on_invalid='safe' and a safe_action to be answered then"
        )


def load(path: str, on_invalid: str = "raise", safe_action: object = None) -> Policy:
    """Read a policy file of ddopg: 8 bytes of header length, a JSON header, raw float32 numbers.

    Args:
        path: a file that `ddopg.DDOPG.save` wrote.
        on_invalid: what is done about an observation that is not finite: `raise` an error, or answer with the `safe`
            action.
        safe_action: for `on_invalid="safe"`, numbers within the action range, (A,).

    Returns:
        The policy, to be called with observations.

    Raises:
        ValueError: if it is not such a file, or it does not fit its checksum: it was damaged or changed; or if the
            safe action is missing or out of the range.
        OSError: if it cannot be read.

    Example:
        >>> import ddopg
        >>> _ = ddopg.DDOPG("cartpole", seed=0).save("policy.safetensors")
        >>> load("policy.safetensors")(np.zeros(4)).shape
        (1,)
    """
    try:
        if Path(path).exists() and not (Path(path).is_file() and Path(path).stat().st_size <= LARGEST):
            raise ValueError(f"expected a plain file of at most {LARGEST} bytes")
        policy = _decode(Path(path).read_bytes())
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        raise ValueError(f"{path} is not a policy file of ddopg, or it is damaged: {error!r}") from error
    policy.safe_action = _choose_safe_action(policy, on_invalid, safe_action)
    return policy


def _decode(data: bytes) -> Policy:
    end = 8 + int.from_bytes(data[:8], "little")
    header, content = json.loads(data[8:end]), data[end:]
    theta = np.frombuffer(content, "<f4")
    place = {"dtype": "F32", "shape": [theta.size], "data_offsets": [0, len(content)]}
    about = json.loads(header["__metadata__"]["ddopg"])
    if header.keys() != {"theta", "__metadata__"} or header["theta"] != place:
        raise ValueError(f"expected one tensor 'theta' as {place}, found {header}")
    if about["format"] != "ddopg-policy" or about["schema"] != 1:
        raise ValueError(
            f"expected a ddopg-policy of schema 1, found {about['format']!r} of {about['schema']!r}"
        )
    found, text = about.pop("checksum"), f"{json.dumps(about)}<f4{theta.shape}"
    if found != hashlib.sha256(text.encode() + content).hexdigest():
        raise ValueError("it does not fit its checksum; restore it from a copy")
    return Policy(theta, about)


def _choose_safe_action(policy: Policy, on_invalid: str, safe_action: object) -> np.ndarray | None:
    if on_invalid not in ("raise", "safe"):
        raise ValueError(f"on_invalid must be 'raise' or 'safe', got {on_invalid!r}")
    if (on_invalid == "safe") != (safe_action is not None):
        raise ValueError(
            "on_invalid='safe' needs a safe_action, and a safe_action on_invalid='safe'; give both"
        )
    if safe_action is None:
        return None
    try:
        safe = np.asarray(safe_action, np.float32).ravel()
    except (TypeError, ValueError):
        safe = np.zeros(0, np.float32)
    if safe.shape != policy.low.shape or not np.isfinite(safe).all():
        raise ValueError(f"safe_action must be {len(policy.low)} finite numbers, got {safe_action}")
    if ((safe < policy.low) | (safe > policy.high)).any():
        raise ValueError(
            f"safe_action must lie within the action range {policy.low} to {policy.high}, got {safe_action}"
        )
    return np.clip(safe, policy.smallest, policy.largest)
