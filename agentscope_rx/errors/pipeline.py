"""Errors of pipelines that have run, and did not come to their end."""

from __future__ import annotations

from collections.abc import Sequence

from agentscope_rx.errors.base import AgentScopeError


class RoutingError(AgentScopeError):
    """A router got no valid choice, also after a repair. `choice` is the last one, `members` are the valid ones.

    The `__cause__` is the error of the choice, if there is one.
    """

    def __init__(self, router: str, choice: str | None, members: Sequence[str]) -> None:
        chosen = "no member" if choice is None else f"{choice!r:.60}"
        super().__init__(
            f"Router {router!r}: {chosen} was chosen, and there are {', '.join(members)}. Give the router a member for "
            "such cases: otherwise=..."
        )
        self.router = router
        self.choice = choice
        self.members: tuple[str, ...] = tuple(members)


class GoalNotReachedError(AgentScopeError):
    """A goal loop with `on_unmet="error"` has ended before its goal was reached; `outcome` says how (`GoalOutcome`)."""

    def __init__(self, loop: str, outcome: object, *, end: str, rounds: int, feedback: str) -> None:
        attempts = f"{rounds} round{'' if rounds == 1 else 's'}"
        said = f" The last feedback was: {feedback}" if feedback else ""
        super().__init__(f"Goal loop {loop!r} ended after {attempts}: {end}.{said}")
        self.loop = loop
        self.outcome = outcome
