"""`Durability`: the checkpoints of one run and of the runs of its sub-agents, and the journal of their tools' effects.

    input remembered --checkpoint--> reasoning --checkpoint--> acting --checkpoint--> reasoning ... --> end: one save
                                                  |
                                                  begin stored --> the tool runs --> end stored --> the result is shown

A checkpoint that fails fails the run, as a save at the end does: nothing runs that a resume would not know of. A tool
that is `read_only` or `idempotent`, and a sub-agent, which has checkpoints of its own, is not in the journal, unless
the call has changed the state of a part: that is stored with its end. A checkpoint beside calls in progress has the
states of parts as the calls that have ended have left them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from hashlib import sha256
from typing import TYPE_CHECKING, Literal, TypeVar, cast

from pydantic_core import to_json

from agentscope_rx.agent.agent_parts import checked_parts
from agentscope_rx.agent.durable.journal import Effect, EffectJournal, begun_item
from agentscope_rx.agent.durable.saved_run import SavedInput, SavedInterruption, SavedRun, SavedUsage, Stage, digest_of
from agentscope_rx.agent.interruption import Cut
from agentscope_rx.agent.limits import Usage
from agentscope_rx.agent.persistence import collect, copy_of, save
from agentscope_rx.agent.run_state import RunState
from agentscope_rx.agent.saved_copy import SavedCopy
from agentscope_rx.agent.state_persistence import StatePersistence
from agentscope_rx.agent.structured_output.pending import PendingOutput, saved_output
from agentscope_rx.agent.structured_output.progress import saved_progress
from agentscope_rx.agent.structured_output.state import StructuredOutputState
from agentscope_rx.agent.sub_agent.child_tool import ChildTool
from agentscope_rx.messages import Msg, ToolResultBlock, ToolResultKind, ToolUseBlock
from agentscope_rx.reactive import Flow, concat, concat_map, defer, just, then
from agentscope_rx.tools import Tool
from agentscope_rx.tools.wrapper import innermost

if TYPE_CHECKING:
    from agentscope_rx.agent.run import Run

T = TypeVar("T")

LOST = "The process ended while this call ran. It is not known if it has had its effect."


class Durability:
    """What makes the run of a conversation, and the runs within it, survive their process."""

    __slots__ = ("_copy", "_journal", "_key", "_save")

    def __init__(self, run: Run, journal: EffectJournal, persistence: StatePersistence) -> None:
        conversation = run.conversation
        binding = conversation.binding
        self._journal = journal
        self._key = "" if binding is None else binding.key
        self._copy: SavedCopy | None = None
        self._save: Callable[[str, str], Flow[None]] | None = None
        if binding is not None and binding.checkpoint == "stage":
            self._copy = copy_of(conversation, binding)
            self._save = lambda stage, run_id: save(
                conversation, run.name, run.memory, persistence, binding, stage=stage, run=run_id
            )

    # --- checkpoints ----------------------------------------------------------------------------------------------

    def before(
        self,
        run: RunState,
        stage: Stage,
        following: Callable[[], Flow[T]],
        *,
        sent_back: bool = False,
        limit: str | None = None,
        reply: Msg | None = None,
    ) -> Flow[T]:
        """Save the run before its next stage, then `following()`; that at once if no checkpoints are made within runs.

        Signals: those of `following()`; a `SessionError`.
        Cancels: nothing: a save, once begun, runs to its end.
        """
        saving, current = self._save, cast("Run", run)
        if saving is None:
            return following()

        def checkpoint(history: object) -> Flow[None]:
            last = cast("list[Msg]", history)[-1].id if history else None
            # what calls have changed is settled: none is in progress
            current.conversation.settle(self._key, self._journal.ends)
            current.conversation.unfinished = saved_run(
                current, stage, last, sent_back=sent_back, limit=limit, reply=reply
            )
            return self._around(current).pipe(then(lambda: saving(stage, current.id)))

        return defer(lambda: current.history().pipe(concat_map(checkpoint), then(following)))

    def _around(self, run: Run) -> Flow[None]:
        """Collect the run and those around it, which have changed with it; the outermost is collected by the save."""
        assert self._copy is not None
        collected: list[Flow[None]] = []
        each: Run = run
        while True:
            conversation = each.conversation
            if conversation.unfinished is not None:
                conversation.unfinished["usage"] = saved_usage(each.usage)
            if each.toolkit.active_groups != each.groups:
                conversation.active_groups = each.toolkit.active_groups
            if each.parent is None:
                return concat(*collected, just(None))
            collected.append(_collected(each, self._copy.key))
            each = cast("Run", each.parent)

    # --- the journal ----------------------------------------------------------------------------------------------

    def records(self, tool: Tool) -> bool:
        """True if calls of this tool are written to the journal."""
        if self._copy is None or tool.read_only or tool.idempotent:
            return False
        return not isinstance(innermost(tool), ChildTool)

    def begin(self, run: RunState, call: ToolUseBlock) -> Flow[None]:
        """Store that the call begins; signals and cancels as `EffectJournal.begin`."""
        assert self._copy is not None
        path = path_of(run, call.id)
        item = begun_item(path, call.name, call.input, key_of(run, call), run.id)
        return self._journal.begin(self._copy, path, item)

    def end(self, run: RunState, call: ToolUseBlock, result: ToolResultBlock) -> Flow[None]:
        """Store the end of the call, if its beginning was stored, or if it has changed the state of a part.

        The state is stored with it: the call is not run again, and the change is not lost.

        Signals and cancels: as `EffectJournal.end`.
        """
        copy, journal, conversation = self._copy, self._journal, cast("Run", run).conversation
        if copy is None:
            return just(None)

        def end() -> Flow[None]:
            path = path_of(run, call.id)
            begun = begun_item(path, call.name, call.input, key_of(run, call), run.id)
            waits = result.kind is not None and result.kind.waits
            children = conversation.children
            # a sub-agent has parts of its own: those of this conversation have been changed by calls beside it
            other = children is not None and children.of_call(call.id) is not None
            if conversation.settled is None or waits or other:
                return journal.end(copy, path, result, begun)
            changed = conversation.settle(self._key, journal.ends)
            if changed:
                conversation.settled = conversation.settled._replace(at=journal.ends + 1)
            states = checked_parts({name: each for name, each in changed.items() if each is not None}, self._key)
            return journal.end(copy, path, result, begun, {name: states.get(name) for name in changed})

        return defer(end)

    def find(self, run: RunState, call: ToolUseBlock) -> Effect | None:
        """The call as an earlier process has left it in the journal, if it had begun there."""
        return self._journal.find(path_of(run, call.id))

    def answered(self, run: RunState, call_ids: Iterable[str]) -> None:
        """The caller has answered these calls: they are no longer in doubt."""
        for id in call_ids:
            self._journal.answer(path_of(run, id))

    def closing(self, run: RunState, call: ToolUseBlock) -> ToolResultBlock | None:
        """The result of a call that is closed: the recorded one, or one that reports its doubt; None for any other."""
        effect = self.find(run, call)
        if effect is None:
            return None
        if effect.result is not None:
            return effect.result
        return ToolResultBlock.error(call, ToolResultKind.INTERRUPTED, LOST)


def path_of(run: RunState, call_id: str) -> str:
    """The path of a call of the run: the ids of the calls around it, and its own."""
    return "/".join((*run.source.path[1::2], call_id))


def key_of(run: RunState, call: ToolUseBlock) -> str:
    """The idempotency key of a call: the same whenever this call runs again with these arguments, in any process."""
    outer = run
    while outer.parent is not None:
        outer = outer.parent
    where = cast("Run", outer).conversation.saved_as or outer.id
    return sha256(to_json([where, path_of(run, call.id), call.name, call.input])).hexdigest()[:32]


def _collected(run: Run, key: str) -> Flow[None]:
    """Keep what is to be saved of a sub-agent's run, under the key of the outermost."""

    def keep() -> Flow[None]:
        parent = cast("Run | None", run.parent)
        children = None if parent is None else parent.conversation.children
        child = None if children is None else children.of_call(run.source.path[-2])
        if child is None or child.conversation is None or child.memory is None:
            return just(None)
        found = collect(child.conversation, run.name, child.memory, key, deep=True)

        def put(value: object) -> None:
            child.checkpoint = value  # pyright: ignore[reportAttributeAccessIssue]

        return found.pipe(concat_map(put))

    return defer(keep)


def saved_usage(usage: Usage) -> SavedUsage:
    """What a run has used so far."""
    return {
        "model_calls": usage.model_calls,
        "model_retries": usage.model_retries,
        "tool_calls": usage.tool_calls,
        "tokens": usage.tokens,
        "cost": usage.cost,
    }


def saved_run(
    run: Run, stage: Stage, last: str | None, *, sent_back: bool, limit: str | None, reply: Msg | None
) -> SavedRun:
    """The run before this stage."""
    given = run.input.given
    before = run.resumed
    progress = run.extras.get("output")
    output = None if run.request is None else run.request.output
    return {
        "id": run.id,
        "stage": stage,
        "iteration": run.iteration,
        "sent_back": sent_back,
        "limit": limit,
        "goto_count": run.goto_count,
        "thinking": run.thinking,
        "released": run.options is not None,
        "usage": saved_usage(run.usage),
        "elapsed": run.scope.loop.time() - run.started,
        # a run that was resumed without input is resumed by the same input all the same
        "given": before["given"] if before is not None else digest_of(given),
        "input": before["input"] if before is not None else [message.id for message in run.input.messages],
        # the ends of jobs are saved with these
        "inbox": [_saved_input(list(each.messages), each.when) for each in tuple(run.inbox.items) if each.job is None],
        "last": last,
        "interruption": _saved_interruption(run),
        "output": None if output is None else saved_output(PendingOutput(output, frozenset())),
        "progress": saved_progress(progress) if isinstance(progress, StructuredOutputState) else None,
        "reply": reply,
    }


def _saved_input(messages: list[Msg], when: Literal["next_round", "idle"]) -> SavedInput:
    return {"messages": messages, "when": when}


def _saved_interruption(run: Run) -> SavedInterruption | None:
    interruption = run.interruption
    if not interruption.requested or interruption.cut is not Cut.REPLY:
        return None
    return {"source": interruption.source, "message": interruption.message}
