"""The study in its storage, which any number of processes share.

Each trial is run by one process, which says every few seconds that it is alive. A trial whose process went silent is
failed by whoever notices first, and put back into the queue with the seeds that were finished. The number of trials
is exact: whoever asks for one too many gives it back before anything is run.
"""

from __future__ import annotations

import copy
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple

import numpy as np
import optuna
import sqlalchemy.exc
from optuna.distributions import BaseDistribution
from optuna.exceptions import StorageInternalError, UpdateFinishedTrialError
from optuna.pruners import WilcoxonPruner
from optuna.samplers import BaseSampler, TPESampler
from optuna.storages import RDBStorage
from optuna.trial import FrozenTrial, Trial, TrialState

from ddopg.baselines import own_kind
from ddopg.config import Config
from ddopg.errors import require
from ddopg.experiments.tuning import storages
from ddopg.experiments.tuning.ranges import (
    Plain,
    Range,
    Space,
    apply_values,
    find_start,
    from_text,
    to_plain,
    to_text,
)

WORSE = (
    0.2  # p of the pruner: three seeds of three worse than the best trial's (p = 1/8) are enough, two are not
)
FEWEST_SEEDS = 3  # before a trial may be pruned
DIGITS = 4  # significant ones of a tuned number
SEEN = "seen"  # attribute of a trial that has given a sign of life: its own number
FINISHED = (TrialState.COMPLETE, TrialState.PRUNED)
LIVE = (*FINISHED, TrialState.RUNNING, TrialState.WAITING)


class Plan(NamedTuple):
    """What is tuned, and how a trial is judged; the same for all processes of a study."""

    env: str
    preset: str
    steps: int  # environment steps of every run
    episodes: int  # per evaluation
    seeds: tuple[int, ...]  # every trial is run on these
    score: str  # `area` or `final`
    space: Space
    policy: str = ""  # a ready-made controller, or `module:name`; empty for the preset's network

    def to_plain(self) -> dict[str, Any]:
        """Turn the plan into what JSON can hold."""
        plain = self._asdict() | {"seeds": list(self.seeds), "space": to_plain(self.space)}
        return plain if self.policy else {key: value for key, value in plain.items() if key != "policy"}

    @property
    def kind(self) -> str:
        """The algorithm of its jobs, see `baselines.find_algorithm`."""
        return own_kind(self.policy) if ":" in self.policy else "ddopg"

    def apply(self, values: Mapping[str, Plain]) -> Config:
        """The configuration of a trial: the preset with other values, and the controller that is asked for.

        Args:
            values: setting → value.
        """
        ready_made = {"policy.controller": self.policy} if self.policy and ":" not in self.policy else {}
        return apply_values(self.preset, {**values, **ready_made})


class NumberedTPE(BaseSampler):
    """TPE whose randomness is a function of (seed, number of the trial): processes that share a study never draw the
    same, and one process alone repeats itself, interrupted or not."""

    def __init__(self, seed: int) -> None:
        self._seed, self._number, self._tpe = seed, -1, TPESampler()

    def _of(self, trial: FrozenTrial) -> TPESampler:
        if trial.number != self._number:
            (drawn,) = np.random.SeedSequence([self._seed, trial.number]).generate_state(1)
            self._number, self._tpe = trial.number, TPESampler(seed=int(drawn))
        return self._tpe

    def infer_relative_search_space(
        self, study: optuna.Study, trial: FrozenTrial
    ) -> dict[str, BaseDistribution]:
        """See `BaseSampler`."""
        return self._of(trial).infer_relative_search_space(study, trial)

    def sample_relative(
        self, study: optuna.Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        """See `BaseSampler`."""
        return self._of(trial).sample_relative(study, trial, search_space)

    def sample_independent(
        self, study: optuna.Study, trial: FrozenTrial, param_name: str, param_distribution: BaseDistribution
    ) -> Any:
        """See `BaseSampler`."""
        return self._of(trial).sample_independent(study, trial, param_name, param_distribution)


@contextmanager
def open_study(url: str, name: str, plan: Plan, seed: int) -> Iterator[optuna.Study]:
    """Open the study of that name within the block; it is made if it is not there.

    Args:
        url: of the storage.
        name: of the study.
        plan: what is tuned.
        seed: of the sampler.

    Returns:
        The study.

    Raises:
        ConfigError: if the study was begun with another plan, or the URL cannot be used.
        StoreError: if the storage does not answer.
    """
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    storage = storages.connect(url)
    try:
        with storages.translate_errors(url):
            study = _create_or_load(storage, name, plan, seed)
            _check(study, plan)
            yield study
    finally:
        storage.remove_session()
        storage.engine.dispose()


def take_trial(study: optuna.Study, wanted: int) -> Trial | None:
    """Take a trial for this process to run.

    Args:
        study: shared by all processes.
        wanted: how many trials there should be in the end.

    Returns:
        The trial, or None while all that are wanted are finished or run by others.
    """
    revive(study)
    if not has_work_left(study, wanted):
        return None
    with storages.silence_warnings():
        trial = study.ask()
    _mark(study, trial)
    earlier = [t for t in study.get_trials(deepcopy=False, states=LIVE) if t.number < trial.number]
    if len(earlier) < wanted:
        return trial
    trial.set_user_attr("surplus", True)
    study.tell(trial, state=TrialState.FAIL)
    return None


def has_work_left(study: optuna.Study, wanted: int) -> bool:
    """Whether a trial waits, or one more is wanted."""
    count = count_states(study)
    return count[TrialState.WAITING] > 0 or sum(count[state] for state in LIVE) < wanted


def suggest_values(trial: Trial, space: Space) -> dict[str, Plain]:
    """Suggest what the trial tries: drawn now, or given with it."""
    return {name: _round_value(_suggest(trial, name, spread), spread) for name, spread in space.items()}


def read_values(trial: FrozenTrial, space: Space) -> dict[str, Plain]:
    """Read what a finished trial tried."""
    return {
        name: _round_value(trial.params[name] if isinstance(s, Range) else from_text(trial.params[name]), s)
        for name, s in space.items()
    }


def count_states(study: optuna.Study) -> Counter[TrialState]:
    """Count the trials of each state."""
    return Counter(trial.state for trial in study.get_trials(deepcopy=False))


def count_finished(study: optuna.Study) -> int:
    """Count the trials that are complete or pruned."""
    count = count_states(study)
    return sum(count[state] for state in FINISHED)


def revive(study: optuna.Study) -> None:
    """Put trials of dead processes back into the queue.

    A process can die before its first sign of life. Whoever sees such a trial gives that sign for it, once: if no
    other follows, it counts as dead like the rest. So does a trial whose last sign of life is of the future, because
    the clock was set back since.
    """
    early = storages.find_future_signs(study._storage)
    for trial in study.get_trials(deepcopy=False, states=[TrialState.RUNNING]):
        # One that is tried again inherits the mark of the first.
        if trial.user_attrs.get(SEEN) != trial.number or trial._trial_id in early:
            _mark(study, trial)
    with storages.silence_warnings():
        optuna.storages.fail_stale_trials(study)


def give_back(study: optuna.Study, trial: Trial) -> None:
    """Put a trial back into the queue, with the seeds that are finished: this process ends."""
    with suppress(UpdateFinishedTrialError, ValueError):  # another process may have thought us dead
        study.tell(trial, state=TrialState.FAIL)
        with storages.silence_warnings():
            storages.make_retry_callback()(study, read_trial(study, trial.number))


def read_trial(study: optuna.Study, number: int) -> FrozenTrial:
    """Read a trial as the storage has it."""
    return copy.deepcopy(next(t for t in study.get_trials(deepcopy=False) if t.number == number))


def give_sign_of_life(study: optuna.Study, trial: Trial | FrozenTrial) -> None:
    """Tell the others that the trial is being run; Optuna does it by itself only within `optimize`."""
    study._storage.record_heartbeat(trial._trial_id)  # type: ignore[attr-defined]


def _mark(study: optuna.Study, trial: Trial | FrozenTrial) -> None:
    with suppress(UpdateFinishedTrialError):
        give_sign_of_life(study, trial)
        study._storage.set_trial_user_attr(trial._trial_id, SEEN, trial.number)


@contextmanager
def keep_alive(study: optuna.Study, running: Callable[[], Iterable[Trial]]) -> Iterator[None]:
    """Tell the other processes every few seconds, by a thread, which trials are being run here.

    Args:
        study: shared by all processes.
        running: gives the trials of this process.
    """
    over = threading.Event()

    def beat() -> None:
        while not over.wait(storages.HEARTBEAT):
            for trial in list(running()):
                with suppress(
                    StorageInternalError, sqlalchemy.exc.SQLAlchemyError
                ):  # the next one may get through
                    give_sign_of_life(study, trial)
        study._storage.remove_session()

    thread = threading.Thread(target=beat, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def _create_or_load(storage: RDBStorage, name: str, plan: Plan, seed: int) -> optuna.Study:
    """Exactly one process makes the study, and lets the preset's own setting be the first trial."""
    with storages.silence_warnings():
        options: dict[str, Any] = {
            "sampler": NumberedTPE(seed),
            "pruner": WilcoxonPruner(p_threshold=WORSE, n_startup_steps=FEWEST_SEEDS),
        }
        try:
            study = optuna.create_study(storage=storage, study_name=name, direction="maximize", **options)
        except optuna.exceptions.DuplicatedStudyError:
            return optuna.load_study(storage=storage, study_name=name, **options)
        study.set_user_attr("ddopg", plan.to_plain())
        start = find_start(plan.preset, plan.space)
        if start is not None:
            kept = {n: v if isinstance(plan.space[n], Range) else to_text(v) for n, v in start.items()}
            study.enqueue_trial(kept, user_attrs={"preset": True})
    return study


def _check(study: optuna.Study, plan: Plan) -> None:
    told, here = study.user_attrs.get("ddopg"), plan.to_plain()
    if told is None:  # its maker has not come so far yet
        study.set_user_attr("ddopg", here)
        return
    for name, value in here.items():
        require(
            told.get(name) == value,
            f"the study {study.study_name!r} was begun with {name} {told.get(name)}, this command says {value}; "
            "repeat its own options, or begin another one with --study or --out",
        )


def _suggest(trial: Trial, name: str, spread: Range | tuple[Plain, ...]) -> Plain:
    if not isinstance(spread, Range):
        return from_text(trial.suggest_categorical(name, [to_text(value) for value in spread]))
    if spread.whole:
        return trial.suggest_int(name, int(spread.low), int(spread.high), log=spread.log)
    return trial.suggest_float(name, spread.low, spread.high, log=spread.log)


def _round_value(value: Any, spread: Range | tuple[Plain, ...]) -> Plain:
    """Few digits are enough for a setting, and people can read them."""
    if type(value) is not float or not isinstance(spread, Range):
        return value
    return min(max(float(f"{value:.{DIGITS}g}"), spread.low), spread.high)
