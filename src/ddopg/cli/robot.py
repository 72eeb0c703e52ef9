"""The commands `begin`, `ask`, `tell` and `add`: a run of a machine that only reads policies and writes logs."""

from __future__ import annotations

import json
import math
import shlex
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np

from ddopg.agent import DDOPG
from ddopg.cli.evaluation import require_store, save_policy
from ddopg.cli.options import Add, Ask, Begin, Tell
from ddopg.cli.own_policy import choose_config, choose_own_policy, import_own_policy
from ddopg.cli.stored_command import module_options
from ddopg.core.algorithm import Info
from ddopg.core.state import require_waiting
from ddopg.core.types import is_same_experience, read_context
from ddopg.errors import SpaceError, TrajectoryError, require, require_given
from ddopg.policies import Policy
from ddopg.proposal import Proposal
from ddopg.storage import exports, robot_logs
from ddopg.storage.log_formats import Log
from ddopg.storage.policy_file import load
from ddopg.storage.reading import read_rollouts
from ddopg.storage.robot_logs import log_to_trajectory, read_log
from ddopg.storage.rows import Rollout

SAME_AGAIN = ". If a new rollout came out the same, say of which proposal it is: --proposal NUMBER"


def begin(command: Begin) -> None:
    """A new run, described by numbers instead of an environment."""
    policy = choose_own_policy(command)
    observations, low, high, horizon = _describe_machine(command, policy)
    agent = DDOPG(
        observation_space=gym.spaces.Box(-np.inf, np.inf, (observations,)),
        action_space=gym.spaces.Box(low, high, dtype=np.float64),
        horizon=horizon,
        config=choose_config(command),
        policy=policy,
        seed=command.seed,
        run_directory=command.directory,
    )
    again = shlex.join(["ask", str(command.directory), *module_options(None, agent.policy.home)])
    agent.close()
    print(f"begun: {command.directory}; next: ddopg {again}")


def ask(command: Ask) -> None:
    """Write the proposals that wait for a rollout, or new ones, each into a directory of its own."""
    agent = DDOPG.resume(command.directory, policy=import_own_policy(command.policy))
    waiting = [] if command.new or command.number is not None else agent.pending
    proposals = waiting or agent.ask(command.number)
    places = [_write_proposal(command.directory, proposal) for proposal in proposals]
    agent.close()
    if command.json:
        print(json.dumps([json.loads((place / robot_logs.ABOUT).read_text()) for place in places]))
        return
    print("\n".join(map(str, places)))


def tell(command: Tell) -> None:
    """Take in the logs of rollouts, one after the other; each is safe before the next is read."""
    if command.return_ is None:
        _require_logs(command.logs)
    agent = DDOPG.resume(command.directory, policy=import_own_policy(command.policy))
    if command.return_ is not None:
        _tell_return(agent, command, command.return_)
        return
    require(
        command.proposal is None or len(command.logs) == 1,
        f"--proposal goes with one log, got {len(command.logs)}",
    )
    for path in command.logs:
        log = read_log(path, agent.problem)
        number = _read_number(path, log, command.proposal)
        told = _find_told(agent, path, log, number, command.context)
        if told is not None:
            _say_told_before(path, told, command.json, SAME_AGAIN)
            continue
        proposal = _find_proposal(agent, path, number)
        trajectory = log_to_trajectory(log, path, agent.problem, proposal.theta)
        info = agent.tell(proposal, trajectory, context=command.context or None)
        _say(info, proposal.number, info.remark, command.json)
    _leave_files(agent)


def add(command: Add) -> None:
    """Take in logs of a controller that is not ours, or of one of our policies elsewhere."""
    _require_logs(command.logs)
    own = import_own_policy(command.policy_class)
    agent = DDOPG.resume(command.directory, policy=own)
    theta = None if command.policy is None else load(exports.find_policy_file(command.policy), own).theta
    for path in command.logs:
        log = read_log(path, agent.problem)
        told = _find_told(agent, path, log, None)
        if told is not None:
            _say_told_before(path, told, command.json)
            continue
        added = agent.add(log_to_trajectory(log, path, agent.problem, theta))
        misfit = np.array2string(added.fit.misfit, precision=3)
        remark = (
            f"counted as the policy nearest to it, whose actions differ by {misfit} (root mean square); it explains "
            f"{added.fit.explained:.1%} of their variance"
        )
        _say(added.info, None, remark, command.json, misfit=added.fit.misfit.tolist())
    _leave_files(agent)


def _tell_return(agent: DDOPG, command: Tell, return_: float) -> None:
    """Take in what one rollout earned, where nothing else is known of it."""
    require(not command.logs, "give either a log or --return, not both", TrajectoryError)
    require(math.isfinite(return_), f"--return must be a finite number, got {return_}", TrajectoryError)
    proposal = _find_proposal(agent, "--return", command.proposal)
    info = agent.tell(proposal, return_, context=command.context or None)
    _say(info, proposal.number, info.remark, command.json)
    _leave_files(agent)


def _require_logs(logs: tuple[Path, ...]) -> None:
    require(len(logs) >= 1, "give at least one log: a file ending in .csv, .npz or .json", TrajectoryError)


def _leave_files(agent: DDOPG) -> None:
    """The incumbent and the table, as other runs have them."""
    store = require_store(agent)
    save_policy(agent, [])
    exports.write_tables(store.directory, store.log(), [])
    agent.close()


def _write_proposal(directory: Path, proposal: Proposal) -> Path:
    return robot_logs.write_proposal(directory, proposal.pure, proposal.trained)


def _read_number(path: Path, log: Log, number: int | None) -> int | None:
    """Whose rollout a log is: by what the user says, by what is in the file, or by where the file lies; else None."""
    given = (number, log.proposal, robot_logs.find_number(path))
    return next((one for one in given if one is not None), None)


def _find_told(
    agent: DDOPG, path: Path, log: Log, number: int | None, context: tuple[float, ...] = ()
) -> Rollout | None:
    """The rollout that was made of the same log before: by the same command, which was stopped and is repeated."""
    if number in {proposal.number for proposal in agent.pending}:
        return None
    trajectory = log_to_trajectory(log, path, agent.problem)._replace(context=read_context(context))
    if not any(is_same_experience(trajectory, other) for other in agent.state.memory.trajectories):
        return None
    _, rollouts = read_rollouts(require_store(agent).directory)
    same = (one for one in rollouts if is_same_experience(trajectory, one.trajectory))
    return next((one for one in same if number in (None, one.proposal)), None)


def _say_told_before(path: Path, told: Rollout, as_json: bool, advice: str = "") -> None:
    if as_json:
        print(json.dumps({"rollout": told.number, "proposal": told.proposal, "told_before": True}))
        return
    print(f"rollout {told.number}: {path} was taken in before, bit for bit; nothing was changed{advice}")


def _find_proposal(agent: DDOPG, path: Path | str, number: int | None) -> Proposal:
    """The proposal of that number, or the only one that waits."""
    waiting = {proposal.number: proposal for proposal in agent.pending}
    listed = ", ".join(map(str, waiting)) or "none"
    found = require_given(
        next(iter(waiting)) if number is None and len(waiting) == 1 else number,
        f"{path} does not say which proposal was rolled out, and {len(waiting)} are waiting ({listed}); give "
        "--proposal NUMBER, or put a log into the proposal's directory",
        TrajectoryError,
    )
    require_waiting(waiting, found)
    return waiting[found]


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


def _describe_machine(command: Begin, policy: Policy | None) -> tuple[int, np.ndarray, np.ndarray, int]:
    """Numbers per observation, the ranges of the actions, and the longest rollout in steps."""
    given = command.observations, command.low, command.high, command.horizon
    if command.returns_only:
        return _describe_returns_only(given, policy)
    observations, low, high, horizon = given
    if observations is None or horizon is None or not low or not high:
        raise SpaceError(
            "give --observations, --low, --high and --horizon; only a machine of which nothing but returns is known "
            "needs none of them (--returns-only)"
        )
    require(observations >= 1, f"--observations must be at least 1, got {observations}", SpaceError)
    return observations, *_read_ranges(low, high), horizon


def _describe_returns_only(
    given: tuple[Any, ...], policy: Policy | None
) -> tuple[int, np.ndarray, np.ndarray, int]:
    """As `ddopg.tune_controller` has it: one step, whose actions are the search coordinates of the parameters."""
    require(
        not any(given),
        "--returns-only goes without --observations, --low, --high and --horizon: one rollout is one number",
        SpaceError,
    )
    if policy is None or len(policy.action_scale) != policy.size or not policy.observation_size:
        raise SpaceError(
            "--returns-only needs parameters without a controller: --policy MODULE:NAME, where NAME is "
            "ddopg.controllers.returns_only([...]) in your file"
        )
    endless = np.full(policy.size, np.inf)
    return policy.observation_size, -endless, endless, 1


def _read_ranges(low: tuple[float, ...], high: tuple[float, ...]) -> tuple[np.ndarray, np.ndarray]:
    require(
        len(low) == len(high) and all(a < b for a, b in zip(low, high, strict=True)),
        f"--low and --high must have one number per action, low < high, got {low} and {high}",
        SpaceError,
    )
    return np.array(low), np.array(high)
