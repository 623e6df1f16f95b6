"""What must hold after every end of a run: memory whole, one truth, the ledger, what is saved, the next call."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from agentscope_rx import Approve, GenerateReason, InMemoryMemory, Msg, MsgRole, Reject, fold
from agentscope_rx.agent import ApprovalRule
from agentscope_rx.agent.react.react_agent import NOT_RUN
from agentscope_rx.errors import (
    AgentShuttingDownError,
    CircuitOpenError,
    EmptyResponseError,
    HookError,
    InvalidInputError,
    ModelConnectionError,
    PendingCallsError,
    RunDeadlineError,
    StructuredOutputError,
    UsageLimitError,
)
from agentscope_rx.events import Event, MemoryEvent, PreCallEvent, event_from_json
from agentscope_rx.messages import ApprovalAnswer, ToolResultKind, ToolUseBlock, open_calls
from agentscope_rx.session import InMemorySession
from agentscope_rx.testing import ScriptedModel
from tests.support.assertions import assert_prompts_are_whole, results_in
from tests.support.scripts.hooks import BY_HOOK, BY_HOOK_N, HookFailed
from tests.support.scripts.ledger import META
from tests.support.scripts.parts import StoreDown
from tests.support.scripts.steps import Misfit

if TYPE_CHECKING:
    from tests.support.scripts.playing import Outcome
    from tests.support.scripts.world import World

NAME = "Friday"
LEAVES = (
    GenerateReason.REASONING_STOP_REQUESTED,
    GenerateReason.TOOL_SUSPENDED,
    GenerateReason.APPROVAL_REQUIRED,
)
ENDS = (
    GenerateReason.REASONING_STOP_REQUESTED,
    GenerateReason.MAX_ITERATIONS,
    GenerateReason.LIMIT_REACHED,
)
"""Why a reply may be words where an output was asked for."""
ONLY_SAID = LEAVES[1:]


@dataclass(frozen=True)
class State:
    """A conversation at rest."""

    messages: tuple[Msg, ...] = ()
    pending: frozenset[str] | None = None
    answers: Mapping[str, ApprovalAnswer] = field(default_factory=dict[str, ApprovalAnswer])
    rules: tuple[ApprovalRule, ...] = ()
    cut_off: tuple[Msg, ...] | None = None
    groups: tuple[str, ...] | None = None
    output_due: bool = False
    """True if the next run asks again for the output that this one was asked for."""

    @property
    def open(self) -> tuple[str, ...]:
        """The open calls of the agent's last message."""
        return tuple(call.id for call in open_calls(self.messages, NAME))

    @property
    def lost(self) -> frozenset[str]:
        """Those that were not left open on purpose: the next run closes them."""
        return frozenset(() if self.pending is None else set(self.open) - self.pending)


def check_error(world: World, outcome: Outcome) -> None:
    """A run fails with what the script made it fail with; input that does not fit is refused, and changes nothing."""
    step, error = outcome.step, outcome.error
    misfit = isinstance(step.given, Misfit)
    assert not (misfit and outcome.completed), "a misfit was taken"
    if isinstance(error, (InvalidInputError, PendingCallsError)):
        assert misfit or isinstance(error, PendingCallsError)
        assert [event.type for event in outcome.seen] == ["error"]
    if misfit or isinstance(error, PendingCallsError):
        assert outcome.after == outcome.before or step.meanwhile is not None, "a refused call has changed something"
    if error is None:
        return
    allowed: list[type[BaseException]] = [HookFailed, EmptyResponseError, ModelConnectionError, PendingCallsError]
    allowed += [InvalidInputError] if misfit else []
    allowed += [StoreDown] if world.faulty.failed else []
    allowed += [CircuitOpenError] if world.setup.around == "breaker" else []
    allowed += [UsageLimitError, RunDeadlineError] if step.limit is not None else []
    allowed += [StructuredOutputError] if step.output is not None or outcome.before.output_due else []
    # results for calls that another hook has dropped
    allowed += [HookError] if {"goto", "drop_calls"} <= {hook.what for hook in world.setup.hooks} else []
    # (the other one of two may have begun the shutdown)
    allowed += [AgentShuttingDownError]
    assert isinstance(error, tuple(allowed)) or type(error).__name__ == "ModelDown", repr(error)
    assert outcome.seen == [] or outcome.seen[-1].type == "error" or step.end.way == "cancel"


def check_memory(world: World, outcome: Outcome) -> None:
    """Every call has one result behind it, but for the pending ones, which the end of the run accounts for."""
    after = outcome.after
    assert_whole(after.messages, after.open)
    assert world.torn or not after.lost or not outcome.admitted, f"without a result: {after.lost}"
    assert not (outcome.completed and after.lost & outcome.before.lost), "not closed by the next run"
    pending = tuple(id for id in after.open if id not in after.lost)
    if after.pending is None:
        assert after == outcome.before or not pending
    else:
        assert after.pending == set(pending), f"pending {after.pending}, open {pending}"
    assert set(after.answers) <= set(pending)
    if not world.faulty.failed:
        check_traces(world, outcome)
    if not pending or set(pending) == set(outcome.before.open):
        # (a run that was not admitted leaves everything as it was)
        return
    if isinstance(outcome.error, AgentShuttingDownError) or (outcome.error is None and _cut_off(world, outcome)):
        return
    reply = outcome.reply
    if reply is None:
        # an intended end is not undone by what happens while its reply is on its way
        reply = next((world.ends[event.run_id] for event in outcome.seen if event.run_id in world.ends), None)
    if reply is None:
        reply = next(each for each in reversed(after.messages) if each.tool_calls)
    if reply.generate_reason is not GenerateReason.ACTING_STOP_REQUESTED:
        assert reply.generate_reason in LEAVES, f"left pending by {reply.generate_reason}"
        assert [call.id for call in reply.pending_calls] == list(pending)


def _cut_off(world: World, outcome: Outcome) -> bool:
    """True if a shutdown had cut the run off when its subscriber left: what is pending is for another process."""
    return world.shutdown.refuses and outcome.after.cut_off is not None


def check_traces(world: World, outcome: Outcome) -> None:
    """Of a request for an output memory keeps the reply alone: no call of the response tool, no answer in vain."""
    output, finish = outcome.step.output, world.setup.finish == "tool"
    new = own(world, outcome.after.messages[len(outcome.before.messages) :])
    if finish or (output is not None and output.mode == "tool"):
        # (where it is not the response tool, it is an unknown tool)
        replies = [message for message in new if message.generate_reason is GenerateReason.ACTING_STOP_REQUESTED]
        replied = {result.id for message in replies for result in message.tool_results}
        # (one that had been left open was no call of the response tool: this run has closed it)
        replied.update(outcome.before.open)
        for message in new:
            blocks = (*message.tool_calls, *message.tool_results)
            named = [block.name for block in blocks if block.id not in replied]
            assert "generate_response" not in named, f"a trace of the output: {message.content}"
    elif output is not None and not any(each.what == "goto" for each in world.setup.hooks):
        for message in new:
            if message.text.startswith('{"city"') and not message.tool_calls and not message.has_structured:
                last = output.text and message == new[-1]
                assert last or message.generate_reason in ENDS, f"an answer in vain: {message.text}"


def assert_whole(messages: Sequence[Msg], pending: Iterable[str]) -> None:
    """Each call of the agent has exactly one result, behind it, and is whole; nothing is there but in its place."""
    called: dict[str, int] = {}
    results = results_in(messages)
    for place, message in enumerate(messages):
        assert message.role is not MsgRole.SYSTEM and message.content, message
        for result in message.tool_results:
            assert result.kind is None or not result.kind.waits, f"a placeholder in memory: {result}"
            assert called.get(result.id, place) < place, f"a result of no call before it: {result}"
        if message.role is MsgRole.ASSISTANT and message.name == NAME:
            for call in message.tool_calls:
                assert call.id not in called
                called[call.id] = place
                assert call.raw is None or call.input_error is not None, f"partial arguments: {call}"
    assert set(results) == set(called) - set(pending), f"calls {list(called)}, results {list(results)}"


def own(world: World, messages: Iterable[Msg]) -> list[Msg]:
    """The messages without what others have put there."""
    return [message for message in messages if message.id not in world.foreign]


# --- one truth --------------------------------------------------------------------------------------------------------


def check_truth(world: World, outcome: Outcome) -> None:
    """Memory is what the events say; the reply is the last event's message, and what memory holds."""
    numbers = [event.seq for event in outcome.seen]
    if outcome.step.end.read == "coalesced":
        assert numbers == sorted(set(numbers))
    else:
        assert numbers == list(range(len(numbers))), "events are numbered without gaps"
    assert len({event.run_id for event in outcome.seen}) <= 1
    if world.torn or world.faulty.failed in ("replace", "delete"):
        # (what has been done half cannot be told)
        return
    before, after = own(world, outcome.before.messages), own(world, outcome.after.messages)
    said = derived(before, outcome.seen)
    assert derived(before, [event_from_json(event.to_json()) for event in outcome.seen]) == said
    if outcome.left:
        _check_left(outcome, before, said, after)
        return
    assert shapes(said) == shapes(after)
    assert said == after, "memory is not what the events say"
    reply = outcome.reply
    if reply is None:
        return
    assert fold(outcome.seen).message == reply
    if reply.generate_reason in ONLY_SAID:
        assert all(message.id != reply.id for message in after)
    elif reply.generate_reason is GenerateReason.ACTING_STOP_REQUESTED:
        assert reply in after
    else:
        assert after[-1] == reply


def derived(before: Sequence[Msg], events: Sequence[Event]) -> list[Msg]:
    """What memory must hold after these events of one run."""
    messages = list(before)
    for event in events:
        if isinstance(event, MemoryEvent):
            new = {message.id: message for message in event.replaced}
            messages = [new.get(message.id, message) for message in messages if message.id not in event.removed]
    return [*messages, *fold(events).history]


def _check_left(outcome: Outcome, before: Sequence[Msg], said: Sequence[Msg], after: Sequence[Msg]) -> None:
    """Writes without an event: the write that was under way, and the closing of what was open."""
    ids = [message.id for message in after]
    kept = [message.id for message in said if message.id in ids]
    assert [id for id in ids if id in kept] == kept, "order"
    input = {message.id for event in outcome.seen if isinstance(event, PreCallEvent) for message in event.input}
    traces = outcome.step.output is not None or any(message.has_structured for message in said)
    for message in said:
        if message.id not in ids and message.id not in input:
            named = [block.name for block in (*message.tool_calls, *message.tool_results)]
            assert "generate_response" in named or traces, f"told, and not remembered: {message}"
    assert ids[: len(before)] == [message.id for message in before]


def shapes(messages: Iterable[Msg]) -> list[tuple[object, ...]]:
    """Messages without ids and times."""
    return [(m.role, m.name, m.content, m.generate_reason, m.metadata) for m in messages]


# --- the ledger -------------------------------------------------------------------------------------------------------


def check_ledger(world: World, outcome: Outcome) -> None:
    """What the tools have done is what the history says, call by call."""
    ledger = world.ledger
    known: set[str] = set()
    for memory in world.memories:
        messages = memory.messages
        state = world.state(memory)
        pending, results = set(state.open), results_in(messages)
        for message in messages:
            if message.role is not MsgRole.ASSISTANT or message.name != NAME:
                continue
            for call in message.tool_calls:
                known.add(call.id)
                result = None if call.id in pending else results[call.id]
                _check_call(world, call, result, lost=call.id in state.lost)
    assert set(ledger.begun) <= known, f"done, and not in the history: {set(ledger.begun) - known}"
    _check_held(world, outcome)
    if outcome.completed:
        results = results_in(outcome.after.messages)
        for id, tool in ledger.tool.items():
            if tool == "stubborn" and id in results and id not in results_in(outcome.before.messages):
                assert results[id][0] is None or not ledger.begun[id], "cut off, although it is not interruptible"


def _check_held(world: World, outcome: Outcome) -> None:
    """Who decides some of the calls that wait leaves the others waiting."""
    given = outcome.given if isinstance(outcome.given, list) else []
    decided = {each.call_id for each in given if isinstance(each, Approve | Reject)}
    if not decided:
        return
    rules = {rule.tool for rule in outcome.after.rules}
    for call in open_calls(outcome.before.messages, NAME):
        if call.id not in decided and call.name not in rules:
            assert world.ledger.begun[call.id] == outcome.begun[call.id], f"{call.id} was to wait, and has run"


def _check_call(world: World, call: ToolUseBlock, result: tuple[str | None, str] | None, *, lost: bool) -> None:
    ledger = world.ledger
    begun, ended, suspended = ledger.begun[call.id], ledger.ended[call.id], ledger.suspended[call.id]
    assert ended <= 1, f"{call.id} has taken effect {ended} times"
    if begun and (call.name == "risky" or (call.name == "pay" and ledger.given[call.id] > 0)):
        allowed = call.id in ledger.approved or call.name in ledger.approved_tools
        assert allowed, f"{call.id} has run without approval"
    if begun > suspended:
        # (arguments may be edited after a suspension; a hook's are not remembered: they may hold secrets)
        allowed = {call.input.get("n", 0)}
        allowed |= {BY_HOOK_N} if any(each.what == "arguments" for each in world.setup.hooks) else set()
        assert ledger.given[call.id] in allowed, "run with other arguments than the history says"
    not_run = ended == 0 and begun == suspended
    if result is None:
        assert not_run or lost, f"{call.id} is pending, and has run"
        return
    kind, text = result
    if call.name == META and kind is None and world.setup.kit == "groups":
        assert text.startswith(("Active groups", "by somebody outside", BY_HOOK))
    elif kind is None:
        if text.startswith(("by somebody outside", BY_HOOK)):
            assert not_run, f"{call.id} was answered from outside, and has run"
        else:
            failures = 1 if call.name == "flaky" else 0
            assert ended == 1 and begun == 1 + suspended + failures, f"{call.id} has run {begun} times"
            assert text.startswith(ledger.said(call.id)), text
    elif kind is ToolResultKind.REJECTED:
        assert not_run, f"{call.id} was rejected, and has run"
    elif kind in (ToolResultKind.NOT_FOUND, ToolResultKind.INVALID_ARGUMENTS):
        assert begun == 0
    elif kind is ToolResultKind.TIMEOUT:
        assert call.name == "late" and ended == 0
    elif NOT_RUN in text:
        assert not_run, f"{call.id} was passed by, and has run"
    elif kind is ToolResultKind.FAILED and call.name == "broken":
        assert ended == 0
    else:
        assert kind in (ToolResultKind.INTERRUPTED, ToolResultKind.FAILED)


def check_prompts(model: object) -> None:
    """What the model was sent is what every provider takes."""
    assert isinstance(model, ScriptedModel)
    assert_prompts_are_whole(model, besides=("Monday",))
    for request in model.requests:
        for message in request.messages:
            assert all(result.kind is None or not result.kind.waits for result in message.tool_results)


# --- saved, and gone on with ------------------------------------------------------------------------------------------


async def check_saved(world: World, outcome: Outcome) -> None:
    """What a bound conversation is saved as is what it is."""
    refused = isinstance(outcome.error, AgentShuttingDownError) and outcome.error.run_id is None
    if not world.setup.bound or world.faulty.failed or refused:
        return
    key = ("ann", "bob")[outcome.step.conversation]
    memory = InMemoryMemory()
    twin = world.agent(memory)
    assert await twin.load(world.store, key), "nothing is saved"
    saved, after = world.state(memory, twin), outcome.after
    assert own(world, saved.messages) == own(world, after.messages)
    assert (saved.pending, saved.answers, saved.rules, saved.cut_off, saved.groups) == (
        after.pending, after.answers, after.rules, after.cut_off, after.groups,
    )  # fmt: skip


async def check_next(world: World, outcome: Outcome) -> None:
    """Saved and loaded, it is the same conversation, and the next call in it works."""
    session, memory = InMemorySession(), InMemoryMemory()
    await world.friday.save(session, "twin", memory=world.memories[outcome.step.conversation])
    twin = world.agent(memory)
    assert await twin.load(session, "twin")
    assert world.state(memory, twin) == outcome.after
    twin.model = ScriptedModel("Fine.", output_modes=["tool"])
    reply = await twin.call("And now?")
    assert reply.text == "Fine." and memory.messages[-1] == reply
    assert_whole(memory.messages, ())
    assert not twin.running
    check_prompts(twin.model)
