"""`ContextPolicy`: when a conversation is made smaller, by which strategies, and how far."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from math import inf
from typing import Final, Protocol, cast, runtime_checkable

from agentscope_rx.context_policy.compacting import (
    Goal,
    Outcome,
    Pass,
    is_empty,
    without_budget_event,
)
from agentscope_rx.context_policy.evict import EvictLargeResults
from agentscope_rx.context_policy.shorten import DropPictures, ShortenArguments, ShortenResults
from agentscope_rx.context_policy.sizes import Counters, Sizes, refused
from agentscope_rx.context_policy.state import PolicyState, policy_part
from agentscope_rx.context_policy.strategy import Strategy
from agentscope_rx.context_policy.summarize import Summarize
from agentscope_rx.errors import ConfigurationError
from agentscope_rx.hooks.compaction import Compaction, CompactionRequest
from agentscope_rx.models.checks import check_count, is_number
from agentscope_rx.models.tokens import TokenCounter
from agentscope_rx.models.wrappers.truncating import max_input
from agentscope_rx.parts import Part, Where
from agentscope_rx.reactive import Flow, concat_map, defer, empty, just
from agentscope_rx.tools import Tool

GROWTH: Final = 1.1
"""A compaction that could not make a conversation small enough is tried again when it has grown by this factor."""


def default_strategies() -> tuple[Strategy, ...]:
    """The strategies of a policy without its own: four that need no model, then the one that asks it."""
    return (EvictLargeResults(), DropPictures(), ShortenArguments(), ShortenResults(), Summarize())


@runtime_checkable
class BringsTools(Protocol):
    """A strategy whose short forms need a tool."""

    def tools(self) -> tuple[Tool, ...]: ...


class ContextPolicy:
    """Makes a conversation smaller by strategies in order: the next one is asked only if the one before was not enough.

        0          target          trigger       max_tokens
        |-------------|----------------|--------------|         tokens of a request
                      <--- compaction ---             |         far below the trigger, so that it is rare

    The options:

    - `strategies`: default: `EvictLargeResults`, `DropPictures`, `ShortenArguments`, `ShortenResults`, `Summarize`
    - `max_tokens`: the budget of a whole request: system message, tools, output schema and messages. Default: nine
      tenths of the model's context window less its longest answer, or the limit of a `TruncatingModel`.
      `ConfigurationError` at the first request if the window is unknown
    - `trigger`: a compaction begins above this fraction of the budget
    - `target`: it ends at this fraction
    - `trigger_messages`: a compaction also begins above this number of messages
    - `keep_rounds`: the latest answers of the model that stay as they are, with their calls and results
    - `counter`: counts the tokens (default: an estimate by the costs of the model's vendor). The provider's
      count of the latest request corrects it

    A compaction has a cause, which its events name:

    | cause | the compaction is made because |
    |---|---|
    | `tokens` | the next request has more than `trigger * max_tokens` tokens |
    | `messages` | it has more than `trigger_messages` messages |
    | `overflow` | the provider has refused it as too long; it is asked once more, within the limit that it names |
    | `tool` | the model has called `compact_context` |
    | `manual` | the program has called `agent.compact()` |

    For `tool` and `manual` all strategies do all that they can.

    - **Never changed** are the system message, the input of the run, the last user message, input that a guardrail has
      not judged yet, calls without a result, and the last `keep_rounds` rounds. A call is never separated from its
      results.
    - If these alone are above the budget, the request is sent as it is, and an event of the step `budget` says so. If
      it is refused, only the newest round is kept.
    - Between two compactions each request begins with the bytes of the one before, so a prompt cache holds. `uncached`
      of the last event is the number of tokens that have to be read anew. Choose a lower `target` for fewer
      compactions, a higher one for more detail.
    """

    def __init__(
        self,
        strategies: Iterable[Strategy] | None = None,
        *,
        max_tokens: int | None = None,
        trigger: float = 0.8,
        target: float = 0.5,
        trigger_messages: int | None = None,
        keep_rounds: int = 3,
        counter: TokenCounter | None = None,
    ) -> None:
        self.strategies: tuple[Strategy, ...] = _checked(default_strategies() if strategies is None else strategies)
        for name, value in (("max_tokens", max_tokens), ("trigger_messages", trigger_messages)):
            if value is not None:
                check_count(name, value)
        check_count("keep_rounds", keep_rounds, 0)
        for name, fraction in (("trigger", trigger), ("target", target)):
            if not is_number(fraction) or not 0 < fraction <= 1:
                raise ConfigurationError(f"{name} is a fraction of max_tokens: 0 < {name} <= 1, not {fraction!r:.60}.")
        if target >= trigger:
            raise ConfigurationError(
                f"target must be less than trigger, so that compactions are rare: {target!r} is not less than "
                f"{trigger!r}."
            )
        if counter is not None and not isinstance(counter, TokenCounter):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigurationError(f"counter must be a TokenCounter, such as EstimatedTokens(), not {counter!r:.60}.")
        self.max_tokens = max_tokens
        self.trigger = trigger
        self.target = target
        self.trigger_messages = trigger_messages
        self.keep_rounds = keep_rounds
        self.counter = counter
        self._counters = Counters(counter)
        self._part: Part[PolicyState] = policy_part()

    def compact(self, request: CompactionRequest) -> Flow[Compaction] | None:
        """The compaction that this request needs; None if it needs none. `ConfigurationError` without any limit.

        Signals: at most one `Compaction`; the error of a strategy that is no `CompactionError`.
        Cancels: the strategy in progress; nothing is changed then.
        """
        state = self._part.get(request.source)
        sizes = Sizes(request, self._counters, state.factor)
        goal = self._goal(request, state, sizes)
        if goal is None:
            return None
        running = defer(lambda: Pass(self.strategies, request, sizes, goal).run())
        return running.pipe(concat_map(lambda outcome: self._settled(request, sizes, goal, outcome)))

    def tools(self) -> tuple[Tool, ...]:
        """The tools that the strategies need, such as the one that reads a shortened result."""
        found: list[Tool] = []
        for strategy in self.strategies:
            if isinstance(strategy, BringsTools):
                found += [tool for tool in strategy.tools() if tool not in found]
        return tuple(found)

    def ask(self, where: Where = None) -> None:
        """Make a compaction before the next request of this conversation (see `Hook.compact`)."""
        self._part.change(where, lambda state: (replace(state, asked=True), None))

    def budget_of(self, request: CompactionRequest) -> int | None:
        """The tokens that this request may have; None if neither the policy nor the model says it."""
        state = self._part.get(request.source)
        known = max_input(request.model, request.options) if self.max_tokens is None else self.max_tokens
        learned = state.limit if state.limit and state.model == request.model.model_name else None
        return min((each for each in (known, learned) if each is not None), default=None)

    # --- when, and how far --------------------------------------------------------------------------------------------

    def _goal(self, request: CompactionRequest, state: PolicyState, sizes: Sizes) -> Goal | None:
        limit = self.budget_of(request)
        if request.why == "overflow":
            return self._below_refused(request, sizes, limit)
        goal = Goal(cause="manual", target=0, limit=limit, keep_rounds=self.keep_rounds)
        if request.why == "manual":
            return goal
        if state.asked:
            return replace(goal, cause="tool")
        if limit is None and self.trigger_messages is None:
            raise ConfigurationError(
                f"The context window of {request.model!r} is unknown: set the budget by max_tokens=..., or "
                "trigger_messages=..., of the ContextPolicy."
            )
        total, number = sizes.total, len(request.messages)
        long = limit is not None and total > self.trigger * limit and _beyond(total, state.left, limit)
        most = self.trigger_messages
        many = most is not None and number > most and _beyond(number, state.left_messages)
        if not (long or many):
            return None
        skipped = frozenset(name for name, at in state.failed.items() if total <= GROWTH * at)
        return replace(
            goal,
            cause="tokens" if long else "messages",
            target=self.target * limit if limit is not None else inf,
            target_messages=max(1, int(most * self.target / self.trigger)) if many and most is not None else None,
            skipped=skipped,
        )

    def _below_refused(self, request: CompactionRequest, sizes: Sizes, limit: int | None) -> Goal:
        named, counted = refused(request.error)
        if counted is not None:
            sizes.correct(counted, counted=True)
        elif named is not None and sizes.total <= named:
            sizes.correct(named + 1, counted=False)
        total = sizes.total
        limits = [each for each in (limit, named, total - 1) if each is not None]
        if named is not None:
            name = request.model.model_name
            self._part.change(request.source, lambda state: (replace(state, limit=named, model=name), None))
        return Goal(cause="overflow", target=self.target * min(limits), limit=min(limits), keep_rounds=self.keep_rounds)

    # --- what is known afterwards -------------------------------------------------------------------------------------

    def _settled(self, request: CompactionRequest, sizes: Sizes, goal: Goal, outcome: Outcome) -> Flow[Compaction]:
        """The compaction, after the state of the conversation was changed."""
        over = goal.limit is not None and outcome.total > goal.limit
        high = goal.limit is not None and outcome.total > self.trigger * goal.limit
        many = self.trigger_messages is not None and outcome.messages > self.trigger_messages

        def change(state: PolicyState) -> tuple[PolicyState, bool]:
            # (a strategy that was skipped is still one that has failed)
            failed = {name: at for name, at in state.failed.items() if name not in outcome.worked}
            failed.update(dict.fromkeys(outcome.failed, outcome.total))
            new = replace(
                state,
                asked=state.asked and goal.cause != "tool",
                factor=sizes.factor,
                left=outcome.total if high else 0,
                left_messages=outcome.messages if many else 0,
                over=over,
                failed=failed,
            )
            return (state if new == state else new), state.over and not goal.asked

        known = self._part.change(request.source, change)
        compaction = outcome.compaction
        if known and goal.cause != "overflow":
            compaction = without_budget_event(compaction)
        return empty() if is_empty(compaction) else just(compaction)

    def __repr__(self) -> str:
        names = ", ".join(each.name for each in self.strategies)
        return f"<ContextPolicy of {names}, {self.max_tokens or 'the model'}{' tokens' if self.max_tokens else ''}>"


def _beyond(size: int, left: int, limit: int | None = None) -> bool:
    """True unless a compaction has left this size a little while ago: then it can do nothing yet."""
    return size > GROWTH * left or (limit is not None and size > limit)


def _checked(strategies: Iterable[Strategy]) -> tuple[Strategy, ...]:
    if isinstance(strategies, str) or not isinstance(strategies, Iterable):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ConfigurationError(f"strategies must be a list, such as [Summarize()], not {strategies!r:.60}.")
    given = tuple(strategies)
    for each in given:
        if isinstance(each, type) or not isinstance(each, Strategy):  # pyright: ignore[reportUnnecessaryIsInstance]
            kind = cast("object", each)
            hint = f" Make one: {kind.__name__}()." if isinstance(kind, type) else ""
            raise ConfigurationError(f"A strategy has a name and a method apply(context), not {each!r:.60}.{hint}")
    if not given:
        raise ConfigurationError("A ContextPolicy needs a strategy, such as Summarize().")
    names = [each.name for each in given]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise ConfigurationError(f"Two strategies are named {twice!r}; the events tell them apart by their names.")
    return given
