"""Pending calls: what leaves them, and what each kind of input does to them. Nothing is lost by a refusal."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from itertools import product
from typing import Any, NamedTuple

import pytest
from reactivex import operators as ops

from agentscope_rx import (
    Approve,
    GenerateReason,
    Hook,
    InMemoryMemory,
    Msg,
    ReActAgent,
    Reject,
    Toolkit,
    ToolResultBlock,
    ToolUseBlock,
    hook,
    tool,
)
from agentscope_rx.errors import InvalidInputError, PendingCallsError, ToolSuspend
from agentscope_rx.events import (
    Event,
    PostActingEvent,
    PostCallEvent,
    PostReasoningEvent,
    PreActingEvent,
    PreCallEvent,
    PreReasoningEvent,
)
from agentscope_rx.messages import TextBlock, ToolResultKind
from agentscope_rx.models.options import ToolSchema
from agentscope_rx.testing import Delay, ScriptedModel, run_virtual
from tests.agent.parts import assert_whole, events_of, remembered, types
from tests.support.assertions import assert_one_truth, assert_prompts_are_whole, results_in

INTERRUPTED, REJECTED = ToolResultKind.INTERRUPTED, ToolResultKind.REJECTED


def use(name: str, call_id: str, /, **arguments: object) -> ToolUseBlock:
    return ToolUseBlock(call_id, name, arguments)


def given(id: str, text: str = "from outside") -> ToolResultBlock:
    return ToolResultBlock(id, "work", (TextBlock(text),))


class StopOnce(Hook):
    """Stops the run after its first answer."""

    stopped = False

    def on_event(self, event: Event) -> Event | None:
        if isinstance(event, PostReasoningEvent) and not self.stopped:
            self.stopped = True
            return event.stop()
        return None


class Setting:
    """An agent with the calls a and b of `work` pending, for one of four reasons."""

    def __init__(self, cause: str, *turns: Any, **options: Any) -> None:
        ran = self.ran = list[str]()
        suspended = set[str]()

        @tool(name="work", requires_approval=cause == "approval")
        async def work(id: str) -> str:
            """Works."""
            await asyncio.sleep(1)
            if cause == "suspended" and id not in suspended:
                suspended.add(id)
                raise ToolSuspend(f"wait for {id}")
            ran.append(id)
            return f"{id} done"

        toolkit = Toolkit()
        if cause == "external":
            schema = {"type": "object", "properties": {"id": {"type": "string"}}}
            toolkit.register_schema(ToolSchema("work", "", schema))
        else:
            toolkit.register(work)
        self.cause = cause
        self.model = ScriptedModel([use("work", "a", id="a"), use("work", "b", id="b")], *(turns or ("done",)))
        hooks = (StopOnce(),) if cause == "stop" else ()
        self.friday = ReActAgent("Friday", self.model, toolkit=toolkit, hooks=hooks, **options)

    @property
    def memory(self) -> list[Msg]:
        return list(remembered(self.friday))


CAUSES = {
    "stop": GenerateReason.REASONING_STOP_REQUESTED,
    "suspended": GenerateReason.TOOL_SUSPENDED,
    "external": GenerateReason.TOOL_SUSPENDED,
    "approval": GenerateReason.APPROVAL_REQUIRED,
}


class Row(NamedTuple):
    """An input, what it does to the calls, and True if the model is asked next."""

    input: Callable[[], Any]
    refused: str | None = None
    results: tuple[str, ...] = ()
    approved: tuple[str, ...] = ()
    runs: tuple[str, ...] = ()
    held: tuple[str, ...] = ()
    plain: bool = False


def tell(*blocks: Any) -> Msg:
    return Msg.user(blocks)


INPUTS = {
    "nothing": Row(lambda: None, runs=("a", "b")),
    "an empty list": Row(list, refused=r"answers none of the pending calls.*call\(\)"),
    "all results": Row(lambda: Msg.tool([given("a"), given("b")]), results=("a", "b")),
    "all results in two messages": Row(lambda: [Msg.tool(given("b")), Msg.tool(given("a"))], results=("b", "a")),
    "all results and text": Row(lambda: [Msg.tool([given("a"), given("b")]), Msg.user("go on")], results=("a", "b")),
    "all results and text in one": Row(lambda: tell(given("a"), given("b"), TextBlock("go on")), results=("a", "b")),
    "the first result": Row(lambda: Msg.tool(given("a")), results=("a",), runs=("b",)),
    "the last result": Row(lambda: Msg.tool(given("b")), results=("b",), runs=("a",)),
    "one result and text": Row(lambda: [Msg.tool(given("a")), Msg.user("and?")], refused="no results yet"),
    "one result and text in one": Row(lambda: tell(given("a"), TextBlock("and?")), refused="no results yet"),
    "an unknown id": Row(lambda: Msg.tool(given("c")), refused="'c'.*not pending.*'a', 'b'"),
    "a known and an unknown id": Row(lambda: Msg.tool([given("a"), given("c")]), refused="not pending"),
    "an id twice": Row(lambda: Msg.tool([given("a"), given("a")]), refused="More than one"),
    "an id twice in two messages": Row(
        lambda: [Msg.tool([given("a"), given("b")]), Msg.tool(given("a"))], refused="More than one"
    ),
    "a result and an approval of one call": Row(lambda: [Msg.tool(given("a")), Approve("a")], refused="More than one"),
    "an approval of an unknown id": Row(lambda: Approve("c"), refused="not pending"),
    "an approval and text": Row(lambda: [Approve("a"), Approve("b"), Msg.user("quick")], refused="no results yet"),
    "both approved": Row(lambda: [Approve("b"), Approve("a")], approved=("a", "b")),
    "one approved": Row(lambda: Approve("b"), approved=("b",), held=("a",)),
    "one approved, one result": Row(lambda: [Approve("b"), Msg.tool(given("a"))], results=("a",), approved=("b",)),
    "text": Row(lambda: "never mind", plain=True),
    "two messages": Row(lambda: [Msg("Bob", "hi"), Msg.user("never mind")], plain=True),
}


CASES = [
    (name, cause, mode)
    for name, cause, mode in product(INPUTS, CAUSES, ["recover", "error"])
    # the mode is about plain input; that it means nothing to any other is seen with one kind, and by random scripts
    if mode == "recover" or INPUTS[name].plain or cause == "approval"
]


@pytest.mark.spec("T3", "T4", "T5", "T6", "W44", "case 34", "case 35", "case 36", "case 37", "§22.10")
@pytest.mark.parametrize(("name", "cause", "mode"), CASES)
def test_every_input_to_every_kind_of_pending_call(name: str, cause: str, mode: str):
    """§5.3-5.4 with all their errors, §18 T3-T6, §22.3 cases 34-37, W44; §22.10: all do_call branches."""
    row = INPUTS[name]

    async def main() -> None:
        it = Setting(cause, pending=mode)
        friday, model = it.friday, it.model
        first = await friday.call("go")
        assert first.generate_reason is CAUSES[cause]
        assert [each.id for each in first.pending_calls] == ["a", "b"]
        assert_whole(friday, pending=["a", "b"])
        before, conversation = it.memory, friday.conversation()
        assert conversation.pending == {"a", "b"}

        refused = row.refused or ("a.*b" if row.plain and mode == "error" else None)
        if refused is not None:
            seen: list[Event] = []
            with pytest.raises(PendingCallsError if row.plain else InvalidInputError, match=refused):
                await friday.stream(row.input()).pipe(ops.do_action(seen.append))
            assert types(seen) == ["error"]
            assert_one_truth(seen, before, it.memory)
            assert it.memory == before and conversation.pending == {"a", "b"} and conversation.approvals.answers == {}
            assert len(model.requests) == 1 and it.ran == []
            seen = await events_of(friday, Msg.tool([given("b"), given("a")]))
            assert seen[-1].message.text == "done"
            assert_one_truth(seen, before, it.memory)
            assert_whole_in_any_order(it)
            return

        seen = await events_of(friday, row.input())
        assert_one_truth(seen, before, it.memory)
        said = results_in(it.memory)
        # what is run, or approved, of the calls that wait for the caller waits on
        waits = {"external": row.runs + row.approved, "approval": row.runs}.get(cause, ()) + row.held
        ran = [id for id in "ab" if id in row.runs + row.approved and id not in waits]
        assert sorted(it.ran) == ran
        expected = dict.fromkeys(row.results, (None, "from outside")) | {id: (None, f"{id} done") for id in ran}
        if row.plain:
            expected = {id: (INTERRUPTED, said[id][1]) for id in "ab"}
        assert said == expected
        reply = seen[-1].message
        assert [call.id for call in reply.pending_calls] == sorted(waits)
        assert conversation.pending == set(waits)
        if waits:
            reason = GenerateReason.APPROVAL_REQUIRED if cause == "approval" else GenerateReason.TOOL_SUSPENDED
            assert reply.generate_reason is reason
            assert len(model.requests) == 1
            reply = await friday.call([Msg.tool([given(id) for id in waits])])
        assert reply.text == "done" and conversation.pending == set()
        assert_prompts_are_whole(model)
        assert_whole_in_any_order(it)

    run_virtual(main())


def assert_whole_in_any_order(it: Setting) -> None:
    assert sorted(results_in(it.memory)) == ["a", "b"]
    assert_prompts_are_whole(it.model)


def test_results_without_pending_calls_are_refused():
    """§5.4; a result that answers nothing would break the next prompt."""

    async def main() -> None:
        friday = ReActAgent("Friday", ScriptedModel("hi", "again"))
        await friday.call("hello")
        before = list(remembered(friday))
        with pytest.raises(InvalidInputError, match=r"not pending\. Pending calls: \[\]"):
            await friday.call(Msg.tool(given("a")))
        with pytest.raises(InvalidInputError, match="not pending"):
            await friday.call(Reject("a"))
        assert list(remembered(friday)) == before
        assert (await friday.call()).text == "again"

    run_virtual(main())


def test_a_placeholder_is_no_result():
    """The reply of a suspended run handed back is a mistake, not an answer."""

    async def main() -> None:
        it = Setting("external")
        reply = await it.friday.call("go")
        before = it.memory
        for back in (reply, Msg.tool(reply.tool_results)):
            with pytest.raises(InvalidInputError, match="placeholder"):
                await it.friday.call(back)
        assert it.memory == before and it.friday.conversation().pending == {"a", "b"}

    run_virtual(main())


# --- whose calls they are -------------------------------------------------------------------------------------------


def theirs(*ids: str) -> Msg:
    return Msg.assistant([use("work", id, id=id) for id in ids], "Bob")


@pytest.mark.spec("W44")
@pytest.mark.parametrize("how", ["observed", "input", "loaded", "shared"])
def test_a_peers_open_calls_are_not_this_agents(how: str):
    """A peer's open call neither fails a plain call nor is run."""

    async def main() -> None:
        ran: list[str] = []

        @tool
        async def work(id: str) -> str:
            """Works."""
            ran.append(id)
            return "done"

        memory = InMemoryMemory([Msg.user("hi"), theirs("x")] if how == "loaded" else [])
        friday = ReActAgent("Friday", ScriptedModel("fine", "again"), tools=[work], memory=memory, pending="error")
        if how == "observed":
            await friday.observe(theirs("x"))
        if how == "shared":
            await memory.add([Msg.user("hi"), theirs("x")])
        assert (await friday.call([theirs("x")] if how == "input" else "and?")).text == "fine"
        assert (await friday.call()).text == "again"
        assert ran == [] and results_in(remembered(friday)) == {}

    run_virtual(main())


@pytest.mark.spec("W44")
@pytest.mark.parametrize("how", ["observed", "shared"])
@pytest.mark.parametrize("cause", CAUSES)
def test_what_is_said_meanwhile_does_not_hide_the_pending_calls(cause: str, how: str):
    """peers' messages, heard or in a shared memory, stand between the calls and their results."""

    async def main() -> None:
        it = Setting(cause)
        await it.friday.call("go")
        said = [theirs("x"), Msg("Bob", "I am here."), Msg.tool(given("x"), "Bob")]
        await (it.friday.observe(said) if how == "observed" else it.friday.memory.add(said))
        reply = await it.friday.call([Approve("a"), Approve("b")] if cause == "approval" else None)
        if cause == "external":
            reply = await it.friday.call(Msg.tool([given("a"), given("b")]))
        assert reply.text == "done"
        assert sorted(results_in(it.memory)) == ["a", "b", *(["x"] if how == "shared" else [])]
        assert_prompts_are_whole(it.model)

    run_virtual(main())


def test_a_result_that_the_user_wrote_to_memory_closes_its_call():
    async def main() -> None:
        it = Setting("stop")
        await it.friday.call("go")
        await it.friday.memory.add([Msg.tool(given("a"))])
        with pytest.raises(InvalidInputError, match="not pending"):
            await it.friday.call(Msg.tool(given("a")))
        assert (await it.friday.call()).text == "done"
        assert it.ran == ["b"] and results_in(it.memory)["a"] == (None, "from outside")

    run_virtual(main())


@pytest.mark.spec("W24", "W44")
def test_two_agents_on_one_memory_settle_their_own_calls():
    """Pending calls are the agent's own, the messages everybody's."""

    async def main() -> None:
        one = Setting("approval")
        memory = one.friday.memory
        other = ReActAgent("Bob", ScriptedModel("Bob here", "still here"), memory=memory, pending="error")
        await one.friday.call("go")
        assert (await other.call("What is going on?")).text == "Bob here"
        assert (await other.call()).text == "still here"
        assert one.friday.conversation().pending == {"a", "b"}
        assert (await one.friday.call([Approve("a"), Reject("b", "no")])).text == "done"
        assert results_in(one.memory) == {"a": (None, "a done"), "b": (REJECTED, "Error: no")}
        assert_prompts_are_whole(one.model)

    run_virtual(main())


def test_two_agents_of_one_name_keep_their_pending_calls_apart():
    """Pending state is explicit: what the history says of a name counts only for who does not know better."""

    async def main() -> None:
        one, two = Setting("approval"), Setting("approval")
        memory = InMemoryMemory()
        two.model.turns = (("two is done",),) * 3
        assert (await two.friday.call("hello", memory=memory)).text == "two is done"
        await one.friday.call("go", memory=memory)
        # its own last call has left nothing open
        assert (await two.friday.call("and?", memory=memory)).text == "two is done"
        assert one.friday.conversation(memory).pending == {"a", "b"}

    run_virtual(main())


@pytest.mark.spec("R11")
def test_a_loaded_history_says_what_is_pending():
    async def main() -> None:
        calls = Msg.assistant([use("work", "a", id="a"), use("work", "b", id="b")], "Friday")
        it = Setting("none", memory=InMemoryMemory([Msg.user("go"), calls, Msg.tool(given("a"))]))
        it.model.turns = (("done",),)
        assert (await it.friday.call()).text == "done"
        assert it.ran == ["b"]
        assert_whole(it.friday)

    run_virtual(main())


def test_older_open_calls_of_a_loaded_history_are_not_pending():
    """Only the last own message's calls can be run: the conversation has gone past the others."""

    async def main() -> None:
        calls = Msg.assistant([use("work", "a", id="a")], "Friday")
        it = Setting("none", memory=InMemoryMemory([Msg.user("go"), calls, Msg.assistant("Hm.", "Friday")]))
        it.model.turns = (("done",),)
        assert (await it.friday.call()).text == "done"
        assert it.ran == []

    run_virtual(main())


# --- hooks that add to the input ------------------------------------------------------------------------------------


@pytest.mark.spec("W42", "W45")
@pytest.mark.parametrize("cause", CAUSES)
def test_what_a_hook_adds_does_not_pass_the_pending_calls_by(cause: str):
    """A hook that brings something from elsewhere into each call neither closes the calls that the
    caller wants to be run nor gets the caller's answers refused."""

    @hook(PreCallEvent)
    def remind(event: PreCallEvent) -> PreCallEvent:
        return event.replace(input=(*event.input, Msg("notes", "It is Friday.")))

    async def main() -> None:
        it = Setting(cause, "done", "on")
        friday = ReActAgent(
            "Friday", it.model, toolkit=it.friday.toolkit, hooks=[*it.friday.hooks.all, remind], pending="error"
        )
        await friday.call("go")
        for given_ in {
            "approval": [Approve("a"), [Approve("b")]],
            "external": [Msg.tool(given("a")), Msg.tool(given("b"))],
        }.get(cause, [None]):
            before = list(remembered(friday))
            seen = await events_of(friday, given_)
            assert_one_truth(seen, before, remembered(friday))
        assert seen[-1].message.text == "done"
        said = results_in(remembered(friday))
        assert [said[id][0] for id in "ab"] == [None, None]
        assert_prompts_are_whole(it.model)
        assert (await friday.call("again")).text == "on"

    run_virtual(main())


@pytest.mark.spec("W42")
def test_a_hook_that_answers_the_calls_lets_plain_input_through():
    """Recovery as a hook looks at what is pending, matches ids, and leaves an approving `call()` alone."""

    @hook(PreCallEvent)
    def recover(event: PreCallEvent) -> PreCallEvent | None:
        if not event.pending or not event.input:
            return None
        results = [ToolResultBlock.error(call, REJECTED, "skipped") for call in event.pending]
        return event.replace(input=(Msg.tool(results), *event.input))

    async def main() -> None:
        it = Setting("stop", "one", [use("work", "c", id="c")], "two", pending="error")
        friday = ReActAgent("Friday", it.model, toolkit=it.friday.toolkit, hooks=[*it.friday.hooks.all, recover])
        await friday.call("go")
        # plain input: the hook's results, then the text
        assert (await friday.call("never mind")).text == "one"
        assert {id: kind for id, (kind, _) in results_in(remembered(friday)).items()} == {"a": REJECTED, "b": REJECTED}
        # older results in memory do not matter; nothing is pending, the hook does nothing
        assert (await friday.call("go")).text == "two"
        assert it.ran == ["c"]
        assert_whole(friday)

    run_virtual(main())


# --- stop -----------------------------------------------------------------------------------------------------------


@pytest.mark.spec("T3", "case 32", "case 33", "case 39", "case 40", "§5.5.8")
def test_stop_after_reasoning_returns_the_message_without_tools():
    """The stored message says the same as the returned one."""

    async def main() -> None:
        it = Setting("stop")
        seen = await events_of(it.friday, "go")
        reply = seen[-1].message
        assert [e.type for e in seen if "chunk" not in e.type] == [
            "pre_call", "pre_reasoning", "post_reasoning", "post_call",
        ]  # fmt: skip
        assert reply == it.memory[-1] and reply.tool_calls == reply.pending_calls
        assert len(it.model.requests) == 1 and it.ran == []
        before = it.memory
        seen = await events_of(it.friday)
        assert [e.type for e in seen if "chunk" not in e.type] == [
            "pre_call", "pre_acting", "pre_acting", "post_acting", "post_acting",
            "pre_reasoning", "post_reasoning", "post_call",
        ]  # fmt: skip
        assert_one_truth(seen, before, it.memory)
        assert_whole(it.friday)

    run_virtual(main())


@pytest.mark.spec("T3", "T4")
def test_given_results_get_no_acting_events_and_the_rest_does():
    async def main() -> None:
        it = Setting("stop")
        await it.friday.call("go")
        seen = await events_of(it.friday, Msg.tool(given("a")))
        assert [e.tool_use.id for e in seen if isinstance(e, PreActingEvent | PostActingEvent)] == ["b", "b"]
        it = Setting("stop")
        await it.friday.call("go")
        seen = await events_of(it.friday, Msg.tool([given("a"), given("b")]))
        assert [e.type for e in seen if "chunk" not in e.type] == [
            "pre_call", "pre_reasoning", "post_reasoning", "post_call",
        ]  # fmt: skip

    run_virtual(main())


@pytest.mark.spec("case 38")
def test_all_hooks_see_an_event_though_one_has_stopped_the_run():
    """Any stop wins, and no later hook is kept from the event."""
    seen: list[bool] = []

    @hook(PostReasoningEvent, priority=200)
    def later(event: PostReasoningEvent) -> None:
        seen.append(event.stop_requested)

    async def main() -> None:
        it = Setting("stop")
        friday = ReActAgent("Friday", it.model, toolkit=it.friday.toolkit, hooks=[later, *it.friday.hooks.all])
        assert (await friday.call("go")).generate_reason is GenerateReason.REASONING_STOP_REQUESTED
        assert seen == [True]

    run_virtual(main())


class StopAt(Hook):
    """Stops at the result of this call."""

    def __init__(self, id: str) -> None:
        self.id = id

    def on_event(self, event: Event) -> Event | None:
        return event.stop() if isinstance(event, PostActingEvent) and event.tool_use.id == self.id else None


@pytest.mark.spec("W32", "T5", "§22.10")
@pytest.mark.parametrize("parallel", [True, False])
@pytest.mark.parametrize("id", ["a", "b"])
def test_a_stop_at_any_result_wins_and_all_results_are_kept(id: str, parallel: bool):
    """A stop at the first of two tools is not lost to the second."""

    async def main() -> None:
        it = Setting("none")
        toolkit = Toolkit(it.friday.toolkit, parallel=parallel)
        friday = ReActAgent("Friday", it.model, toolkit=toolkit, hooks=[StopAt(id)])
        seen = await events_of(friday, "go")
        reply = seen[-1].message
        assert reply.generate_reason is GenerateReason.ACTING_STOP_REQUESTED
        assert [r.id for r in reply.tool_results] == [id] and not reply.pending_calls
        assert reply in list(remembered(friday))
        assert it.ran == ["a", "b"] and friday.conversation().pending == set()
        assert_one_truth(seen, (), remembered(friday))
        assert_whole(friday)
        assert (await friday.call()).text == "done"
        assert_prompts_are_whole(it.model)

    run_virtual(main())


def test_a_stop_at_a_result_leaves_what_waits_pending():
    """Stop beats suspend; the call that waits is not closed, and is there for the next call."""

    @tool(requires_approval=True)
    async def risky() -> str:
        """Needs a person."""
        return "risked"

    async def main() -> None:
        it = Setting("none")
        it.model.turns = ((use("risky", "r"), use("work", "a", id="a")), ("done",))
        friday = ReActAgent("Friday", it.model, toolkit=Toolkit([*it.friday.toolkit, risky]), hooks=[StopAt("a")])
        seen = await events_of(friday, "go")
        assert seen[-1].message.generate_reason is GenerateReason.ACTING_STOP_REQUESTED
        assert friday.conversation().pending == {"r"}
        assert_one_truth(seen, (), remembered(friday))
        reply = await friday.call()
        assert reply.generate_reason is GenerateReason.APPROVAL_REQUIRED
        assert [each.id for each in reply.pending_calls] == ["r"]
        assert (await friday.call(Approve("r"))).text == "done"
        assert_prompts_are_whole(it.model)

    run_virtual(main())


def test_a_stop_without_calls_is_an_end_like_any_other():
    async def main() -> None:
        friday = ReActAgent("Friday", ScriptedModel("half way", "done"), hooks=[StopOnce()])
        reply = await friday.call("go")
        assert reply.generate_reason is GenerateReason.REASONING_STOP_REQUESTED and not reply.pending_calls
        assert friday.conversation().pending == set()
        assert (await friday.call()).text == "done"

    run_virtual(main())


# --- goto_reasoning -------------------------------------------------------------------------------------------------


class SendBack(Hook):
    """Answers to the answers, in turn: a function of the event, or None."""

    def __init__(self, *answers: Callable[[PostReasoningEvent], PostReasoningEvent | None] | None) -> None:
        self.answers = list(answers)

    def on_event(self, event: Event) -> Event | None:
        if isinstance(event, PostReasoningEvent) and self.answers:
            answer = self.answers.pop(0)
            return answer(event) if answer is not None else None
        return None


@pytest.mark.spec("T11", "W36", "§22.10")
def test_goto_adds_its_messages_and_passes_the_limit_once():
    """At the limit of rounds a hook gets one more; the next answer is bounded again."""

    async def main() -> None:
        back = SendBack(lambda e: e.goto_reasoning("Are you sure?"))
        friday = ReActAgent("Friday", ScriptedModel("maybe", "yes"), hooks=[back], max_iters=1)
        seen = await events_of(friday, "go")
        assert seen[-1].message.text == "yes"
        assert [e.iteration for e in seen if isinstance(e, PreReasoningEvent)] == [0, 1]
        assert [m.text for m in remembered(friday)] == ["go", "maybe", "Are you sure?", "yes"]
        assert_one_truth(seen, (), remembered(friday))

        # sent back, the model calls a tool: its round is used up, so a summary follows
        it = Setting("none", "in short")
        it.model.turns = (("maybe",), (use("work", "a", id="a"),), ("in short",))
        back = SendBack(lambda e: e.goto_reasoning("Look again."))
        friday = ReActAgent("Friday", it.model, toolkit=it.friday.toolkit, hooks=[back], max_iters=1)
        reply = await friday.call("go")
        assert reply.generate_reason is GenerateReason.MAX_ITERATIONS and it.ran == ["a"]
        assert_whole(friday)

    run_virtual(main())


@pytest.mark.spec("W36")
def test_goto_is_bounded():
    async def main() -> None:
        class Always(Hook):
            def on_event(self, event: Event) -> Event | None:
                return event.goto_reasoning("more") if isinstance(event, PostReasoningEvent) else None

        model = ScriptedModel("no", repeat=True)
        friday = ReActAgent("Friday", model, hooks=[Always()], max_iters=3)
        assert (await friday.call("go")).generate_reason is GenerateReason.MAX_ITERATIONS
        # three sent back within the limit, one beyond it, and the summary
        assert len(model.requests) <= 2 * 3 + 1

    run_virtual(main())


@pytest.mark.spec("§5.5.8", "§22.10")
@pytest.mark.parametrize("order", ["stop first", "goto first"])
def test_stop_beats_goto(order: str):
    def both(event: PostReasoningEvent) -> PostReasoningEvent:
        results = Msg.tool([given("a"), given("b")])
        return event.stop().goto_reasoning(results) if order == "stop first" else event.goto_reasoning(results).stop()

    async def main() -> None:
        it = Setting("none")
        friday = ReActAgent("Friday", it.model, toolkit=it.friday.toolkit, hooks=[SendBack(both)])
        seen = await events_of(friday, "go")
        assert seen[-1].message.generate_reason is GenerateReason.REASONING_STOP_REQUESTED
        assert_one_truth(seen, (), remembered(friday))
        assert results_in(remembered(friday)) == {} and friday.conversation().pending == {"a", "b"}

    run_virtual(main())


@pytest.mark.spec("§22.10")
def test_goto_with_open_calls_brings_their_results():
    """Goto with results for open calls; without them the hook is told, and memory is whole."""

    async def main() -> None:
        it = Setting("none")
        back = SendBack(lambda e: e.goto_reasoning([Msg.tool([given("a"), given("b")]), Msg.user("Do not.")]))
        friday = ReActAgent("Friday", it.model, toolkit=it.friday.toolkit, hooks=[back])
        seen = await events_of(friday, "go")
        assert seen[-1].message.text == "done" and it.ran == []
        assert_one_truth(seen, (), remembered(friday))
        assert_whole(friday)
        assert_prompts_are_whole(it.model)

        it = Setting("none")
        back = SendBack(lambda e: e.goto_reasoning(Msg.tool(given("a"))))
        friday = ReActAgent("Friday", it.model, toolkit=it.friday.toolkit, hooks=[back])
        with pytest.raises(InvalidInputError, match="'b'"):
            await friday.call("go")
        assert_whole(friday)

    run_virtual(main())


# --- how a run ends that leaves calls pending -----------------------------------------------------------------------


class SlowEnd(Hook):
    """Takes a second at PostCall, for as many calls as told."""

    kinds = (PostCallEvent,)

    def __init__(self, times: int = 1) -> None:
        self.times = times

    async def _wait(self) -> None:
        await asyncio.sleep(1)

    def on_event(self, event: Event) -> Any:
        self.times -= 1
        return self._wait() if self.times >= 0 else None


@pytest.mark.spec("R5")
@pytest.mark.parametrize("way", ["dispose", "cancel", "interrupt", "fail", "leave"])
@pytest.mark.parametrize("cause", CAUSES)
def test_calls_stay_pending_however_the_reply_is_received(cause: str, way: str):
    """An intended end is not undone by what happens while its reply is on its way."""

    class Failing(Hook):
        kinds = (PostCallEvent,)
        times = 1

        def on_event(self, event: Event) -> None:
            self.times -= 1
            if self.times >= 0:
                raise RuntimeError("hook")

    async def main() -> None:
        it = Setting(cause)
        end = Failing() if way == "fail" else SlowEnd()
        friday = ReActAgent("Friday", it.model, toolkit=it.friday.toolkit, hooks=[*it.friday.hooks.all, end])
        if way == "fail":
            with pytest.raises(RuntimeError, match="hook"):
                await friday.call("go")
        elif way == "leave":
            async with friday.stream("go") as events:
                async for event in events:
                    if isinstance(event, PostCallEvent):
                        break
        else:
            task = friday.call("go").as_task()
            await asyncio.sleep(1.5 if cause == "suspended" else 0.5)
            if way == "interrupt":
                assert friday.interrupt("too late")
                assert [call.id for call in (await task).pending_calls] == ["a", "b"]
            else:
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
        await friday.idle()
        assert friday.conversation().pending == {"a", "b"}
        assert_whole(friday, pending=["a", "b"])
        assert (await friday.call(Msg.tool([given("a"), given("b")]))).text == "done"
        assert_prompts_are_whole(it.model)

    run_virtual(main())


@pytest.mark.spec("R5", "W43")
@pytest.mark.parametrize("way", ["dispose", "interrupt", "fail"])
def test_a_resumed_run_that_is_cut_off_closes_its_pending_calls(way: str):
    """From the moment the input is taken they are this run's to settle, like those of its own rounds."""

    async def main() -> None:
        it = Setting("stop", "done", "next")
        await it.friday.call("go")
        if way == "fail":

            class Failing(Hook):
                kinds = (PreActingEvent,)

                def on_event(self, event: Event) -> None:
                    raise RuntimeError("hook")

            friday = ReActAgent(
                "Friday", it.model, toolkit=it.friday.toolkit, hooks=[Failing()], memory=it.friday.memory
            )
            with pytest.raises(RuntimeError):
                await friday.call()
        else:
            friday = it.friday
            task = friday.call().as_task()
            await asyncio.sleep(0.5)
            if way == "interrupt":
                friday.interrupt()
                assert (await task).generate_reason is GenerateReason.INTERRUPTED
            else:
                task.cancel()
                await asyncio.wait([task])
        await friday.idle()
        kind = ToolResultKind.FAILED if way == "fail" else INTERRUPTED
        assert {k for k, _ in results_in(remembered(friday)).values()} == {kind}
        assert friday.conversation().pending == set() and it.ran == []
        assert_whole(friday)
        assert (await friday.call("and?")).text == "done"

    run_virtual(main())


def test_a_call_disposed_before_taking_its_input_loses_nothing():
    class Slow(Hook):
        kinds = (PreCallEvent,)

        async def _wait(self) -> None:
            await asyncio.sleep(1)

        def on_event(self, event: Event) -> Any:
            assert isinstance(event, PreCallEvent)
            return self._wait() if event.pending else None

    async def main() -> None:
        it = Setting("approval")
        friday = ReActAgent("Friday", it.model, toolkit=it.friday.toolkit, hooks=[Slow()])
        await friday.call("go")
        before = list(remembered(friday))
        for answers in ([Approve("a", remember="tool"), Approve("b")], "never mind", Msg.tool(given("a"))):
            task = friday.call(answers).as_task()
            await asyncio.sleep(0.5)
            task.cancel()
            await asyncio.wait([task])
            await friday.idle()
            conversation = friday.conversation()
            assert list(remembered(friday)) == before and conversation.pending == {"a", "b"}
            assert conversation.approvals.answers == {} and conversation.rules == ()
        assert (await friday.call([Approve("a"), Approve("b")])).text == "done"

    run_virtual(main())


@pytest.mark.spec("§5.3")
def test_the_count_of_rounds_begins_again_with_each_call():
    """Also when it resumes; the round that is resumed counts as the first."""

    async def main() -> None:
        it = Setting("stop", [use("work", "c", id="c")], "done", max_iters=3)
        await it.friday.call("go")
        seen = await events_of(it.friday)
        assert [(e.type, e.iteration) for e in seen if isinstance(e, PreActingEvent | PreReasoningEvent)] == [
            ("pre_acting", 0), ("pre_acting", 0), ("pre_reasoning", 1), ("pre_acting", 1), ("pre_reasoning", 2),
        ]  # fmt: skip
        assert seen[-1].message.text == "done"

        it = Setting("stop")
        await it.friday.call("go")
        seen = await events_of(it.friday, Msg.tool([given("a"), given("b")]))
        assert [e.iteration for e in seen if isinstance(e, PreReasoningEvent)] == [0]

    run_virtual(main())


def test_hooks_see_the_pending_calls_of_an_agent_that_answers():
    async def main() -> None:
        seen: list[tuple[str, ...]] = []

        @hook(PreCallEvent)
        def look(event: PreCallEvent) -> None:
            seen.append(tuple(call.id for call in event.pending))

        it = Setting("external")
        friday = ReActAgent("Friday", it.model, toolkit=it.friday.toolkit, hooks=[look])
        await friday.call("go")
        await friday.call(Msg.tool(given("b")))
        await friday.call(Msg.tool(given("a")))
        assert seen == [(), ("a", "b"), ("a",)]

    run_virtual(main())


def test_a_slow_model_is_not_asked_before_the_results_are_there():
    async def main() -> None:
        it = Setting("stop", [Delay(1), "done"])
        await it.friday.call("go")
        first, second = await asyncio.gather(
            it.friday.call(Msg.tool([given("a"), given("b")])), it.friday.call(), return_exceptions=True
        )
        assert getattr(first, "text", None) == "done"
        # the second call of the same conversation is refused, and takes no pending call away
        assert type(second).__name__ == "AgentBusyError" and it.ran == []

    run_virtual(main())
