"""The shell: `DDOPG` holds one `State`, an environment or a robot, and turns ask and tell into `learn`."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from numbers import Real
from pathlib import Path
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np

from ddopg.callbacks import Callback, as_callback, callback_scope
from ddopg.config import Config
from ddopg.config import preset as preset_config
from ddopg.core import algorithm
from ddopg.core.algorithm import Info
from ddopg.core.answers import choose_safe_action
from ddopg.core.cache import Cache
from ddopg.core.credit import check_credit, describe_deviation
from ddopg.core.imitation import Fit, check_fits, fit_policy
from ddopg.core.policy_building import build_policy
from ddopg.core.state import State
from ddopg.core.types import Description, Failure, Trajectory, read_context
from ddopg.envs.adapter import (
    define_problem,
    get_env_id,
    problem_options,
    require_registered,
    to_vector,
    warn_of_running_statistics,
)
from ddopg.envs.isolation import make_env
from ddopg.errors import ConfigError, SpaceError, TrajectoryError, require, require_positive, require_whole
from ddopg.policies import Policy
from ddopg.proposal import Proposal
from ddopg.rollouts.budget import Budget
from ddopg.rollouts.scheduling import Place, RolloutQueue, ask_ahead, open_runner, resolve_place
from ddopg.rollouts.spec import RolloutSpec
from ddopg.storage.policy_file import TrainedPolicy, load
from ddopg.storage.run_store import RunStore
from ddopg.support.compilation import keep_compiled_programs
from ddopg.support.display import show_progress
from ddopg.support.journal import log_failure, log_rollout
from ddopg.support.showing import Shown
from ddopg.support.signals import shielded


class Added(NamedTuple):
    """What became of a trajectory from elsewhere."""

    fit: Fit  # the policy that it is counted as, and how nearly that acts as the trajectory shows
    info: Info


class DDOPG(Shown):
    """Data-efficient policy search by DD-OPG.

    With an environment, `learn` does everything. Without one (a robot), give the spaces and the horizon and use
    `ask` and `tell`. More than seven parameters: all but the first are keywords, and most runs need none of them.

    Args:
        env: a Gymnasium environment with Box spaces, or its id. Wrappers that gather running statistics, such as
            NormalizeObservation, are warned of: a policy file does not hold them.
        observation_space: with `action_space` and `horizon`, instead of `env`.
        action_space: what the policy may answer, a Box.
        horizon: the longest episode, in steps; it also overrides the time limit of `env`.
        preset: `default`, `trajectory`, `paper` or `released`.
        config: a whole configuration, instead of a preset.
        policy: a controller (`ddopg.controllers`), or a policy class of your own (`ddopg.policies.custom`), in the
            place of the configured network. Its actions are clipped to the action range; the configured `policy`
            settings, squashing among them, are the network's.
        seed: the same seed, configuration and machine give the same run, bit for bit.
        isolate: run the environment, given by its id, in a process of its own, which may hang or die.
        run_directory: every rollout told is kept there, safe before `tell` returns; `DDOPG.resume` goes on with it.
        on_invalid: what `predict`, and `act` of proposals, do about an observation that is not finite: `raise` an
            error, or answer with the `safe` action. What `learn` plays itself is not concerned.
        safe_action: for `on_invalid="safe"`, numbers within the action range, (A,).

    Raises:
        SpaceError: if the environment's spaces or horizon are not those of a continuous, episodic task.
        ConfigError: if the configuration or the safe action cannot be, or there is neither an environment nor spaces.
        StoreError: if the run directory cannot be written, or holds a run already.

    Example:
        >>> agent = DDOPG("cartpole", seed=16)
        >>> agent.learn(total_episodes=9).state.memory.size
        9
        >>> action, _ = agent.predict([0.0, 0.0, 0.05, 0.0])
        >>> bool(abs(action[0]) <= 10)
        True
    """

    def __init__(
        self,
        env: gym.Env | str | None = None,
        *,
        observation_space: Any = None,
        action_space: Any = None,
        horizon: int | None = None,
        preset: str = "default",
        config: Config | None = None,
        policy: Policy | None = None,
        seed: int = 0,
        isolate: bool = False,
        run_directory: str | os.PathLike[str] | None = None,
        on_invalid: str = "raise",
        safe_action: Any = None,
    ) -> None:
        keep_compiled_programs()
        require(
            isinstance(seed, (int, np.integer)) and seed >= 0,
            f"the seed must be an integer and not negative, got {seed!r}",
        )
        require(
            config is None or isinstance(config, Config),
            f"config must be a ddopg.Config, got {type(config).__name__}; ddopg.preset gives one, "
            "dataclasses.replace changes it, and ddopg.load_config reads one from a file",
        )
        self.env, self._given = make_env(env, isolate), env
        warn_of_running_statistics(self.env)
        self.environment = env if isinstance(env, str) else get_env_id(env)
        self.problem = define_problem(self.env, observation_space, action_space, horizon)
        chosen = config or preset_config(preset)
        self._safe_action = choose_safe_action(on_invalid, safe_action, self.problem)
        self._network = policy
        self.policy = build_policy(self.problem, chosen, policy)
        # Declared parameters have no constant policies, which could be left out.
        actions = 0 if self.policy.parameters else len(self.problem.low)
        self.config = replace(chosen, design=chosen.design.for_actions(actions))
        self.state: State = algorithm.init(self.policy, self.config, int(seed))
        self._cache: Cache | None = None  # can be computed again at any time
        self.failures: list[Failure] = []
        self._in_hand: dict[int, Trajectory] = {}  # rolled out by `learn`, but not told: the disk was full
        self.store: RunStore | None = None
        if run_directory is not None:
            self.record(run_directory)

    def _facts(self) -> dict[str, Any]:
        memory = self.state.memory
        return {
            "environment": self.environment,
            "parameters": self.policy.size,
            "rollouts": memory.size,
            "steps": self.state.steps,
            "incumbent": self.state.incumbent.value if memory.size else None,
            "run_directory": None if self.store is None else str(self.store.directory),
        }

    @classmethod
    def resume(
        cls,
        run_directory: str | os.PathLike[str],
        env: gym.Env | str | None = None,
        *,
        policy: Policy | None = None,
        isolate: bool = False,
        on_invalid: str = "raise",
        safe_action: Any = None,
    ) -> DDOPG:
        """Go on with a run exactly where it stopped.

        The name of a module is never taken from the file: nothing that is read from disk runs code.

        Args:
            run_directory: where the run is.
            env: the environment, where the run does not know it by a registered name.
            policy: the policy class, where the run was begun with one of your own.
            isolate: run the environment, given by its id, in a process of its own.
            on_invalid: as in `DDOPG`; the choice is not part of the run.
            safe_action: as in `DDOPG`.

        Returns:
            The learner as it was after the last `tell`.

        Raises:
            ArtefactError: if there is no run, or it was damaged or changed.
            StoreError: if another process is at work on it.
            SpaceError: if the environment is not the one that it was begun with.
        """
        store, state = RunStore.resume(Path(run_directory), policy)
        about = store.description
        try:
            if env is None and about.environment is not None:
                option = "env='{0}' (--env {0} on the command line)"
                env = require_registered(about.environment, option)
            spaces = problem_options(about.problem, env)
            choice = {"on_invalid": on_invalid, "safe_action": safe_action}
            agent = cls(env, **spaces, **choice, config=about.config, policy=policy, isolate=isolate)
            require(
                agent.problem == about.problem,
                f"the run is about {about.problem}, the environment poses {agent.problem}; "
                "give the environment that it was begun with",
                SpaceError,
            )
        except BaseException:
            store.close()
            raise
        agent.state, agent.store, agent.environment = state, store, about.environment
        agent.failures = store.failures()
        return agent

    def record(self, run_directory: str | os.PathLike[str], command: dict[str, Any] | None = None) -> None:
        """Keep everything from now on in a new run store.

        Args:
            run_directory: a directory that holds no run yet.
            command: how the run was asked for, to be found again by `ddopg resume`.

        Raises:
            ConfigError: if the run has begun already.
            StoreError: if the directory cannot be written, or holds a run.
        """
        require(
            self.store is None and self.state.asked == self.state.memory.size == 0,
            "a run is recorded from its beginning; make a new DDOPG with run_directory=...",
        )
        own_policy = self._network.size if self._network else 0
        about = Description(
            self.problem,
            self.config,
            self.environment,
            command or {},
            own_policy=own_policy,
            parameters=self.policy.parameters,
            policy_home=self.policy.home,
        )
        self.store = RunStore.create(Path(run_directory), about, self.state)

    def close(self) -> None:
        """Let another process go on with the run. Everything told is already safe."""
        if self.store is not None:
            self.store.close()

    def ask(self, n: int | None = None) -> list[Proposal]:
        """Policies to roll out next: the initial design first, one proposal afterwards (or `n`).

        They may be told in any order, late, or never. With a run directory they are on the disk when this returns, so
        that another process can tell them; `pending` has them all.

        Args:
            n: how many; as many as make sense now if not given.

        Returns:
            The proposals, each to be rolled out once.
        """
        n = None if n is None else require_whole("the number of proposals", n)
        require(n is None or n >= 1, f"ask for at least one proposal, got n = {n}")
        with shielded():
            state, proposals = algorithm.ask(self.state, self.policy, self.config, n)
            if self.store is not None:
                self.store.save_state(state)
            self.state = state
        return [self._hand_out(proposal) for proposal in proposals]

    def tell(self, proposal: Proposal, trajectory: Trajectory | float, *, context: Any = None) -> Info:
        """Take in what happened when the proposal was rolled out, and improve the policy.

        With a run directory, the rollout is on the disk when this returns. Ctrl-C and SIGTERM wait for the end of it;
        if it raises, nothing has changed and the same can be told again.

        Args:
            proposal: what was rolled out.
            trajectory: what happened; `proposal.trajectory` makes one. The return alone, a number, where the policy
                is `ddopg.controllers.returns_only`.
            context: what the world fixed for this rollout, (C,): a friction, a load, a target. What a linear function
                of it explains of the rewards is luck, and no merit of the policy. The same numbers for every rollout
                of a run, or for none.

        Returns:
            What there is to look at: return, estimates, effective sample size; and a remark where the actions are
            not the policy's.

        Raises:
            TrajectoryError: if the trajectory does not fit the problem, is that of another proposal, or the proposal
                was told before.
            StoreError: if it cannot be written now.
        """
        require(
            isinstance(proposal, Proposal),
            f"tell takes a proposal first, as ask and pending give them, got {type(proposal).__name__}",
            TrajectoryError,
        )
        told = proposal.outcome(float(trajectory)) if isinstance(trajectory, Real) else trajectory
        check_fits(told, self.problem)
        assert isinstance(told, Trajectory)
        told = told if context is None else told._replace(context=read_context(context))
        check_credit(told, proposal.pure, self.state)
        own = told._replace(theta=proposal.theta)
        remark = "" if proposal.noise else describe_deviation(own, self.policy, self.problem)
        return self._take(proposal.pure, own, remark)

    def add(self, trajectory: Trajectory) -> Added:
        """Take in a trajectory that was not asked for: a hand-tuned controller's, an old log's.

        Its `theta` are the parameters that acted. Where nobody knows them (`theta=None` in `make_trajectory`), the
        nearest policy is fitted to its actions; the trajectory then counts as that policy's, and `fit.misfit` says
        how far they are apart. It takes the place of one rollout of the initial design; its steps are not counted
        among those of this run.

        Args:
            trajectory: what happened; `make_trajectory` makes one.

        Returns:
            The policy that it is counted as with its misfit, and what `tell` would report.

        Raises:
            TrajectoryError: if the trajectory does not fit the problem.
            StoreError: if it cannot be written now.
        """
        check_fits(trajectory, self.problem)
        fit = fit_policy(self.policy, trajectory)
        trajectory = trajectory._replace(theta=fit.theta)
        with shielded():
            turn, proposal = algorithm.add(self.state, trajectory, self.policy, self.config, self._cache)
            self._accept(proposal, turn)
        return Added(fit, turn.info)

    def learn(
        self,
        total_timesteps: int | None = None,
        callback: Callback | Sequence[Callback] | None = None,
        progress_bar: bool = False,
        *,
        total_episodes: int | None = None,
        retries: int = 2,
        time_limit: float | None = None,
        parallel: int | Place = 1,
    ) -> DDOPG:
        """Roll out and improve until the budget is spent: environment steps, or episodes, more from now on.

        The last episode is played to its end, so `total_timesteps` may be exceeded by less than one horizon.

        Args:
            total_timesteps: the budget in environment steps.
            callback: a function of (agent, info), or a list of them, called after each rollout; it ends the learning
                by returning False. `ddopg.callbacks` has those of stable-baselines3.
            progress_bar: show how far it is.
            total_episodes: the budget in rollouts, instead of steps.
            retries: how often a rollout that the environment spoils is tried again. It is noted in `failures` and
                not learnt from; what was told is kept.
            time_limit: seconds after which a rollout that is not done counts as spoilt.
            parallel: how many rollouts are under way at a time: in as many local processes, or, on an environment
                written in JAX, as one compiled program; or a place of `ddopg.rollouts`, such as `OnRay(n, address)`.
                They are told in the order of asking, so the run depends on this number, and not on who is faster.

        Returns:
            The agent itself.

        Raises:
            ConfigError: if there is no environment, or not exactly one budget.
            RolloutError: if a rollout failed more often than `retries` allows.
        """
        spec = self._rollout_spec(time_limit)
        place = resolve_place(parallel, spec)
        after_each = as_callback(callback)
        retries = require_whole("retries", retries)
        require(retries >= 0, f"retries must be at least 0, got {retries}")
        require_positive("time_limit", 1.0 if time_limit is None else time_limit)
        budget = Budget(total_timesteps, total_episodes, self.state)
        with (
            open_runner(place, spec) as runner,
            show_progress(progress_bar, budget.end, budget.unit, budget.first) as show,
            callback_scope(after_each, self),
        ):
            queue = RolloutQueue(runner, self._in_hand, retries, self._note)
            while not budget.spent(self.state):
                # Only in this process: after a crash, the same would be asked again.
                self.state = ask_ahead(self.state, self.policy, self.config, place.n)
                flight = self.state.pending[: min(place.n, budget.left(self.state))]
                info = self._take(flight[0], queue.wait_for_first(flight))
                going_on = after_each(self, info)
                show(budget.spent_so_far(self.state), info, after_each.latest_evaluation)
                if not going_on:
                    break
        return self

    @property
    def pending(self) -> list[Proposal]:
        """Proposals handed out and not yet told: a stopped loop goes on with them before it asks for more."""
        return [self._hand_out(proposal) for proposal in self.state.pending]

    @property
    def incumbent(self) -> TrainedPolicy:
        """The policy to hand over now."""
        note = {"return": self.state.incumbent.value, "steps": self.state.steps, "seed": self.state.seed}
        return self._trained(self.state.incumbent.theta, note if self.state.memory.size else {})

    def predict(
        self, observation: Any, state: Any = None, episode_start: Any = None, deterministic: bool = True
    ) -> tuple[np.ndarray, Any]:
        """The incumbent's action, in the form that stable-baselines3's tools expect.

        Args:
            observation: one observation (O,), or a batch of them (B, O).
            state: what a policy with a memory returned for the observation before; None at the start of an episode.
                A policy without a memory hands it back as it is.
            episode_start: whether an episode starts with this observation, one for all or one per row: the memory
                then starts anew.
            deterministic: not used; the policy always is.

        Returns:
            The action (A,), or actions (B, A), within the action range; and the state for the next call.

        Raises:
            ObservationError: if the observation has another size, or is not finite and there is no safe action.
        """
        vector = to_vector(self.env, observation)
        return self.incumbent.predict(vector, state, episode_start, deterministic)

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the incumbent as one self-describing safetensors file; `ddopg.load` reads it.

        Args:
            path: the file; its directory is made if it is missing.

        Returns:
            The same path.

        Raises:
            ArtefactError: if it cannot be written.
        """
        return self.incumbent.save(path)

    @staticmethod
    def load(
        path: str | os.PathLike[str], *, on_invalid: str = "raise", safe_action: Any = None
    ) -> TrainedPolicy:
        """Read a policy written by `save`, ready to act; the same as `ddopg.load`.

        Args:
            path: the file.
            on_invalid: as in `ddopg.load`.
            safe_action: as in `ddopg.load`.

        Returns:
            The policy with its parameters.

        Raises:
            ArtefactError: if it cannot be read, or is not a policy of ddopg.
        """
        return load(path, on_invalid=on_invalid, safe_action=safe_action)

    def _take(self, proposal: algorithm.Proposal, trajectory: Trajectory, remark: str = "") -> Info:
        """Learn from a rollout of one of the pending proposals; a signal waits for the end of it."""
        with shielded():
            turn = algorithm.tell(self.state, proposal, trajectory, self.policy, self.config, self._cache)
            remarks = "; ".join(filter(None, (turn.info.remark, remark)))
            turn = turn._replace(info=turn.info._replace(remark=remarks))
            self._accept(proposal, turn)
            self._in_hand.pop(proposal.number, None)
        return turn.info

    def _accept(self, proposal: algorithm.Proposal, turn: algorithm.Turn) -> None:
        """On the disk first, then here."""
        if self.store is not None:
            self.store.tell(proposal, turn.state, turn.info)
        self.state, self._cache = turn.state, turn.cache
        log_rollout(turn.info, proposal.purpose)

    def _rollout_spec(self, time_limit: float | None) -> RolloutSpec:
        if self.env is None:
            raise ConfigError("learn() needs an environment; without one, use ask() and tell()")
        own = self._network is not None
        return RolloutSpec(self.env, self._given, self.problem, self.config, self.policy, own, time_limit)

    def _note(self, failure: Failure) -> None:
        self.failures.append(failure)
        log_failure(failure)
        if self.store is not None:
            self.store.add_failure(failure)

    def _hand_out(self, proposal: algorithm.Proposal) -> Proposal:
        return Proposal(proposal, self._trained(proposal.theta, {}))

    def _trained(self, theta: np.ndarray, note: dict[str, Any]) -> TrainedPolicy:
        own = self.environment and ":" in self.environment  # the module belongs to its name
        environment = self.environment if own else get_env_id(self.env)
        about = (self.problem, self.config, environment, note, self._network, self._safe_action)
        return TrainedPolicy(theta, *about)
