"""The loop: each trial runs on several seeds, one after the other, and ends early if clearly worse than the best.

A trial's value is the interquartile mean over its seeds of each run's score: the return of the incumbent on fresh
episodes, averaged over the learning curve (`area`), or at its end (`final`). All trials have the same seeds, and runs
with the same seed the same episodes, so that trials are compared in pairs; the order of the seeds differs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import optuna
from optuna.exceptions import UpdateFinishedTrialError
from optuna.trial import Trial, TrialState

from ddopg.errors import RolloutError
from ddopg.experiments.bench.jobs import Job
from ddopg.experiments.bench.stats import Curve, iqm
from ddopg.experiments.bench.workers import Done, Event, Failed, Place, Progressed, run_from
from ddopg.experiments.tuning.study import (
    Plan,
    count_finished,
    count_states,
    give_back,
    keep_alive,
    read_trial,
    suggest_values,
    take_trial,
)
from ddopg.support.display import make_work_bar
from ddopg.support.records import to_dict
from ddopg.support.signals import shielded

AGAIN = 2  # times that a run is begun anew whose process died: it need not be the setting's fault
Show = Callable[[Event], None]


def score_curve(curve: Curve, kind: str) -> float:
    """Score a learning curve: the mean over its marks (`area`), or its last value (`final`)."""
    values = np.asarray(curve, np.float64)[:, 1]
    return float(values.mean() if kind == "area" else values[-1])


@dataclass
class OpenTrial:
    """A trial that this process runs."""

    trial: Trial
    settings: dict[str, Any]
    left: list[int]  # places in the plan's seeds, in this trial's order
    scores: dict[int, float]  # place → score
    busy: bool = False
    share: float = 0.0  # of the run that goes on


@dataclass
class Crew:
    """The trials in hand: gives out jobs, takes in what became of them."""

    study: optuna.Study
    plan: Plan
    wanted: int
    open: dict[str, OpenTrial] = field(default_factory=dict)  # by the name of their jobs

    def next_job(self) -> Job | None:
        """The next seed of a trial in hand, else the first of a new one, else none."""
        name = next((name for name, one in self.open.items() if not one.busy), None) or self._begin()
        if name is None:
            return None
        one, plan = self.open[name], self.plan
        one.busy, one.share = True, 0.0
        return Job(
            plan.env, name, plan.kind, one.settings, plan.seeds[one.left[0]], plan.steps, plan.episodes
        )

    def take(self, event: Event) -> None:
        """Take in what has become of a run."""
        name = event.job.method
        one = self.open[name]
        if isinstance(event, Progressed):
            one.share = event.share
            return
        one.busy, one.share = False, 0.0
        try:
            over = self._failed(one, event) if isinstance(event, Failed) else self._done(one, event)
        except UpdateFinishedTrialError:  # others took this process for dead, and the trial out of its hands
            over = True
        if over:
            del self.open[name]

    def give_up(self) -> None:
        """Put everything in hand back into the queue."""
        for one in self.open.values():
            give_back(self.study, one.trial)
        self.open.clear()

    def _begin(self) -> str | None:
        trial = take_trial(self.study, self.wanted)
        if trial is None:
            return None
        known = read_trial(self.study, trial.number).intermediate_values
        order = np.random.default_rng(trial.number).permutation(len(self.plan.seeds)).tolist()
        name = f"trial {trial.number}"
        self.open[name] = OpenTrial(trial, {}, [place for place in order if place not in known], dict(known))
        self.open[name].settings = to_dict(self.plan.apply(suggest_values(trial, self.plan.space)))
        return name

    def _done(self, one: OpenTrial, event: Done) -> bool:
        place = one.left.pop(0)
        one.scores[place] = score_curve(event.record["curve"], self.plan.score)
        one.trial.report(one.scores[place], place)
        if not one.left:
            self.study.tell(one.trial, float(iqm(np.array(list(one.scores.values())))))
        elif one.trial.should_prune():
            self.study.tell(one.trial, state=TrialState.PRUNED)
        else:
            return False
        return True

    def _failed(self, one: OpenTrial, event: Failed) -> bool:
        """A setting under which a run fails is out, unless it is the preset's own: then the task is at fault."""
        reason = event.reason.strip().splitlines()[-1]
        if one.trial.user_attrs.get("preset"):
            raise RolloutError(
                f"{event.job.env} cannot be tuned, because the preset itself fails with seed {event.job.seed}: "
                f"{reason}; repair the environment, and the same command goes on"
            )
        one.trial.set_user_attr("failure", f"seed {event.job.seed}: {reason}")
        self.study.tell(one.trial, state=TrialState.PRUNED)
        return True


def run(study: optuna.Study, plan: Plan, wanted: int, place: Place, quiet: bool) -> None:
    """Run trials until all that are wanted are finished, or run by other processes.

    If it is interrupted, the trials of this process go back into the queue.

    Args:
        study: shared by all processes.
        plan: what is tuned, and how a trial is judged.
        wanted: how many trials there should be in the end.
        place: opens the pool in which runs are played.
        quiet: show no progress.

    Raises:
        RolloutError: if a run of the preset itself fails.
    """
    crew = Crew(study, plan, wanted)
    with (
        keep_alive(study, lambda: [one.trial for one in list(crew.open.values())]),
        show_progress(crew, quiet) as show,
        closing(run_from(crew.next_job, place, AGAIN)) as events,  # type: ignore[type-var]
    ):
        try:
            for event in events:
                crew.take(event)
                show(event)
        except BaseException:
            with shielded():
                crew.give_up()
            raise


@contextmanager
def show_progress(crew: Crew, quiet: bool) -> Iterator[Show]:
    """Show one line with trials finished, the best so far, time spent and time left; nothing if `quiet`."""
    if quiet:
        yield lambda event: None
        return
    with make_work_bar("{task.fields[ended]}[/]/{task.fields[trials]} trials", "{task.fields[what]}") as bar:
        task = bar.add_task(
            "tune", total=crew.wanted, ended=count_finished(crew.study), trials=crew.wanted, what=""
        )

        def show(event: Event) -> None:
            if not isinstance(event, Progressed):  # the storage is asked only when something has changed
                bar.update(task, ended=count_finished(crew.study), what=_summarise(crew.study))
            begun = sum((len(one.scores) + one.share) / len(crew.plan.seeds) for one in crew.open.values())
            bar.update(task, completed=min(bar.tasks[0].fields["ended"] + begun, crew.wanted))

        yield show


def _summarise(study: optuna.Study) -> str:
    count = count_states(study)
    if not count[TrialState.COMPLETE]:
        return "the first trial"
    return (
        f"best {study.best_value:.4g} (trial {study.best_trial.number}) · {count[TrialState.PRUNED]} pruned"
    )
