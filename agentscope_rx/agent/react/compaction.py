"""Compaction: hooks make the conversation smaller, before a model request, and after one that was too long.

    history |> each compacting hook: compact -> check -> write, all or none -> Context* Memory -> the next hook

before     each round and each summary; the request is made of what the hooks have left
now        `agent.compact()`, between runs
too long   the provider has refused the request: the hooks are asked once more; if they have changed the memory, Retry,
           and the round or summary begins again: its Pre event is made anew, so that hints are neither lost nor doubled

A round is asked about outside of the operators around it: a further attempt by one of these does not compact again. The
refusal is dealt with inside: an operator sees the error only if it stands.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple, TypeVar, cast

from agentscope_rx.agent.leasing import closing
from agentscope_rx.agent.persistence import save
from agentscope_rx.agent.react.model_call import retry_event
from agentscope_rx.agent.react.preparing import unless_over
from agentscope_rx.agent.react.stage import ReActCore
from agentscope_rx.agent.run import Done, Run, Stage
from agentscope_rx.agent.run_history import COMPACTED
from agentscope_rx.agent.state_persistence import StatePersistence
from agentscope_rx.agent.system_prompt import SystemPrompt, system_message
from agentscope_rx.errors import ContextOverflowError, ModelError, PromptTooLongError
from agentscope_rx.events import ContextEvent, Event, MemoryEvent, PreReasoningEvent
from agentscope_rx.hooks import Hook
from agentscope_rx.hooks.ask_to_compact import ask, changes_of, compaction_in, is_outdated
from agentscope_rx.hooks.compaction import Compaction, CompactionRequest, CompactionWhy
from agentscope_rx.hooks.error_notes import add_note
from agentscope_rx.messages import ChatUsage, Msg
from agentscope_rx.messages.history import same_beginning
from agentscope_rx.models.accumulate import ResponseAccumulator
from agentscope_rx.models.options import GenerateOptions, ToolSchema
from agentscope_rx.models.response import FinishReason, RetryNotice
from agentscope_rx.reactive import (
    Flow,
    Tail,
    catch,
    concat,
    concat_map,
    defer,
    empty,
    just,
    shield,
    tail,
    take_until,
    then,
    throw,
)
from agentscope_rx.reactive.kernel.fuse import Immediate, reduced

T = TypeVar("T")

OUTDATED = "Others have changed the conversation meanwhile; nothing was replaced."
"""The error of the steps of a compaction that would undo what others have done."""

FULL = "model_context_window_exceeded"
"""The finish reason of an answer that the window has cut off, with Anthropic and servers like it."""

_ASKED = "latest request before its hooks"
_COUNTED = "tokens of the latest request"
_REFUSED = "request that was too long"


class Compacting:
    """One asking of all hooks. `done` is what they have changed so far."""

    __slots__ = ("_options", "_system", "_tools", "_why", "agent", "done", "error", "run")

    def __init__(
        self,
        agent: ReActCore,
        run: Run,
        why: CompactionWhy,
        *,
        system_message: Msg | None = None,
        tools: Sequence[ToolSchema] = (),
        options: GenerateOptions | None = None,
    ) -> None:
        self.agent: ReActCore = agent
        self.run: Run = run
        self._why: CompactionWhy = why
        self._system = system_message
        self._tools = tools
        self._options = options
        self.error: ModelError | None = None
        """The refusal that the hooks are asked because of."""
        self.done: Compaction = Compaction()

    def events(self) -> Flow[Event]:
        """Ask each hook about what the one before has left. An interruption ends it, with what is written so far.

        Signals: the ContextEvents of each compaction, then its MemoryEvent; the error of a hook or of the memory, or a
        `HookError`.
        Cancels: the work of the hook; a write that has begun runs to its end.
        """

        def nothing() -> Flow[Event]:
            return empty()

        return defer(lambda: self.then(nothing))

    def then(self, following: Callable[[], Flow[T]]) -> Flow[Event | T]:
        """`events`, then `following()`: returned at once if no hook has anything to do, which saves the operators.

        Part of a subscription (see `onward`): the hooks are asked now.
        """
        return self._ask(0, following)

    def _ask(self, index: int, following: Callable[[], Flow[T]]) -> Flow[Event | T]:
        """The hooks from `index` on."""
        run = self.run
        hooks = run.hooks.compacting
        while index < len(hooks) and not run.interrupted:
            hook = hooks[index]
            index += 1
            known = reduced(run.history())
            if type(known) is Immediate:
                history = cast("Sequence[Msg]", known.value)
                answer = ask(hook, self._request(history))
                if answer is None:
                    continue
                events = self._answered(hook, history, answer)
            else:
                events = concat_map(partial(self._ask_later, hook))(cast("Flow[Sequence[Msg]]", known))
            watched = run.hooks.watched(MemoryEvent, run.hooks.watched(ContextEvent, events))
            return concat(watched, defer(partial(self._ask, index, following)))
        return cast("Flow[Event | T]", following())

    def _ask_later(self, hook: Hook, history: Sequence[Msg]) -> Flow[Event]:
        answer = ask(hook, self._request(history))
        return empty() if answer is None else self._answered(hook, history, answer)

    def _answered(self, hook: Hook, asked: Sequence[Msg], answer: object) -> Flow[Event]:
        run = self.run

        def take(compaction: Compaction) -> Flow[Event]:
            # others may have changed the memory meanwhile
            return run.history().pipe(concat_map(partial(self._write, hook, compaction, asked)))

        found = compaction_in(hook, run.name, answer)
        return found.pipe(take_until(run.interruption.event), concat_map(take))

    def _request(self, history: Sequence[Msg]) -> CompactionRequest:
        run, conversation = self.run, self.run.conversation
        counted = cast("_Counted | None", run.extras.get(_COUNTED))
        messages = conversation.view.of(history).messages if run.memory.marked else history
        return CompactionRequest(
            why=self._why,
            source=run.source,
            model=self.agent.model,
            history=history,
            messages=messages,
            iteration=run.iteration,
            question=run.input.question,
            pending=conversation.unsettled or (),
            held=_held(run) if run.hooks.holding else (),
            system_message=self._system if counted is None or counted.system is None else counted.system,
            tools=self._tools,
            options=self._options,
            added=() if counted is None else counted.added,
            last=None if counted is None else counted.last(messages),
            error=self.error,
        )

    def _write(self, hook: Hook, compaction: Compaction, asked: Sequence[Msg], history: Sequence[Msg]) -> Flow[Event]:
        run = self.run
        # (what the hook was asked about decides if its answer is right: it cannot know what others did meanwhile)
        replaced = changes_of(hook, compaction, asked)
        events = [event.replace(source=run.source) for event in compaction.events]
        if replaced and is_outdated(replaced, asked, history):
            # a run that overlaps with this one has compacted, a guardrail has put a notice in the place of a message,
            # or the program has removed one: the next request is asked about with what they have left
            replaced = ()
            events = [event.replace(error=event.error or OUTDATED) for event in events]
        for event in events:
            if event.usage is not None:
                run.usage.add_model_call([(event.model_name or None, event.usage)], self.agent.model.model_name)
        self.done = Compaction(replaced=(*self.done.replaced, *replaced), events=(*self.done.events, *events))
        if not replaced:
            return just(*events) if events else empty()
        reports: list[Event] = [*events, MemoryEvent(source=run.source, replaced=replaced)]

        def written() -> Flow[Event]:
            run.unemitted.extend(reports)
            return just(*reports)

        run.writes += 1
        run.extras[COMPACTED] = True
        return shield(run.memory.replace_all(replaced).pipe(then(written)))


class _Counted(NamedTuple):
    """The latest request: its messages before the hooks, the tokens of all of it (0: not known), what hooks added."""

    messages: Sequence[Msg]
    tokens: int
    added: Sequence[Msg]
    system: Msg | None

    def last(self, messages: Sequence[Msg]) -> tuple[int, int] | None:
        """`CompactionRequest.last` for these messages."""
        number = len(self.messages)
        if not (number and self.tokens) or same_beginning(self.messages, messages) < number:
            return None
        return number, self.tokens


def note_asked(run: Run, event: PreReasoningEvent) -> None:
    """Note the request before its hooks."""
    run.extras[_ASKED] = event


def note_counted(run: Run, pre: PreReasoningEvent, costs: Sequence[tuple[str | None, ChatUsage]]) -> None:
    """Note the request as its hooks have left it, and what its provider has counted (see `CompactionRequest`)."""
    before = cast("PreReasoningEvent", run.extras[_ASKED])
    tokens = costs[-1][1].input_tokens if costs else 0
    added: list[Msg] = []
    if pre.messages is not before.messages:
        own = {id(message) for message in before.messages}
        added = [message for message in pre.messages if id(message) not in own]
        if len(pre.messages) - len(added) != len(own):
            # a hook has taken messages away, so the count says nothing of those that are there
            tokens = 0
    system = None if pre.system_message is before.system_message else pre.system_message
    run.extras[_COUNTED] = _Counted(before.messages, tokens, (*added, *pre.hints), system)


def _held(run: Run) -> frozenset[str]:
    """The ids of the messages that hooks hold; the error of a hook, with a note that names it."""
    held: set[str] = set()
    for hook in run.hooks.holding:
        try:
            held.update(hook.held(run.source))
        except Exception as error:
            add_note(error, hook, "held", run.name)
            raise
    return frozenset(held)


# --- before a request ---------------------------------------------------------------------------------------------


def compact_before(agent: ReActCore, run: Run, compacting: Compacting, stage: Stage, *, limited: bool = True) -> Stage:
    """Ask the hooks, then the stage; nothing is asked again for a request that is made again as it was too long.

    `limited` is False if the stage is not held to the limits of usage, to which summaries of the hooks count, too.

    Signals: those of `Compacting.events` and of the stage; instead of the stage a tail if the run is interrupted, or at
    a limit.
    Cancels: the hook in progress, or the stage.
    """

    again = cast("_Refused | None", run.extras.get(_REFUSED))
    if again is not None and again.begins:
        again.begins = False
        return stage
    run.extras[_REFUSED] = None
    return defer(lambda: compacting.then(partial(unless_over, agent, run, stage, limited=limited)))


# --- between runs -------------------------------------------------------------------------------------------------


def compact_now(
    agent: ReActCore, run: Run, prompt: SystemPrompt | None, persistence: StatePersistence
) -> Flow[Compaction]:
    """Ask the hooks outside of a call, and save the conversation if it is bound and has changed.

    Signals: what was changed; the errors of `Compacting.events`, of the prompt and of the session.
    Cancels: as `Compacting.events`.
    """

    def with_system(system: Msg | None) -> Flow[Compaction]:
        tools, options = run.toolkit.schemas(), agent.generate_options
        compacting = Compacting(agent, run, "manual", system_message=system, tools=tools, options=options)
        return compacting.events().pipe(then(lambda: saved(compacting.done)))

    def saved(done: Compaction) -> Flow[Compaction]:
        conversation = run.conversation
        if not done.replaced or conversation.binding is None:
            return just(done)
        closing(run)
        written = save(conversation, run.name, run.memory, persistence, conversation.binding, stage="compact")
        return written.pipe(then(lambda: just(done)))

    return system_message(prompt, run).pipe(concat_map(with_system))


# --- after a request that was too long ----------------------------------------------------------------------------


class _Refused:
    """A round or summary that is made again; `begins` until it has begun."""

    __slots__ = ("begins",)

    def __init__(self) -> None:
        self.begins: bool = True


class AfterRefusal:
    """What follows if the provider refuses the request of a round or summary as too long: once, it is made again.

    `compacting` asks the hooks then, and `again` is the stage from its beginning. The same for a `memory_window` in
    which the least request does not fit.
    """

    __slots__ = ("_again", "_compacting", "_follow")

    def __init__(self, compacting: Compacting, again: Callable[[], Stage]) -> None:
        self._compacting = compacting
        self._again = again
        self._follow: Tail[Event | Done] | None = None

    def failed(self, error: Exception, response: ResponseAccumulator) -> Flow[Event]:
        """The events that follow the error of the model call.

        Signals: those of `Compacting.events`, then a RetryEvent; or the error, with a note if it is that of a refusal.
        Cancels: as `Compacting.events`.
        """
        compacting = self._compacting
        agent, run = compacting.agent, compacting.run
        refusal = refusal_in(error)
        if refusal is None or run.interrupted:
            return throw(error)
        if run.extras.get(_REFUSED) is not None:
            error.add_note("The request was made again after a compaction, and was too long again.")
            return throw(error)
        compacting.error = refusal

        def after() -> Flow[Event]:
            if run.interrupted:
                self._follow = tail(lambda: agent.end_interrupted(run))
                return empty()
            if not compacting.done.replaced:
                error.add_note("The hooks that compact were asked, and have not made the conversation smaller.")
                return throw(error)
            return just(self._once_more(error, response))

        return concat(compacting.events().pipe(catch(partial(_in_place_of, error))), defer(after))

    def _once_more(self, error: Exception, response: ResponseAccumulator) -> Event:
        """Make the request again. It gives the event that says so."""
        run = self._compacting.run
        run.extras[_REFUSED] = _Refused()
        run.usage.model_retries += 1
        self._follow = tail(self._again)
        return retry_event(RetryNotice(1, 0.0, error, discarded=response.begun), run.source)

    def answered(self, response: ResponseAccumulator, otherwise: Callable[[], Stage]) -> Stage:
        """`otherwise`, unless the answer was cut off because the window is full, and hooks have made room for it.

        The answer counts for the usage of the run already.

        Signals: those of `Compacting.events`, then a RetryEvent and a tail; or the stage `otherwise`.
        Cancels: as `Compacting.events`, or the stage.
        """
        compacting = self._compacting
        run = compacting.run
        if not _is_full(response) or run.interrupted or run.extras.get(_REFUSED) is not None:
            return otherwise()
        reason = response.raw_finish_reason
        text = f"The answer was cut off, because the context window is full (finish reason {reason!r:.60})."
        error = compacting.error = ContextOverflowError(text, status=200, model=compacting.agent.model.model_name)

        def after() -> Stage:
            if run.interrupted or not compacting.done.replaced:
                return otherwise()
            notice = self._once_more(error, response)
            return concat(just(notice), defer(lambda: self.then(otherwise)))

        return concat(compacting.events(), defer(after))

    def instead(self, error: PromptTooLongError) -> Stage:
        """The stage in the place of a request that cannot be made. Signals and cancels as `failed`."""
        return concat(self.failed(error, ResponseAccumulator()), defer(lambda: self.then(lambda: throw(error))))

    def then(self, answered: Callable[[], Stage]) -> Stage:
        """The stage after the events: that of the answer, unless the request is made again."""
        return answered() if self._follow is None else just(self._follow)


def _is_full(response: ResponseAccumulator) -> bool:
    """True if the answer ended at the end of the window: by its reason, or because it had no room to begin."""
    if response.raw_finish_reason == FULL:
        return True
    if response.finish_reason is not FinishReason.LENGTH or response.blocks(complete=False):
        return False
    # with more tokens it was the limit of the answer that ended it, such as while a model thinks unseen
    return response.usage is None or response.usage.output_tokens <= 1


def _in_place_of(refusal: Exception, error: Exception) -> Flow[Event]:
    error.add_note(f"A compaction was asked for because of {type(refusal).__name__}: {refusal}")
    return throw(error)


def refusal_in(error: BaseException) -> ModelError | None:
    """The error by which a provider, or a model with a limit, has refused a request as too long; None if none has.

    Wrappers may raise another error because of it: it is looked for in causes, contexts and groups.
    """
    left, seen = [error], set[int]()
    while left:
        each = left.pop()
        if id(each) in seen:
            continue
        seen.add(id(each))
        if isinstance(each, (ContextOverflowError, PromptTooLongError)):
            return each
        if isinstance(each, BaseExceptionGroup):
            left += cast("BaseExceptionGroup[BaseException]", each).exceptions
        if (cause := each.__cause__) is not None:
            left.append(cause)
        elif (context := each.__context__) is not None and not each.__suppress_context__:
            left.append(context)
    return None
