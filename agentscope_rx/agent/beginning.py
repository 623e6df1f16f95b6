"""The beginning of a run: its input, from the PreCall hooks until memory has it.

    pre_call    the system prompt -> the history -> PreCall |> hooks
    admit       the event is shown -> close what earlier runs have lost -> the pending calls that the input settles
    remember    memory has the input

Each of the three is a step of the run's chain (see `steps`): between two of them nothing happens in a disposed run.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from agentscope_rx.agent.durable.resume import remembered_input, requested_by, restore, resumed_run
from agentscope_rx.agent.input import ParsedInput, check_input_messages, named_as_called
from agentscope_rx.agent.ports import AgentCore
from agentscope_rx.agent.run import NOTHING, Run
from agentscope_rx.agent.snapshot import Snapshot
from agentscope_rx.agent.sub_agent.pending import without_results
from agentscope_rx.agent.system_prompt import system_message
from agentscope_rx.errors import InvalidInputError
from agentscope_rx.events import Event, PreCallEvent
from agentscope_rx.messages import Msg, ToolUseBlock
from agentscope_rx.reactive import Flow, concat, concat_map, just, onward


class Beginning:
    """The steps before the first stage of a run, and what they hand on."""

    __slots__ = ("_agent", "_given", "_run", "_seen")

    def __init__(self, agent: AgentCore, run: Run, given: ParsedInput) -> None:
        self._agent = agent
        self._run = run
        self._given = given
        # between two steps: the event, and what was known when it was made
        self._seen: tuple[PreCallEvent, Sequence[Msg], Snapshot] | None = None

    # --- PreCall |> hooks -----------------------------------------------------------------------------------------

    def pre_call(self) -> Flow[Event] | None:
        """Make the event, and ask the hooks about it; None if that has taken no time."""
        agent, run = self._agent, self._run
        prompt = agent.sys_prompt
        given = self._read(None) if prompt is None else onward(system_message(prompt, run), self._read)
        return None if given is NOTHING else given

    def _read(self, system: Msg | None) -> Flow[Event]:
        run = self._run
        return onward(run.history(), partial(self._fire, system, run.conversation.snapshot(run)))

    def _fire(self, system: Msg | None, before: Snapshot, history: Sequence[Msg]) -> Flow[Event]:
        run = self._run
        event = _pre_call_event(run, self._given, system, history)
        if PreCallEvent in run.hooks.seen:
            return run.hooks.fire_then(event, self._read_again)
        self._seen = (event, history, before)
        return NOTHING

    def _read_again(self, event: PreCallEvent) -> Flow[Event]:
        """Overlapping runs may have settled calls since the hooks saw the event."""
        run = self._run
        before = run.conversation.snapshot(run)

        def read(history: Sequence[Msg]) -> Flow[Event]:
            self._seen = (event, history, before)
            return NOTHING

        return run.history().pipe(concat_map(read))

    # --- admit ----------------------------------------------------------------------------------------------------

    def admit(self) -> Flow[Event] | Event:
        """Take the input and the calls that it settles; a refused input raises, and is neither shown nor remembered."""
        assert self._seen is not None
        (event, history, before), self._seen = self._seen, None
        agent, run, given = self._agent, self._run, self._given
        if event.input is not given.messages:
            check_input_messages(event.input)
        run.system_message = event.system_message
        run.input.messages = event.input
        conversation = run.conversation
        with conversation.lock:
            if given.empty and not event.input and (pending := conversation.pending_in(history, run)):
                raise InvalidInputError(
                    f"An empty list answers none of the pending calls {[call.id for call in pending]}. To run them, "
                    "give no input at all: call()."
                )
            lost = conversation.lost_in(history, before)
            _request_pending_output(agent, run, event, history)
            if run.resumed is not None:
                restore(run, run.resumed, history)
            settled = agent.admit(run, event, history)
            conversation.admit(run, before)
            conversation.cut_off = None
            if run.resumed is None:
                conversation.unfinished = None
        shown = _shown(run, event, lost)
        run.input.unwritten = run.input.messages
        if conversation.hearing is not None:
            conversation.hearing.note(run.input.messages)
        if run.hooks.around_call is not None:
            # an operator may hold it back until the run has failed
            run.unemitted.append(shown)
        if not lost and settled is NOTHING:
            return shown
        return concat(just(shown), run.close_lost(lost), settled)

    # --- remember -------------------------------------------------------------------------------------------------

    def remember(self) -> Flow[Event] | None:
        """Write the input to memory; None if that has taken no time."""
        run = self._run
        written = run.remember_then(run.input.messages, None, _nothing, foreign=True)
        return None if written is NOTHING else written


def _pre_call_event(run: Run, given: ParsedInput, system: Msg | None, history: Sequence[Msg]) -> PreCallEvent:
    conversation = run.conversation
    # a run that a shutdown has cut off is resumed by the same input, or by none
    messages = given_messages = () if conversation.resumed(given.messages) else given.messages
    if conversation.hearing is not None:
        messages = conversation.hearing.unheard(messages, history)
    pending = conversation.pending_in(history, run)
    named = named_as_called(messages, conversation.leaves(pending)) if pending else messages
    run.input.given = messages or conversation.cut_off or remembered_input(run, history)
    run.input.given_ids = tuple([message.id for message in given_messages])
    return PreCallEvent(
        source=run.source,
        input=named,
        answers=given.answers,
        system_message=system,
        history=history,
        pending=pending,
        resumes=None if run.resumed is None else resumed_run(run.resumed),
    )


def _request_pending_output(agent: AgentCore, run: Run, event: PreCallEvent, history: Sequence[Msg]) -> None:
    """Request the output that an earlier run has left unanswered, unless the call requests one itself."""
    conversation = run.conversation
    left = conversation.output
    if run.resumed is not None:
        left = requested_by(run.resumed)
    if left is None or (run.request is not None and run.request.output is not None):
        return
    answered = event.answers or any(message.tool_results for message in event.input)
    if run.input.given_ids and not answered:
        # new messages are a new question
        return
    pending = [call.id for call in conversation.pending_in(history, run)]
    if run.resumed is not None or left.goes_on(pending, cut_off=conversation.cut_off is not None):
        run.request = agent.requested(left.output)
        if run.request is not None:
            agent.ask(run, run.request)


def _shown(run: Run, event: PreCallEvent, lost: tuple[ToolUseBlock, ...]) -> PreCallEvent:
    """The event with the fields that are known only after its hooks."""
    if run.input.handed_down:
        run.input.messages = without_results(event.input, run.input.handed_down)
    if run.input.passes_by:
        event = event.replace(passes_by=True, pending=tuple(run.calls.open.values()))
    if run.input.messages is not event.input:
        event = event.replace(input=run.input.messages)
    return event.replace(lost=lost) if lost else event


def _nothing() -> Flow[Event]:
    return NOTHING
