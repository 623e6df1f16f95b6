"""Sorts the calls of a batch: those that run now, those that are rejected, and those that wait for the caller.

| call                                                   | treatment                                    |
|--------------------------------------------------------|----------------------------------------------|
| had ended before its process did                       | gets the recorded result                     |
| had begun before its process ended, without an answer  | waits, runs again or fails: its tool's or    |
|                                                        | the agent's `in_doubt`                       |
| refused by a hook, with its edited arguments if any    | gets a result of kind `rejected`             |
| answered by `Approve`, or by a remembered one          | runs, with the edited arguments if any       |
| answered by `Reject`, or by a remembered one           | gets a result of kind `rejected`             |
| needs approval (a hook, a policy, its tool's mark)     | waits                                        |
| allowed by a hook or a policy (`False`)                | runs                                         |
| not answered, while the caller has answered others     | waits                                        |
| after one that waits, in a sequential toolkit          | waits                                        |
| of a sub-agent that has begun                          | continues, unless the caller has answered    |
|                                                        | others only                                  |
| anything else                                          | runs                                         |

The reply of a run with waiting calls pairs each with a placeholder result of kind `approval_required`, `suspended` or
`in_doubt`.
The reply is not remembered: the calls are in memory already, and open.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import filterfalse
from operator import attrgetter

from agentscope_rx.agent.durable.durability import LOST
from agentscope_rx.agent.durable.journal import Effect
from agentscope_rx.agent.react.asking import asks_for, hooks_approve, refusal_of
from agentscope_rx.agent.react.structured_output import output_of
from agentscope_rx.agent.run import Run
from agentscope_rx.agent.sub_agent.pending import placeholder_of
from agentscope_rx.events import Event, MemoryEvent
from agentscope_rx.messages import (
    ApprovalAnswer,
    Approve,
    GenerateReason,
    Msg,
    Reject,
    TextBlock,
    ToolResultBlock,
    ToolResultKind,
    ToolUseBlock,
)
from agentscope_rx.messages.blocks import IN_DOUBT
from agentscope_rx.reactive import Flow, concat_map, empty
from agentscope_rx.tools.base import InDoubt

NEEDS_APPROVAL = "This call waits for approval."
HELD = "This call has not begun: it waits for those before it, or for an answer."
IN_DOUBT_TEXT = "This call began at {at}, and its process ended. It is not known if it has had its effect."
REJECTED = "The call was rejected and has not run."
# (each round asks, and a comprehension is a call more)
_RESULT, _WAITS = attrgetter("result"), attrgetter("waits")


@dataclass(slots=True)
class BatchEntry:
    """One call of a batch: with a `result` if that is known without running it, with a placeholder if it `waits`.

    `began` is a time of the loop's clock; `queued` and `elapsed` are the seconds that it waited before, and ran.
    """

    call: ToolUseBlock
    approved: bool = False
    result: ToolResultBlock | None = None
    waits: ToolResultBlock | None = None
    began: float | None = None
    queued: float | None = None
    elapsed: float | None = None

    def wait(self, kind: ToolResultKind, text: str) -> None:
        """Do not run the call now."""
        self.waits = ToolResultBlock(self.call.id, self.call.name, (TextBlock(text),), kind)


@dataclass(slots=True)
class CallBatch:
    """The calls of one round, in call order; `edited` are those whose arguments the caller has changed.

    `started` is the time of the loop's clock at which the batch began. `stopped` is the result at which a hook has
    stopped the run. `guarded` is true if hooks of the run, or of those above it, may refuse calls or want approval.
    """

    entries: list[BatchEntry]
    sequential: bool
    edited: dict[str, ToolUseBlock] = field(default_factory=dict[str, ToolUseBlock])
    stopped: Msg | None = None
    started: float = 0.0
    guarded: bool = False

    @property
    def runs(self) -> list[BatchEntry]:
        """The entries that run."""
        return list(filterfalse(_RESULT, filterfalse(_WAITS, self.entries)))

    @property
    def settles(self) -> list[BatchEntry]:
        """The entries that get a result in this round, unless they are suspended."""
        return list(filterfalse(_WAITS, self.entries))

    @property
    def waiting(self) -> list[BatchEntry]:
        """The entries that stay pending."""
        return list(filter(_WAITS, self.entries))

    def held(self, entry: BatchEntry) -> bool:
        """True if the call must not begin: the calls run one after the other, and one before it waits."""
        if not self.sequential:
            return False
        before = self.entries[: self.entries.index(entry)]
        return any(each.waits is not None for each in before)


def sort_calls(run: Run, calls: Sequence[ToolUseBlock], in_doubt: InDoubt) -> CallBatch:
    """Sort the calls by the table above."""
    batch = CallBatch(list(map(BatchEntry, calls)), sequential=not run.toolkit.parallel)
    conversation = run.conversation
    # by the input of this run; an earlier answer, to a call that could not run yet, holds no other call back
    some_answered = bool(run.input.answered) and any(call.id in run.input.answered for call in calls)
    children, approvals = conversation.children, conversation.approvals
    batch.guarded = bool(run.hooks.refusing or run.hooks.approving) or run.parent is not None
    asking = batch.guarded or bool(run.extras)
    for entry in batch.entries:
        call = entry.call
        if batch.sequential and batch.held(entry):
            entry.wait(ToolResultKind.SUSPENDED, HELD)
            continue
        if children is not None and (child := children.of_call(call.id)) is not None:
            # it has begun, with its approval if needed: its sub-agent continues
            entry.approved = True
            if some_answered and not child.answered:
                entry.wait(ToolResultKind.SUSPENDED, HELD)
            continue
        answer = approvals.decision(call) if approvals.answers or approvals.rules else None
        effect = None if run.durable is None else run.durable.find(run, call)
        if effect is not None and (effect.result is not None or effect.in_doubt):
            answer = _settle_begun(run, entry, effect, in_doubt, answer)
            if entry.result is not None or entry.waits is not None:
                continue
        if batch.guarded and (refused := _refusal(run, _as_edited(call, answer))) is not None:
            entry.result = refused
            continue
        if isinstance(answer, Reject):
            entry.result = ToolResultBlock.error(call, ToolResultKind.REJECTED, answer.reason or REJECTED)
        elif isinstance(answer, Approve):
            entry.approved = True
            if answer.input is not None:
                entry.call = batch.edited[call.id] = _as_edited(call, answer)
        elif asks := asks_for(run, call) if asking else run.toolkit.asks(call, run.context):
            entry.wait(ToolResultKind.APPROVAL_REQUIRED, NEEDS_APPROVAL)
        elif some_answered and asks is None:
            entry.wait(ToolResultKind.SUSPENDED, HELD)
    return batch


def _settle_begun(
    run: Run, entry: BatchEntry, effect: Effect, in_doubt: InDoubt, answer: ApprovalAnswer | None
) -> ApprovalAnswer:
    """Decide about a call that an earlier process has begun; gives the answer that it runs by, if it is to run again.

    An approval from before it began lets it run again only if the policy does.
    """
    call = entry.call
    if effect.result is not None:
        entry.result = effect.result
        return Approve(call)
    tool = run.toolkit.get(call.name)
    policy = in_doubt if tool is None or tool.in_doubt is None else tool.in_doubt
    if tool is not None and (tool.read_only or tool.idempotent):
        policy = "run"
    if policy == "ask":
        entry.wait(ToolResultKind.IN_DOUBT, IN_DOUBT_TEXT.format(at=effect.begun["at"]))
    elif policy == "fail":
        entry.result = ToolResultBlock.error(call, ToolResultKind.INTERRUPTED, LOST)
    return answer if isinstance(answer, Approve) else Approve(call)


def _as_edited(call: ToolUseBlock, answer: ApprovalAnswer | None) -> ToolUseBlock:
    """The call with the arguments that the caller has given at its approval, if any."""
    return call if not isinstance(answer, Approve) or answer.input is None else call.with_input(answer.input)


def _refusal(run: Run, call: ToolUseBlock) -> ToolResultBlock | None:
    """The result of a call that a hook refuses."""
    text = refusal_of(run, call)
    return None if text is None else ToolResultBlock.error(call, ToolResultKind.REJECTED, text)


def stopped_by_now(run: Run, entry: BatchEntry) -> bool:
    """True if the hooks refuse the call as it begins, or want approval by now: `entry` has the result, or waits.

    A call before it, or a person, may have changed what the hooks say. A sub-agent that has begun continues.
    """
    children = run.conversation.children
    if children is not None and children.of_call(entry.call.id) is not None:
        return False
    entry.result = _refusal(run, entry.call)
    if entry.result is None and not entry.approved and hooks_approve(run) and asks_for(run, entry.call):
        entry.wait(ToolResultKind.APPROVAL_REQUIRED, NEEDS_APPROVAL)
    return entry.result is not None or entry.waits is not None


def take_hooked(run: Run, batch: CallBatch, entry: BatchEntry, call: ToolUseBlock) -> bool:
    """Take the call as the hooks have left it. False if it must not run now, as a changed call without approval."""
    changed = call.input != entry.call.input or call.name != entry.call.name
    entry.call = call
    if batch.held(entry):
        entry.wait(ToolResultKind.SUSPENDED, HELD)
    elif changed and batch.guarded and (refused := _refusal(run, call)) is not None:
        entry.result = refused
    elif changed and not entry.approved and asks_for(run, call):
        entry.wait(ToolResultKind.APPROVAL_REQUIRED, NEEDS_APPROVAL)
    return entry.waits is None and entry.result is None


def remember_edits(run: Run, batch: CallBatch) -> Flow[Event]:
    """Put the caller's arguments in the place of the model's in memory, so that the history holds the calls that ran.

    Signals: one `MemoryEvent`, if there are any.
    Cancels: nothing: the write, once begun, runs to its end.
    """

    def replace(history: Sequence[Msg]) -> Flow[Event]:
        for index in range(len(history) - 1, -1, -1):
            message = history[index]
            if any(call.id in batch.edited for call in message.tool_calls):
                content = tuple(
                    batch.edited.get(block.id, block) if isinstance(block, ToolUseBlock) else block
                    for block in message.content
                )
                changed = message.replace(content=content)
                event = MemoryEvent(source=run.source, replaced=(changed,))
                return run.write(event, run.memory.replace(changed))
        return empty()

    return run.history().pipe(concat_map(replace))


def waiting_reply(run: Run, waiting: Sequence[BatchEntry]) -> Msg:
    """The reply of a run with waiting calls: each with its placeholder."""
    output = output_of(run)
    if output is not None:
        # a call of the response tool does not wait for a later run
        waiting = [entry for entry in waiting if entry.call.id not in output.calls]
    pairs: list[ToolUseBlock | ToolResultBlock] = []
    for entry in waiting:
        pairs += _shown(run, entry)
    kinds = {block.kind for block in pairs if isinstance(block, ToolResultBlock)}
    asks = not kinds.isdisjoint((ToolResultKind.APPROVAL_REQUIRED, ToolResultKind.IN_DOUBT))
    reason = GenerateReason.APPROVAL_REQUIRED if asks else GenerateReason.TOOL_SUSPENDED
    return run.final(Msg.assistant(pairs, run.name), reason)


def _shown(run: Run, entry: BatchEntry) -> list[ToolUseBlock | ToolResultBlock]:
    """The call with its placeholder, and the calls of a sub-agent that it waits for."""
    assert entry.waits is not None
    children = run.conversation.children
    child = None if children is None else children.of_call(entry.call.id)
    if children is None or child is None or child.reply is None:
        call = entry.call
        if entry.waits.kind is ToolResultKind.IN_DOUBT:
            call = call.replace(metadata={**call.metadata, IN_DOUBT: True})
        return [call, entry.waits]
    inner = [block for pair in children.pairs(entry.call) for block in (pair.call, pair.placeholder)]
    return [entry.call, placeholder_of(entry.call, child.reply, child.results), *inner]
