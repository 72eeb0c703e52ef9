"""The option `--policy`: a ready-made controller by its name, or a policy class in a module of the user's."""

from __future__ import annotations

from ddopg.cli.options import Begin, Train
from ddopg.config import Config
from ddopg.policies import Policy, import_policy
from ddopg.support.records import change


def choose_config(command: Train | Begin) -> Config:
    """The configuration with the ready-made controller that was asked for, if one was."""
    if command.policy is None or ":" in command.policy:
        return command.config
    return change(command.config, {"policy.controller": command.policy})


def choose_own_policy(command: Train | Begin) -> Policy | None:
    """The policy class that a new run was asked for by `module:name`, if it was."""
    return import_own_policy(command.policy if command.policy and ":" in command.policy else None)


def import_own_policy(name: str | None) -> Policy | None:
    """The policy class of that name, `module:name`, if the user gave one; a file is never asked for it."""
    return None if name is None else import_policy(name)
