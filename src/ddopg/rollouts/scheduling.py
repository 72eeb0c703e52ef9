"""Who plays the rollouts of a run: this process, local processes, or a Ray cluster.

A window of n proposals is under way at a time, and they are told in the order of asking. So a run depends on n, but
not on where it is played, nor on which rollout is finished first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Protocol

from ddopg.config import Config
from ddopg.core import algorithm
from ddopg.core.state import Proposal, State
from ddopg.core.types import Failure, Trajectory
from ddopg.errors import RolloutError, require
from ddopg.policies import Policy
from ddopg.rollouts.wire import Game, answered, order, play, rules_of
from ddopg.rollouts.workers import Message, Pool
from ddopg.rollouts.workers.processes import Processes
from ddopg.rollouts.workers.ray_cluster import Cluster

MOST = 256  # rollouts at a time: a number from a file must not fill the machine with processes


@dataclass(frozen=True)
class Here:
    """In this process, one after the other, as if n were under way."""

    n: int = 1

    def __post_init__(self) -> None:
        _require_number(self.n)


@dataclass(frozen=True)
class Locally:
    """In n local processes."""

    n: int

    def __post_init__(self) -> None:
        _require_number(self.n)


@dataclass(frozen=True)
class OnRay:
    """Up to n at a time on the Ray cluster at that address, such as auto or HOST:PORT."""

    n: int
    address: str

    def __post_init__(self) -> None:
        _require_number(self.n)


Place = Here | Locally | OnRay


class Player(Protocol):
    """Plays what is submitted, in any order."""

    def submit(self, proposal: Proposal) -> None:
        """Begin a rollout."""

    def wait(self) -> tuple[int, Trajectory | RolloutError]:
        """The number of a proposal, and what became of it."""


class PlayerHere:
    """Plays a rollout when somebody waits for it."""

    def __init__(self, game: Game) -> None:
        self._game, self._waiting = game, list[Proposal]()

    def submit(self, proposal: Proposal) -> None:
        """Put it into the queue."""
        self._waiting.append(proposal)

    def wait(self) -> tuple[int, Trajectory | RolloutError]:
        """Play the first."""
        proposal = self._waiting.pop(0)
        try:
            return proposal.number, self._game.play(proposal.theta, proposal.seed)
        except RolloutError as error:
            return proposal.number, error


class PlayerElsewhere:
    """Sends orders to a pool."""

    def __init__(self, game: Game, pool: Pool) -> None:
        self._rules, self._problem, self._pool = rules_of(game), game.problem, pool
        self._sent: dict[int, Proposal] = {}

    def submit(self, proposal: Proposal) -> None:
        """Send it."""
        self._sent[proposal.number] = proposal
        self._pool.submit(proposal.number, order(self._rules, proposal))

    def wait(self) -> tuple[int, Trajectory | RolloutError]:
        """What comes first."""
        message = self._pool.wait()
        return message.key, self._outcome(message)

    def _outcome(self, message: Message) -> Trajectory | RolloutError:
        if message.kind == "done":
            return answered(message.content, self._sent[message.key], self._problem)
        reason = message.content.decode().strip().splitlines()
        return RolloutError(f"the rollout was lost: {reason[0] if message.kind == 'died' else reason[-1]}")


class Window:
    """The rollouts under way: each is begun once, and again where it fails, until it has failed too often.

    What came back is put into `in_hand`, where it stays until it is told; `note` hears of failures.
    """

    def __init__(
        self,
        player: Player,
        in_hand: dict[int, Trajectory],
        retries: int,
        note: Callable[[Failure], None],
    ) -> None:
        self._player, self._in_hand, self._retries, self._note = player, in_hand, retries, note
        self._begun: dict[int, tuple[Proposal, int]] = {}  # the proposal, and which attempt it is
        self._given_up: dict[int, RolloutError] = {}

    def result(self, flight: Sequence[Proposal]) -> Trajectory:
        """The rollout of the first; the others are to be under way meanwhile."""
        for proposal in flight:
            if proposal.number not in self._begun and proposal.number not in self._in_hand:
                self._begin(proposal, 1)
        first = flight[0].number
        while first not in self._in_hand:
            if first in self._given_up:
                raise self._given_up.pop(
                    first
                )  # kept, it would hold on to the frames it passes, and they to it
            self._take(*self._player.wait())
        return self._in_hand[first]

    def _begin(self, proposal: Proposal, attempt: int) -> None:
        self._begun[proposal.number] = proposal, attempt
        self._player.submit(proposal)

    def _take(self, number: int, outcome: Trajectory | RolloutError) -> None:
        if not isinstance(outcome, RolloutError):
            self._in_hand[number] = outcome
            return
        proposal, attempt = self._begun[number]
        self._note(Failure(number, proposal.seed, attempt, outcome.steps, str(outcome)))
        if attempt > self._retries:
            self._given_up[number] = outcome
        else:
            self._begin(proposal, attempt + 1)


def asked_ahead(state: State, policy: Policy, config: Config, n: int) -> State:
    """The state in which n proposals wait, or a stage of the initial design: that is told whole before anything that
    builds upon it is asked."""
    if not state.pending:
        state, _ = algorithm.ask(state, policy, config)
    missing = n - len(state.pending)
    if missing > 0 and state.memory.size >= config.design.policies:
        state, _ = algorithm.ask(state, policy, config, missing)
    return state


def place_of(parallel: int | Place) -> Place:
    """A number means local processes, unless it is 1."""
    if isinstance(parallel, Place):
        return parallel
    _require_number(parallel)
    return Here() if parallel == 1 else Locally(parallel)


def _require_number(n: int) -> None:
    require(
        type(n) is int and 1 <= n <= MOST,
        f"parallel must be between 1 and {MOST} rollouts at a time, got {n!r}",
    )


@contextmanager
def player_at(place: Place, game: Game) -> Iterator[Player]:
    """Somebody who plays there; what is still under way at the end is ended."""
    if isinstance(place, Here):
        yield PlayerHere(game)
        return
    rules_of(game)  # says what cannot be, first of all
    if isinstance(place, Locally):
        pool: Pool = Processes(play, place.n)
    else:
        pool = Cluster(play, place.address, place.n)
    with closing(pool):
        yield PlayerElsewhere(game, pool)
