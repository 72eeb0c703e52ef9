"""How much may be spent: environment steps, or rollouts."""

from __future__ import annotations

from ddopg.core.state import State
from ddopg.errors import require, require_given, require_whole


def check_budget(steps: int | None, episodes: int | None) -> int:
    """The one of both that is given, at least 1."""
    message = (
        "give a budget either in steps (total_timesteps; --steps) or in episodes (total_episodes; --episodes), "
        f"got {steps} and {episodes}"
    )
    require(steps is None or episodes is None, message)
    total = require_whole("the budget", require_given(episodes if steps is None else steps, message))
    require(total >= 1, f"the budget must be at least 1, got {total}")
    return total


class Budget:
    """How much there is to spend, in steps or in episodes, counted from where the learner stands now."""

    def __init__(self, steps: int | None, episodes: int | None, state: State) -> None:
        self.unit = "steps" if steps is not None else "episodes"
        self.total = check_budget(steps, episodes)
        self.first = self.spent_so_far(state)
        self.end = self.first + self.total  # counted from the beginning of the run

    def spent_so_far(self, state: State) -> int:
        """In the budget's own unit."""
        return state.steps if self.unit == "steps" else state.told

    def used(self, state: State) -> int:
        """Since this budget was made."""
        return self.spent_so_far(state) - self.first

    def left(self, state: State) -> int:
        """In its own unit; no more rollouts than that are needed, because each has at least one step."""
        return self.total - self.used(state)

    def spent(self, state: State) -> bool:
        """Whether nothing is left."""
        return self.left(state) <= 0
