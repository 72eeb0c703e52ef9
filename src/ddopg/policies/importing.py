"""A policy class from a Python file of the user's own, by its name: `module:name`."""

from __future__ import annotations

from importlib import import_module

from ddopg.errors import ConfigError, require, unknown
from ddopg.policies.record import Policy


def import_policy(name: str) -> Policy:
    """Import a policy class, such as a controller that was declared in a file of one's own.

    Args:
        name: `module:name`; the module is imported, so it must be one that you trust.

    Returns:
        The policy class. It knows its name, so that files, runs and other processes can say it again.

    Raises:
        ConfigError: if the module cannot be imported, or there is no policy class of that name in it.

    Example:
        >>> import sys, types, ddopg
        >>> sys.modules["mine"] = types.ModuleType("mine")
        >>> sys.modules["mine"].balance = ddopg.policies.linear(observation_size=4, action_size=1)
        >>> import_policy("mine:balance").home
        'mine:balance'
    """
    require(
        isinstance(name, str),
        f"import_policy takes a text, MODULE:NAME, got {type(name).__name__}; a policy class itself is given as "
        "policy=...",
    )
    module, _, attribute = name.partition(":")
    require(
        bool(module and attribute),
        f"a policy class of your own is named MODULE:NAME, got {name!r}; controllers.py with balance = "
        "ddopg.controllers.pid(...) in it is controllers:balance",
    )
    try:
        found = vars(import_module(module))
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"{name}: its module cannot be imported: {error}; put its directory on PYTHONPATH, or call "
            "`python -m ddopg` instead of `ddopg` where it is in the current one"
        ) from error
    except (Exception, SystemExit) as error:
        raise ConfigError(
            f"{name}: its module raises {type(error).__name__} when it is imported: {error}"
        ) from error
    if attribute not in found:
        there = [each for each, value in found.items() if isinstance(value, Policy)]
        raise unknown(f"policy class in {module}", attribute, there or found)
    policy = found[attribute]
    require(
        isinstance(policy, Policy),
        f"{name} must be a policy class, such as ddopg.controllers.pid(...) gives, got {type(policy).__name__}; "
        f"call it in a file of your own, mine.py with tuned = {attribute}(...), and name that, mine:tuned",
    )
    return policy._replace(home=name)
