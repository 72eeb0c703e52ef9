"""The commands of the file protocol: a run of a machine that only reads policies and writes logs."""

from __future__ import annotations

import json
from typing import Any

import gymnasium as gym
import numpy as np

from ddopg.agent import DDOPG
from ddopg.cli import robot_files as hardware
from ddopg.cli import training
from ddopg.cli.options import Add, Ask, Begin, Tell
from ddopg.core.algorithm import Info
from ddopg.errors import SpaceError, require
from ddopg.storage import exports
from ddopg.storage.policy_file import load


def begin(command: Begin) -> None:
    """A new run, described by numbers instead of an environment."""
    low, high = _ranges(command.low, command.high)
    require(
        command.observations >= 1,
        f"--observations must be at least 1, got {command.observations}",
        SpaceError,
    )
    agent = DDOPG(
        observation_space=gym.spaces.Box(-np.inf, np.inf, (command.observations,)),
        action_space=gym.spaces.Box(low, high, dtype=np.float64),
        horizon=command.horizon,
        config=command.config,
        seed=command.seed,
        run_directory=command.directory,
    )
    agent.close()
    print(f"begun: {command.directory}; next: ddopg ask {command.directory}")


def ask(command: Ask) -> None:
    """Write the proposals that wait for a rollout, or new ones, each into a directory of its own."""
    agent = DDOPG.resume(command.directory)
    waiting = [] if command.new or command.number is not None else agent.pending
    proposals = waiting or agent.ask(command.number)
    places = [hardware.write_proposal(command.directory, proposal) for proposal in proposals]
    agent.close()
    if command.json:
        print(json.dumps([json.loads((place / hardware.ABOUT).read_text()) for place in places]))
        return
    print("\n".join(map(str, places)))


def tell(command: Tell) -> None:
    """Take in the logs of rollouts, one after the other; each is safe before the next is read."""
    agent = DDOPG.resume(command.directory)
    require(
        command.proposal is None or len(command.logs) == 1,
        f"--proposal goes with one log, got {len(command.logs)}",
    )
    for path in command.logs:
        log = hardware.read_log(path, agent.problem)
        proposal = hardware.proposal_of(agent, path, log, command.proposal)
        trajectory = hardware.packed(log, path, agent.problem, proposal.theta)
        info = agent.tell(proposal, trajectory)
        _say(info, proposal.number, hardware.deviation(agent, trajectory), command.json)
    _leave_files(agent)


def add(command: Add) -> None:
    """Take in logs of a controller that is not ours, or of one of our policies elsewhere."""
    agent = DDOPG.resume(command.directory)
    theta = None if command.policy is None else load(exports.policy_file(command.policy)).theta
    for path in command.logs:
        trajectory = hardware.packed(hardware.read_log(path, agent.problem), path, agent.problem, theta)
        added = agent.add(trajectory)
        misfit = np.array2string(added.fit.misfit, precision=3)
        remark = (
            f"counted as the policy nearest to it, whose actions differ by {misfit} (root mean square); it explains "
            f"{added.fit.explained:.1%} of their variance"
        )
        _say(added.info, None, remark, command.json, misfit=added.fit.misfit.tolist())
    _leave_files(agent)


def _leave_files(agent: DDOPG) -> None:
    """The incumbent and the table, as other runs have them."""
    assert agent.store is not None
    training.save_policy(agent, [])
    exports.write_tables(agent.store.directory, agent.store.log(), [])
    agent.close()


def _say(info: Info, proposal: int | None, remark: str, as_json: bool, **more: Any) -> None:
    if as_json:
        told = {"rollout": info.rollout, "proposal": proposal, "return": info.return_, "steps": info.length}
        print(json.dumps(told | {"incumbent": info.incumbent, "remark": remark} | more))
        return
    name = "added" if proposal is None else f"proposal {proposal}"
    print(
        f"rollout {info.rollout} ({name}): return {info.return_:.6g} in {info.length} steps; "
        f"incumbent ≈ {info.incumbent:.6g}" + (f"\n  {remark}" if remark else "")
    )


def _ranges(low: tuple[float, ...], high: tuple[float, ...]) -> tuple[np.ndarray, np.ndarray]:
    require(
        len(low) == len(high) and all(a < b for a, b in zip(low, high, strict=True)),
        f"--low and --high must have one number per action, low < high, got {low} and {high}",
        SpaceError,
    )
    return np.array(low), np.array(high)
