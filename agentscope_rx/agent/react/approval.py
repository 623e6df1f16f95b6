"""Which calls of a batch run now, which are rejected, and which wait for the caller: for approval or for a result.

| call                                                   | so it                                        |
|--------------------------------------------------------|----------------------------------------------|
| answered by `Approve`, or by a remembered one          | runs, with the edited arguments if any       |
| answered by `Reject`, or by a remembered one           | gets a result of kind `rejected`             |
| needs approval (its tool's mark, the toolkit's policy) | waits                                        |
| not answered, while the caller has answered others     | waits                                        |
| behind one that waits, in a toolkit with calls in turn | waits                                        |
| asks a sub-agent that has begun                        | runs, from where that has come to, unless    |
|                                                        | the caller has answered others only          |
| anything else                                          | runs                                         |

The reply of a run whose calls wait pairs each with a placeholder result, of kind `approval_required` or `suspended`;
it is not remembered: the calls are in memory already, and open.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from agentscope_rx.agent.react.structured_output import asking_of
from agentscope_rx.agent.run import Run
from agentscope_rx.agent.sub_agent.pending import placeholder_of
from agentscope_rx.events import Event, MemoryEvent
from agentscope_rx.messages import (
    Approve,
    GenerateReason,
    Msg,
    Reject,
    TextBlock,
    ToolResultBlock,
    ToolResultKind,
    ToolUseBlock,
)
from agentscope_rx.reactive import Flow, concat_map, empty

if TYPE_CHECKING:
    from agentscope_rx.agent.react.react_agent import ReActAgent

NEEDS_APPROVAL = "This call waits for approval."
HELD = "This call has not begun: it waits for those before it, or for an answer."
REJECTED = "The call was rejected and has not run."


@dataclass(slots=True)
class BatchEntry:
    """One call of a batch: `result` if it is known without running it, `waits` (a placeholder) if it must not run.

    `began` is when it did, by the loop's clock; `queued` and `elapsed` how many seconds it waited before, and ran.
    """

    call: ToolUseBlock
    approved: bool = False
    result: ToolResultBlock | None = None
    waits: ToolResultBlock | None = None
    began: float | None = None
    queued: float | None = None
    elapsed: float | None = None

    def wait(self, kind: ToolResultKind, text: str) -> None:
        """Do not run it."""
        self.waits = ToolResultBlock(self.call.id, self.call.name, (TextBlock(text),), kind)


@dataclass(slots=True)
class CallBatch:
    """The calls of one round, in call order; `edited` are those whose arguments the caller has changed.

    `asked` is when they were asked for, all at once, by the loop's clock.
    """

    entries: list[BatchEntry]
    in_turn: bool
    edited: dict[str, ToolUseBlock] = field(default_factory=dict[str, ToolUseBlock])
    stopped: Msg | None = None
    asked: float = 0.0

    @property
    def runs(self) -> list[BatchEntry]:
        """Those that run."""
        return [entry for entry in self.entries if entry.waits is None and entry.result is None]

    @property
    def settles(self) -> list[BatchEntry]:
        """Those that get a result in this round, unless they are suspended."""
        return [entry for entry in self.entries if entry.waits is None]

    @property
    def waiting(self) -> list[BatchEntry]:
        """Those that stay pending."""
        return [entry for entry in self.entries if entry.waits is not None]

    def held(self, entry: BatchEntry) -> bool:
        """Whether the call must not begin, because calls run in turn and one before it waits."""
        if not self.in_turn:
            return False
        before = self.entries[: self.entries.index(entry)]
        return any(each.waits is not None for each in before)


def batch_of(agent: ReActAgent, run: Run, calls: Sequence[ToolUseBlock]) -> CallBatch:
    """The calls, sorted by the table above."""
    batch = CallBatch([BatchEntry(call) for call in calls], in_turn=not run.toolkit.parallel)
    conversation = run.conversation
    # (in this call: what was said before to one whose turn had not come holds nobody up)
    some_answered = bool(run.answered) and any(call.id in run.answered for call in calls)
    children = conversation.children
    for entry in batch.entries:
        call = entry.call
        if batch.held(entry):
            entry.wait(ToolResultKind.SUSPENDED, HELD)
            continue
        if children is not None and (child := children.of_call(call.id)) is not None:
            # begun, and approved if need be: its sub-agent goes on
            entry.approved = True
            if some_answered and not child.answered:
                entry.wait(ToolResultKind.SUSPENDED, HELD)
            continue
        answer = conversation.decided(call)
        if isinstance(answer, Reject):
            entry.result = ToolResultBlock.error(call, ToolResultKind.REJECTED, answer.reason or REJECTED)
        elif isinstance(answer, Approve):
            entry.approved = True
            if answer.input is not None:
                entry.call = batch.edited[call.id] = call.with_input(answer.input)
        elif _needs_approval(run, call):
            entry.wait(ToolResultKind.APPROVAL_REQUIRED, NEEDS_APPROVAL)
        elif some_answered:
            entry.wait(ToolResultKind.SUSPENDED, HELD)
    return batch


def _needs_approval(run: Run, call: ToolUseBlock) -> bool:
    """Nobody is asked whether the model may answer."""
    asking = asking_of(run)
    return not (asking is not None and asking.owns(call.name)) and run.toolkit.needs_approval(call, run.context)


def hooked(run: Run, batch: CallBatch, entry: BatchEntry, call: ToolUseBlock) -> bool:
    """Take the call as the hooks left it; False if they made something of it that nobody has approved."""
    changed = call.input != entry.call.input or call.name != entry.call.name
    entry.call = call
    if batch.held(entry):
        entry.wait(ToolResultKind.SUSPENDED, HELD)
    elif changed and not entry.approved and _needs_approval(run, call):
        entry.wait(ToolResultKind.APPROVAL_REQUIRED, NEEDS_APPROVAL)
    return entry.waits is None


def edited_in_memory(run: Run, batch: CallBatch) -> Flow[Event]:
    """The calls with the caller's arguments in the place of the model's, so that the history says what has run."""

    def replace(history: Sequence[Msg]) -> Flow[Event]:
        for index in range(len(history) - 1, -1, -1):
            message = history[index]
            if any(call.id in batch.edited for call in message.tool_calls):
                content = tuple(
                    batch.edited.get(block.id, block) if isinstance(block, ToolUseBlock) else block
                    for block in message.content
                )
                changed = message.replace(content=content)
                return _replaced(run, changed)
        return empty()

    return run.history().pipe(concat_map(replace))


def _replaced(run: Run, message: Msg) -> Flow[Event]:
    return run.wrote(MemoryEvent(source=run.source, replaced=(message,)), run.memory.replace(message))


def waiting_reply(run: Run, waiting: Sequence[BatchEntry]) -> Msg:
    """The reply of a run whose calls wait: each with its placeholder."""
    asking = asking_of(run)
    if asking is not None:
        # a response does not wait for a later run
        waiting = [entry for entry in waiting if entry.call.id not in asking.calls]
    pairs: list[ToolUseBlock | ToolResultBlock] = []
    for entry in waiting:
        pairs += _shown(run, entry)
    kinds = {block.kind for block in pairs if isinstance(block, ToolResultBlock)}
    asks = ToolResultKind.APPROVAL_REQUIRED in kinds
    reason = GenerateReason.APPROVAL_REQUIRED if asks else GenerateReason.TOOL_SUSPENDED
    return run.final(Msg.assistant(pairs, run.name), reason)


def _shown(run: Run, entry: BatchEntry) -> list[ToolUseBlock | ToolResultBlock]:
    """The call with its placeholder; if it waits for calls of a sub-agent, these as well."""
    assert entry.waits is not None
    children = run.conversation.children
    child = None if children is None else children.of_call(entry.call.id)
    if children is None or child is None or child.reply is None:
        return [entry.call, entry.waits]
    inner = [block for pair in children.pairs(entry.call) for block in (pair.call, pair.placeholder)]
    return [entry.call, placeholder_of(entry.call, child.reply, child.results), *inner]
