"""Who plays the rollouts of a run: this process, one by one or as one program, local processes, or a Ray cluster.

n proposals are under way at a time, and they are told in the order of asking. So a run depends on n, but
not on where it is played, nor on which rollout is finished first; one program for all rounds in its own way.
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
from ddopg.rollouts.compiled import find_playable
from ddopg.rollouts.playing import play_proposal
from ddopg.rollouts.spec import RolloutSpec
from ddopg.rollouts.together import Outcome, choose_places, play_proposals
from ddopg.rollouts.wire import decode_response, encode_request, handle_request, to_wire
from ddopg.rollouts.workers import DIED, Message, Pool
from ddopg.rollouts.workers.processes import ProcessPool
from ddopg.rollouts.workers.ray_cluster import RayPool
from ddopg.support.processes import DONE

MAX_PARALLEL = 256  # rollouts at a time: a number from a file must not fill the machine with processes


@dataclass(frozen=True)
class Here:
    """Play the rollouts in this process, one after the other, as if n were under way at a time.

    The run is the same, bit for bit, as with `Locally(n)` or `OnRay(n, address)`.

    Attributes:
        n: proposals under way at a time, 1 to 256.

    Example:
        >>> import ddopg
        >>> from ddopg.rollouts import Here
        >>> ddopg.DDOPG("cartpole", seed=1).learn(total_episodes=3, parallel=Here(2)).state.told
        3
    """

    n: int = 1

    def __post_init__(self) -> None:
        _require_number(self.n)


@dataclass(frozen=True)
class Together:
    """Play n rollouts at a time as one compiled program, on an environment that is pure functions of JAX.

    There `parallel=n` means the same for n > 1. A run is resumed bit for bit, and differs from one with `Here(n)` by
    what two compiled programs round differently. On other environments it is `Here(n)`.

    Attributes:
        n: proposals under way at a time, 1 to 256.

    Example:
        >>> import ddopg
        >>> from ddopg.rollouts import Together
        >>> ddopg.DDOPG("cartpole", seed=1).learn(total_episodes=8, parallel=Together(4)).state.told
        8
    """

    n: int

    def __post_init__(self) -> None:
        _require_number(self.n)


@dataclass(frozen=True)
class Locally:
    """Play the rollouts in n processes of this machine, one thread each.

    `parallel=n` means the same for n > 1 where the environment is stepped.

    The environment must be given by its name, and the policy class must be a configured one: see `docs/scaling.md`.

    Attributes:
        n: processes, and proposals under way at a time, 1 to 256.

    Example:
        >>> import ddopg
        >>> from ddopg.rollouts import Locally
        >>> ddopg.DDOPG("cartpole", seed=1).learn(total_episodes=3, parallel=Locally(2)).state.told
        3
    """

    n: int

    def __post_init__(self) -> None:
        _require_number(self.n)


@dataclass(frozen=True)
class OnRay:
    """Play the rollouts on an existing Ray cluster, one CPU each.

    ddopg, in the same version, must be installed on its nodes. What holds for `Locally` holds here too.

    Attributes:
        n: proposals under way at a time, 1 to 256.
        address: of the cluster: `auto`, or HOST:PORT.

    Example:
        >>> from ddopg.rollouts import OnRay
        >>> place = OnRay(4, "auto")  # for DDOPG.learn(..., parallel=place)
    """

    n: int
    address: str

    def __post_init__(self) -> None:
        _require_number(self.n)


Place = Here | Together | Locally | OnRay


class Runner(Protocol):
    """Plays what is submitted, in any order."""

    def submit(self, proposal: Proposal) -> None:
        """Begin a rollout."""

    def wait(self) -> tuple[int, Trajectory | RolloutError]:
        """Wait for a rollout: the number of its proposal, and what became of it."""


class InProcessRunner:
    """Plays a rollout in this process when somebody waits for it."""

    def __init__(self, spec: RolloutSpec) -> None:
        self._spec, self._waiting = spec, list[Proposal]()

    def submit(self, proposal: Proposal) -> None:
        """Put it into the queue."""
        self._waiting.append(proposal)

    def wait(self) -> tuple[int, Trajectory | RolloutError]:
        """Play the first."""
        proposal = self._waiting.pop(0)
        try:
            return proposal.number, play_proposal(self._spec, proposal)
        except RolloutError as error:
            return proposal.number, error


class TogetherRunner:
    """Plays all that was submitted as one program when somebody waits for one of them."""

    def __init__(self, spec: RolloutSpec, n: int) -> None:
        self._spec, self._places = spec, choose_places(n)
        self._waiting = list[Proposal]()
        self._done = list[tuple[int, Outcome]]()

    def submit(self, proposal: Proposal) -> None:
        """Put it into the queue."""
        self._waiting.append(proposal)

    def wait(self) -> tuple[int, Trajectory | RolloutError]:
        """Play all that wait, if nothing is done."""
        if not self._done:
            outcomes = play_proposals(self._spec, self._waiting, self._places)
            numbers = [proposal.number for proposal in self._waiting]
            self._done, self._waiting = [*zip(numbers, outcomes, strict=True)], []
        return self._done.pop(0)


class PoolRunner:
    """Lets a pool play."""

    def __init__(self, spec: RolloutSpec, pool: Pool) -> None:
        self._common, self._problem, self._pool = to_wire(spec), spec.problem, pool
        self._sent: dict[int, Proposal] = {}

    def submit(self, proposal: Proposal) -> None:
        """Send it."""
        self._sent[proposal.number] = proposal
        self._pool.submit(proposal.number, encode_request(self._common, proposal))

    def wait(self) -> tuple[int, Trajectory | RolloutError]:
        """Wait for what comes first."""
        message = self._pool.wait()
        return message.key, self._decode(message)

    def _decode(self, message: Message) -> Trajectory | RolloutError:
        if message.kind == DONE:
            return decode_response(message.content, self._sent[message.key], self._problem)
        reason = message.content.decode().strip().splitlines()
        return RolloutError(f"the rollout was lost: {reason[0] if message.kind == DIED else reason[-1]}")


class RolloutQueue:
    """The rollouts under way: each is begun once, and again where it fails, until it has failed too often.

    Args:
        runner: who plays them.
        in_hand: where a rollout that came back is put, by the number of its proposal, until it is told.
        retries: how often a rollout that failed is begun again.
        note: called with every failure.
    """

    def __init__(
        self,
        runner: Runner,
        in_hand: dict[int, Trajectory],
        retries: int,
        note: Callable[[Failure], None],
    ) -> None:
        self._runner, self._in_hand, self._retries, self._note = runner, in_hand, retries, note
        self._begun: dict[int, tuple[Proposal, int]] = {}  # the proposal, and which attempt it is
        self._given_up: dict[int, RolloutError] = {}

    def wait_for_first(self, flight: Sequence[Proposal]) -> Trajectory:
        """Wait for the rollout of the first proposal; the others are to be under way meanwhile."""
        for proposal in flight:
            if proposal.number not in self._begun and proposal.number not in self._in_hand:
                self._begin(proposal, 1)
        first = flight[0].number
        while first not in self._in_hand:
            if first in self._given_up:
                # Kept, the error would hold on to the frames it passes, and they to it.
                raise self._given_up.pop(first)
            self._take(*self._runner.wait())
        return self._in_hand[first]

    def _begin(self, proposal: Proposal, attempt: int) -> None:
        self._begun[proposal.number] = proposal, attempt
        self._runner.submit(proposal)

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


def ask_ahead(state: State, policy: Policy, config: Config, n: int) -> State:
    """Ask until n proposals wait, or a stage of the initial design.

    A stage is told whole before anything that builds upon it is asked.
    """
    if not state.pending:
        state, _ = algorithm.ask(state, policy, config)
    missing = n - len(state.pending)
    if missing > 0 and state.memory.size >= config.design.policies:
        state, _ = algorithm.ask(state, policy, config, missing)
    return state


def resolve_place(parallel: int | Place, spec: RolloutSpec) -> Place:
    """Say where rollouts are played.

    A number above 1 means as many in one program where the environment is pure functions, else in as many local
    processes; 1 means this process.

    Args:
        parallel: what `learn` was given.
        spec: what the rollouts have in common.

    Raises:
        ConfigError: not between 1 and `MAX_PARALLEL` at a time.
    """
    require_place(parallel)
    if isinstance(parallel, Place):
        return parallel
    if parallel == 1:
        return Here()
    return Together(parallel) if _can_be_together(spec) else Locally(parallel)


def require_place(parallel: int | Place) -> None:
    """Refuse a number of rollouts at a time that is not between 1 and `MAX_PARALLEL`."""
    if not isinstance(parallel, Place):
        _require_number(parallel)


def _can_be_together(spec: RolloutSpec) -> bool:
    return find_playable(spec.env, spec.policy, spec.problem.horizon) is not None


def _require_number(n: int) -> None:
    require(
        type(n) is int and 1 <= n <= MAX_PARALLEL,
        f"parallel must be between 1 and {MAX_PARALLEL} rollouts at a time, got {n!r}",
    )


@contextmanager
def open_runner(place: Place, spec: RolloutSpec) -> Iterator[Runner]:
    """Open what plays the rollouts at that place; what is still under way at the end of the block is ended."""
    if isinstance(place, Together) and _can_be_together(spec):
        yield TogetherRunner(spec, place.n)
        return
    if isinstance(place, Here | Together):
        yield InProcessRunner(spec)
        return
    to_wire(spec)  # refuses what cannot be sent, before any process is started
    if isinstance(place, Locally):
        pool: Pool = ProcessPool(handle_request, place.n)
    else:
        pool = RayPool(handle_request, place.address, place.n)
    with closing(pool):
        yield PoolRunner(spec, pool)
