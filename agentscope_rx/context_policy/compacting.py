"""`Pass`: one compaction: the strategies in order, the next one only if the one before was not enough.

    view > target?  strategy 1  view > target?  strategy 2  ...  ->  Compaction(replaced, events)

It works on values: memory is changed by the agent, with what this gives, all or none.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import reduce
from operator import add

from reactivex import Observable

from agentscope_rx.context_policy.rounds import last_rounds, open_ids, rounds_of, visible
from agentscope_rx.context_policy.sizes import Sizes
from agentscope_rx.context_policy.strategy import Strategy, StrategyContext
from agentscope_rx.errors import CompactionError, HookError
from agentscope_rx.events import ContextEvent
from agentscope_rx.events.kinds import CompactionCause
from agentscope_rx.frozen_values import dataclass
from agentscope_rx.hooks.compaction import Compaction, CompactionRequest
from agentscope_rx.memory.short_forms import sent_form
from agentscope_rx.memory.views import sent, summary_carrier
from agentscope_rx.messages import COMPRESSED, HIDDEN, TRANSIENT, ChatUsage, Msg, MsgRole
from agentscope_rx.messages.history import numbers_of, same_beginning
from agentscope_rx.messages.marks import summary_in
from agentscope_rx.models.wire.speaker_names import AS_IT_IS
from agentscope_rx.reactive import Flow, catch, empty, flat_map_iterable, flow, just, then, throw

BUDGET = "budget"
"""The step of the event that says: the request is above the budget although all strategies have been asked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Goal:
    """Why a compaction is made, and where it ends; sizes are tokens of the whole request, `limit` is None if unknown.

    A strategy in `skipped` has failed a little while ago.
    """

    cause: CompactionCause
    target: float
    target_messages: int | None = None
    limit: int | None = None
    keep_rounds: int = 0
    skipped: frozenset[str] = frozenset()

    @property
    def asked(self) -> bool:
        """True if the model or the program has asked for it."""
        return self.cause in ("tool", "manual")


@dataclass(frozen=True, slots=True)
class Outcome:
    """A finished compaction: the sizes that it has left, and the strategies that have failed."""

    compaction: Compaction
    total: int
    messages: int
    failed: frozenset[str]
    worked: frozenset[str]


def sent_view(history: Sequence[Msg]) -> Sequence[Msg]:
    """The messages that a request sends for this memory, in the form in which it sends them."""
    return [sent_form(message) if message.metadata else message for message in sent(history)]


def _relevant(request: CompactionRequest) -> list[Msg]:
    """The messages of the memory that the request sends, and the one with the summary: a long past costs nothing."""
    history = request.history
    numbers = set(numbers_of(history, {message.id for message in request.messages}))
    if len({history[number].id for number in numbers}) < len(numbers):
        shown = {id(message) for message in visible(history)}
        numbers = {number for number in numbers if id(history[number]) in shown}
    carrier = summary_carrier(history)
    if carrier is not None:
        place = [number for number in numbers_of(history, (carrier.id,)) if history[number] is carrier][-1]
        numbers.add(place)
        calls = {call.id for call in carrier.tool_calls}
        if calls:
            # (a call without its result would be open)
            after = enumerate(history[place:], place)
            numbers.update(number for number, each in after if any(r.id in calls for r in each.tool_results))
    return [history[number] for number in sorted(numbers)]


def protected_ids(request: CompactionRequest, keep_rounds: int, history: Sequence[Msg]) -> set[str]:
    """The ids of the messages that a compaction must not touch.

    System messages, the input of the run, the last user message, what other hooks hold, calls without a result, the
    last rounds, transient messages (they are removed at the end of the run), and messages that share their id with
    another one.
    """
    shown = visible(history)
    protected = {*request.question, *request.held, *open_ids(shown)}
    users = (each for each in reversed(shown) if each.role is MsgRole.USER and not each.metadata.get(AS_IT_IS))
    protected.update(each.id for each in [next(users, None)] if each is not None)
    pending = set(request.pending)
    for message in shown:
        if pending and any(call.id in pending for call in message.tool_calls):
            protected.add(message.id)
        if message.role is MsgRole.SYSTEM or (message.metadata and TRANSIENT in message.marks):
            protected.add(message.id)
    for each in last_rounds(rounds_of(history), keep_rounds):
        protected.update(message.id for message in each.messages)
    ids = {message.id for message in history}
    numbers = numbers_of(request.history, ids)
    if len(numbers) > len(ids):
        times = Counter(request.history[number].id for number in numbers)
        protected.update(id for id, number in times.items() if number > 1)
    return protected


class Pass:
    """One compaction of one conversation."""

    def __init__(self, strategies: Sequence[Strategy], request: CompactionRequest, sizes: Sizes, goal: Goal) -> None:
        self._strategies = strategies
        self._request = request
        self._sizes = sizes
        self._goal = goal
        self._history = _relevant(request)
        self._places: Mapping[str, int] = {message.id: n for n, message in enumerate(self._history)}
        self._keep: int = goal.keep_rounds
        self._protected = protected_ids(request, goal.keep_rounds, self._history)
        self._view = sent_view(self._history)
        self._asked: Sequence[Msg] = self._view
        self._tokens: int = sizes.sum(self._view)
        self._replaced: dict[str, Msg] = {}
        self._events: list[ContextEvent] = []
        self._spent: list[tuple[str, ChatUsage]] = []
        self._failed: set[str] = set()
        self._worked: set[str] = set()

    def run(self) -> Flow[Outcome]:
        """Ask the strategies, once.

        Signals: the outcome; the error of a strategy that is no `CompactionError`.
        Cancels: the strategy in progress; nothing is changed.
        """
        return self._step(0)

    def _step(self, at: int) -> Flow[Outcome]:
        """The strategies from this one on."""
        while at < len(self._strategies):
            strategy = self._strategies[at]
            context = self._context()
            if context.enough:
                break
            at += 1
            if strategy.name in self._goal.skipped or strategy.name in self._failed:
                continue
            try:
                given = strategy.apply(context)
            except CompactionError as error:
                self._note(strategy, error.reason)
                continue
            if isinstance(given, Observable):
                return self._wait(strategy, given, at)
            self._take(strategy, given)
        return self._step(0) if self._kept_fewer() else just(self._outcome())

    def _kept_fewer(self) -> bool:
        """True if strategies may now change the last rounds but one, as a refused request is made in no other way.

        The newest one stays: the model has not read its results yet.
        """
        goal = self._goal
        if goal.cause != "overflow" or self._keep <= 1 or self._sizes.of(self._tokens) <= (goal.limit or 0):
            return False
        self._keep = 1
        protected = protected_ids(self._request, 1, self._history)
        fewer = len(protected) < len(self._protected)
        self._protected = protected
        return fewer

    def _wait(self, strategy: Strategy, given: Observable[Sequence[Msg]], next: int) -> Flow[Outcome]:
        found: list[Msg] = []

        def keep(messages: Sequence[Msg]) -> Sequence[None]:
            found.extend(messages)
            return ()

        def failed(error: Exception) -> Flow[None]:
            if not isinstance(error, CompactionError):
                return throw(error)
            found.clear()
            self._note(strategy, error.reason)
            return empty()

        def go_on() -> Flow[Outcome]:
            self._take(strategy, found)
            return self._step(next)

        return flow(given).pipe(flat_map_iterable(keep), catch(failed), then(go_on))

    def _context(self) -> StrategyContext:
        goal, sizes = self._goal, self._sizes
        carrier = summary_carrier(self._history)
        return StrategyContext(
            history=self._history,
            rounds=rounds_of(self._history),
            protected=self._protected,
            measure=sizes.measure,
            tokens=self._tokens,
            target=max(0, sizes.within(goal.target)),
            limit=sys.maxsize if goal.limit is None else max(0, sizes.within(goal.limit)),
            model=self._request.model,
            messages=len(self._view),
            target_messages=goal.target_messages,
            summary="" if carrier is None else summary_in(carrier.metadata),
            cause=goal.cause,
            source=self._request.source,
            spend=lambda model, usage: self._spent.append((model, usage)),
        )

    def _take(self, strategy: Strategy, given: Sequence[Msg]) -> None:
        """Take over what the strategy gives, if the conversation gets smaller by it."""
        changed = [each for each in given if self._checked(strategy, each) is not each]
        if not changed:
            if self._spent:
                self._note(strategy, "it has changed nothing")
            return
        history = list(self._history)
        for each in changed:
            history[self._places[each.id]] = each
        view = sent_view(history)
        tokens = self._sizes.sum(view)
        if tokens > self._tokens or (tokens == self._tokens and len(view) >= len(self._view)):
            self._note(strategy, "the conversation would have become longer")
            return
        self._worked.add(strategy.name)
        self._events.append(self._event(strategy.name, view, tokens))
        self._history, self._view, self._tokens = history, view, tokens
        self._replaced.update((each.id, each) for each in changed)

    def _checked(self, strategy: Strategy, new: Msg) -> Msg:
        """The message that this one is to replace."""
        place = self._places.get(new.id)
        old = None if place is None else self._history[place]
        if old is None or (old.content is not new.content and old.content != new.content):
            what = "is not in the conversation" if old is None else "has other content; give it a short form"
            raise HookError(
                f"strategy {strategy.name!r} gave a message that {what} ({new.id!r}).",
                hook="ContextPolicy",
                event="compact",
            )
        if new.id in self._protected and _is_changed(old, new):
            raise HookError(
                f"strategy {strategy.name!r} changed the message {new.id!r}, which is protected: use context.free().",
                hook="ContextPolicy",
                event="compact",
            )
        return old

    # --- what it reports ----------------------------------------------------------------------------------------------

    def _event(self, step: str, view: Sequence[Msg], tokens: int, error: str = "") -> ContextEvent:
        sizes = self._sizes
        model, usage = self._spent_by_now()
        # (what the steps before have left was never sent)
        uncached = 0 if error else sizes.sum(view[same_beginning(self._asked, view) :])
        return ContextEvent(
            source=self._request.source,
            step=step,
            cause=self._goal.cause,
            tokens_before=sizes.of(self._tokens),
            tokens_after=sizes.of(tokens),
            messages_before=len(self._view),
            messages_after=len(view),
            uncached=round(sizes.factor * uncached),
            counted=sizes.counted,
            usage=usage,
            model_name=model,
            error=error,
        )

    def _spent_by_now(self) -> tuple[str, ChatUsage | None]:
        """The tokens of the strategy's model calls, and the model of the first one."""
        spent, self._spent = self._spent, []
        return (spent[0][0], reduce(add, [usage for _, usage in spent])) if spent else ("", None)

    def _note(self, strategy: Strategy, reason: str) -> None:
        self._failed.add(strategy.name)
        self._events.append(self._event(strategy.name, self._view, self._tokens, reason))

    def _outcome(self) -> Outcome:
        total, limit = self._sizes.of(self._tokens), self._goal.limit
        if self._goal.asked and not self._events:
            self._events.append(self._event(BUDGET, self._view, self._tokens, "there is nothing to make smaller"))
        events = tuple(self._events)
        if limit is not None and total > limit:
            text = (
                f"the request has {total} tokens after all that could be done, more than {limit}: a TruncatingModel "
                "cuts it, or the provider may refuse it"
            )
            events = (*events, self._event(BUDGET, self._view, self._tokens, text))
        compaction = Compaction(replaced=tuple(self._replaced.values()), events=events)
        return Outcome(compaction, total, len(self._view), frozenset(self._failed), frozenset(self._worked))


def without_budget_event(compaction: Compaction) -> Compaction:
    """The compaction without the report that the request is above the budget: it was made before."""
    kept = tuple(each for each in compaction.events if each.step != BUDGET)
    return replace(compaction, events=kept)


def is_empty(compaction: Compaction) -> bool:
    """True if there is nothing to write or to report."""
    return not (compaction.replaced or compaction.events)


def _is_changed(old: Msg, new: Msg) -> bool:
    """True if a request would send the message in another way, or not at all."""
    hidden = (new.marks - old.marks) & {COMPRESSED, HIDDEN}
    return bool(hidden) or sent_form(new).content != sent_form(old).content
