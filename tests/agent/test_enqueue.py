"""Input to a run in progress: when it is remembered, in which order, and where it is found if the run has ended."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest
from hypothesis import given, note, settings
from hypothesis import strategies as st
from reactivex import operators as ops

from agentscope_rx import (
    Approve,
    GenerateReason,
    Hook,
    InMemoryMemory,
    InMemorySession,
    Msg,
    ReActAgent,
    Toolkit,
    UsageLimits,
    UserAgent,
    fold,
    hook,
    tool,
)
from agentscope_rx.agent import StructuredOutput
from agentscope_rx.agent import inbox as inboxes
from agentscope_rx.errors import (
    AgentScopeError,
    HookError,
    InboxFullError,
    InvalidInputError,
    RunDeadlineError,
    RunEndedError,
)
from agentscope_rx.events import Event, InputEvent, PostCallEvent, PostReasoningEvent, PreReasoningEvent
from agentscope_rx.memory import Memory
from agentscope_rx.messages import ToolResultBlock, ToolUseBlock
from agentscope_rx.reactive import concat_map, just, then, timer
from agentscope_rx.testing import HANG, Delay, ScriptedModel, call, collect_dropped, run_virtual
from tests.agent.parts import agent, assert_whole, remembered, slow, types
from tests.support.scripts.parts import Remote


def said(friday: ReActAgent) -> list[str]:
    """What memory holds: texts, and `-` for calls and results."""
    return [message.text or "-" for message in remembered(friday)]


async def played(friday: ReActAgent, *inputs: tuple[Any, ...], **options: Any) -> tuple[list[Event], Any]:
    """The events of one run that gets these inputs: (moment, messages, when); and what of them was unread."""
    seen: list[Event] = []
    task = asyncio.ensure_future(_shown(friday, seen, options))
    await asyncio.sleep(0)
    (run,) = friday.runs
    begun = asyncio.get_running_loop().time()
    for moment, *given_ in inputs:
        await asyncio.sleep(begun + moment - asyncio.get_running_loop().time())
        friday.enqueue(*given_)
    try:
        await task
    except AgentScopeError as error:
        seen.append(error)  # type: ignore[arg-type]
    assert run.inbox.closed
    return seen, [message.text for message in run.inbox.unread]


async def _shown(friday: ReActAgent, seen: list[Event], options: dict[str, Any]) -> None:
    async for event in friday.stream("go", **options):
        seen.append(event)


def inputs_in(events: list[Event]) -> list[list[str]]:
    return [[message.text for message in event.input] for event in events if isinstance(event, InputEvent)]


# --- when it is taken -----------------------------------------------------------------------------------------------


def test_input_for_the_next_round_follows_the_results():
    async def main() -> None:
        friday = agent(ScriptedModel([call("slow", seconds=5), call("slow", seconds=3)], "fine"))
        events, unread = await played(friday, (1, "faster"), (4, [Msg.user("one"), Msg.user("two")]))
        assert said(friday) == ["go", "-", "-", "-", "faster", "one", "two", "fine"] and unread == []
        assert inputs_in(events) == [["faster"], ["one", "two"]]
        at = types(events).index("input")
        assert types(events)[at - 1 : at + 3] == ["post_acting", "input", "input", "pre_reasoning"]
        assert {event.iteration for event in events if isinstance(event, InputEvent)} == {1}
        assert friday.model.requests[-1].messages[-3:] == list(remembered(friday)[4:7])

    run_virtual(main())


def test_input_during_the_last_answer_makes_the_run_go_on():
    async def main() -> None:
        friday = agent(ScriptedModel([Delay(2), "first"], "second"))
        events, unread = await played(friday, (1, "wait"))
        assert said(friday) == ["go", "first", "wait", "second"] and unread == []
        assert events[-1].message.text == "second" and types(events).count("post_call") == 1

    run_virtual(main())


def test_idle_input_is_answered_one_at_a_time_at_the_end():
    async def main() -> None:
        turns = [call("slow", seconds=2), "main", [Delay(1), "one"], "two", "three"]
        friday = agent(ScriptedModel(*turns))
        later = ((1, "a", "idle"), (1, "b", "idle"), (1, "steer"), (2.5, "c"))
        events, unread = await played(friday, *later)
        # "next_round" passes "idle", which keeps its order
        assert said(friday) == ["go", "-", "-", "steer", "main", "a", "one", "c", "two", "b", "three"]
        whens = [event.when for event in events if isinstance(event, InputEvent)]
        assert whens == ["next_round", "idle", "next_round", "idle"]
        assert unread == [] and fold(events).history == tuple(remembered(friday))

    run_virtual(main())


def test_early_input_follows_the_input_of_the_call():
    async def main() -> None:
        async def late(event: Event) -> None:
            await asyncio.sleep(2)

        friday = agent(ScriptedModel("x"), hooks=[hook(PreReasoningEvent)(lambda e: None), Slow("pre_call")])
        events, _ = await played(friday, (1, "and this"))
        assert said(friday) == ["go", "and this", "x"]
        assert types(events)[:3] == ["pre_call", "input", "pre_reasoning"]

    run_virtual(main())


class Slow(Hook):
    """Takes two seconds for events of this type."""

    def __init__(self, *kinds: str) -> None:
        self.names = kinds

    def on_event(self, event: Event) -> Any:
        return asyncio.sleep(2) if event.type in self.names else None


def test_input_that_comes_during_a_slow_hook_is_taken_too():
    async def main() -> None:
        friday = agent(ScriptedModel(call("slow", seconds=1), "x"), hooks=[Slow("input")])
        await played(friday, (0.5, "one"), (2, "two"), (4, "three"))
        assert said(friday) == ["go", "-", "-", "one", "two", "three", "x"]

    run_virtual(main())


@pytest.mark.parametrize("name", ["thinking", "goto", "direct", "finish tool", "finish text"])
def test_wherever_a_round_follows_or_the_run_would_end(name: str):
    @tool(return_direct=True)
    async def direct() -> str:
        """Is the reply."""
        await asyncio.sleep(2)
        return "direct"

    @hook(PostReasoningEvent)
    def again(event: PostReasoningEvent):
        return event.goto_reasoning("check") if event.iteration == 0 else None

    async def main() -> None:
        from agentscope_rx.messages import ThinkingBlock

        options: dict[str, Any] = {}
        turns: list[Any] = [[Delay(2), "mid"], "end"]
        expected = ["go", "mid", "in", "end"]
        if name == "thinking":
            turns[0] = [Delay(2), ThinkingBlock("hm")]
            expected[1] = "-"
        elif name == "goto":
            options, expected = {"hooks": [again]}, ["go", "mid", "check", "in", "end"]
        elif name == "direct":
            turns[0], options, expected = call("direct"), {"tools": [direct]}, ["go", "-", "-", "direct", "in", "end"]
        elif name == "finish tool":
            answer = call("generate_response", response="mid")
            turns, options = [[Delay(2), answer], call("generate_response", response="end")], {"finish": "tool"}
        elif name == "finish text":
            options = {"finish": "tool"}
        friday = agent(ScriptedModel(*turns), **options)
        events, unread = await played(friday, (1, "in"))
        assert said(friday) == expected and unread == [] and events[-1].message.text == "end"
        assert fold(events).history == tuple(remembered(friday))
        assert_whole(friday)

    run_virtual(main())


# --- where it is not taken ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("when", ["next_round", "idle"])
@pytest.mark.parametrize(
    "name", ["max_iters", "limit", "stop", "approval", "failure", "interrupt", "deadline", "output", "summary", "hook"]
)
def test_input_that_the_run_cannot_take_is_unread(name: str, when: Any):
    @tool(requires_approval=True)
    async def risky() -> str:
        """Needs a person."""
        return "x"

    async def main() -> None:
        options: dict[str, Any] = {}
        call_options: dict[str, Any] = {}
        turns: list[Any] = [[Delay(2), "mid"], "end"]
        reason = GenerateReason.MODEL_STOP
        if name == "max_iters":
            options = {"max_iters": 1}
        elif name == "limit":
            call_options = {"limits": UsageLimits(model_calls=1)}
        elif name == "stop":
            options = {"hooks": [hook(PostReasoningEvent)(lambda e: e.stop())]}
            reason = GenerateReason.REASONING_STOP_REQUESTED
        elif name == "approval":
            turns[0], options["tools"] = [Delay(2), call("risky")], [risky]
            reason = GenerateReason.APPROVAL_REQUIRED
        elif name == "failure":
            turns[0] = [Delay(2), AgentScopeError("no")]
        elif name == "interrupt":
            turns[0] = HANG
            reason = GenerateReason.INTERRUPTED
        elif name == "deadline":
            turns[0], call_options = HANG, {"limits": UsageLimits(deadline=2)}
        elif name == "output":
            turns = [[Delay(2), call("generate_response", response=1)]]
            call_options, reason = {"output": int}, GenerateReason.STRUCTURED_OUTPUT
        elif name == "summary":
            turns, options = [call("slow", seconds=2), [Delay(1), "sum"]], {"max_iters": 1}
            reason = GenerateReason.MAX_ITERATIONS
        elif name == "hook":
            turns, options = [call("slow", seconds=2), "end", "end"], {"hooks": [hook(InputEvent)(lambda e: 1 / 0)]}
        friday = agent(ScriptedModel(*turns), **options)
        playing = asyncio.ensure_future(played(friday, (1, "in", when), **call_options))
        if name == "interrupt":
            await asyncio.sleep(1.5)
            friday.interrupt()
        if name == "hook":
            with pytest.raises(ZeroDivisionError):
                await playing
            assert "in" not in said(friday)
            return
        events, unread = await playing
        assert unread == ["in"] and "in" not in said(friday) and "input" not in types(
            [event for event in events if isinstance(event, Event)]
        )  # fmt: skip
        if isinstance(events[-1], AgentScopeError):
            assert name in ("failure", "deadline") and (name != "deadline" or isinstance(events[-1], RunDeadlineError))
        else:
            assert events[-1].message.generate_reason is reason

    run_virtual(main())


def test_input_is_unread_and_refused_after_a_disposal():
    async def main() -> None:
        friday = agent(ScriptedModel([call("slow", seconds=30)], "x"))
        running = friday.stream("go").subscribe(lambda event: None)
        await asyncio.sleep(1)
        (run,) = friday.runs
        friday.enqueue("in")
        running.dispose()
        with pytest.raises(RunEndedError, match="call"):
            run.inbox.put("late")
        await friday.idle()
        assert [message.text for message in run.inbox.unread] == ["in"]
        assert_whole(friday)

    run_virtual(main())


def test_input_is_refused_from_post_call_on():
    async def main() -> None:
        refused: list[RunEndedError] = []

        @hook(PostCallEvent)
        def steer(event: PostCallEvent) -> None:
            with pytest.raises(RunEndedError) as caught:
                friday.enqueue("too late")
            refused.append(caught.value)

        friday = agent(ScriptedModel("x"), hooks=[steer])
        await friday.call("go")
        assert refused[0].agent == "Friday" and "call(...)" in str(refused[0])
        with pytest.raises(RunEndedError) as caught:
            friday.enqueue("too late")
        assert caught.value.run_id is None
        assert said(friday) == ["go", "x"]

    run_virtual(main())


def test_an_input_whose_write_is_under_way_is_not_unread():
    async def main(moment: float) -> None:
        memory = Remote()
        friday = agent(ScriptedModel([Delay(1), "a"], "b"), memory=memory)
        running = friday.stream("go").subscribe(lambda event: None)
        await asyncio.sleep(0.5)
        (run,) = friday.runs
        friday.enqueue("in")
        await asyncio.sleep(moment)
        running.dispose()
        await friday.idle()
        inside = "in" in [message.text for message in await memory.get()]
        assert [message.text for message in run.inbox.unread] == ([] if inside else ["in"])

    for step in range(40):
        run_virtual(main(step * 0.1))


def test_an_interruption_wins_over_input_that_is_due():
    async def main() -> None:
        friday = agent(ScriptedModel([Delay(1), "x"]), hooks=[Slow("input")])
        playing = asyncio.ensure_future(played(friday, (0.5, "one"), (0.6, "two")))
        await asyncio.sleep(2)
        friday.interrupt("Stop.")
        _, unread = await playing
        assert said(friday) == ["go", "x", "one", "Stop."] and unread == ["two"]

    run_virtual(main())


def test_an_agent_without_rounds_leaves_it_unread():
    async def main() -> None:
        async def ask(question: object) -> str:
            await asyncio.sleep(1)
            return "me"

        ann = UserAgent("Ann", ask)
        task = ann.call("who?").as_task()
        await asyncio.sleep(0.5)
        (run,) = ann.runs
        ann.enqueue("in")
        assert (await task).text == "me" and [message.text for message in run.inbox.unread] == ["in"]

    run_virtual(main())


# --- who may, what, and where ---------------------------------------------------------------------------------------


class _Unlike:
    """Nothing that can be enqueued."""


@pytest.mark.parametrize(
    "given",
    [None, [], 3, _Unlike(), Approve("x"), [Msg.user("a"), Approve("x")], Msg.system("x"),
     Msg.assistant([ToolUseBlock("c", "slow")]), Msg.tool([ToolResultBlock("c", "slow")])],
    ids=["none", "empty", "number", "object", "answer", "answers", "system", "calls", "results"],
)  # fmt: skip
def test_only_messages_can_be_enqueued(given: Any):
    async def main() -> None:
        friday = agent(ScriptedModel([Delay(1), "x"]))
        task = friday.call("go").as_task()
        await asyncio.sleep(0.5)
        with pytest.raises(InvalidInputError):
            friday.enqueue(given)
        with pytest.raises(InvalidInputError, match="'next_round' or 'idle'"):
            friday.enqueue("x", "soon")  # type: ignore[arg-type]
        await task
        assert said(friday) == ["go", "x"]

    run_virtual(main())


def test_an_inbox_has_a_bound(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(inboxes, "MAX_INPUTS", 2)

    async def main() -> None:
        friday = agent(ScriptedModel([Delay(1), "x"], "y"))
        task = friday.call("go").as_task()
        await asyncio.sleep(0.5)
        friday.enqueue("1")
        friday.enqueue("2")
        with pytest.raises(InboxFullError, match="2 inputs"):
            friday.enqueue("3")
        assert (await task).text == "y" and said(friday) == ["go", "x", "1", "2", "y"]

    run_virtual(main())


def test_the_run_is_named_by_conversation_or_id():
    async def main() -> None:
        friday = agent(ScriptedModel(*[[Delay(2), "x"]] * 3, *["y"] * 3), check_running=False)
        other = InMemoryMemory()
        tasks = [friday.call("go", memory=memory).as_task() for memory in (None, None, other)]
        await asyncio.sleep(1)
        with pytest.raises(InvalidInputError, match="run_id="):
            friday.enqueue("which?")
        first = friday.conversation().entered[0]
        friday.enqueue("by id", run_id=first.id)
        friday.enqueue("there", memory=other)
        with pytest.raises(RunEndedError):
            friday.enqueue("x", run_id=first.id, memory=other)
        with pytest.raises(RunEndedError):
            friday.enqueue("x", memory=InMemoryMemory())
        await asyncio.wait(tasks)
        assert "there" in [message.text for message in other.messages]
        assert said(friday).count("by id") == 1 and "there" not in said(friday)

    run_virtual(main())


def test_a_sub_agents_run_has_an_inbox_of_its_own():
    async def main() -> None:
        inner = agent(ScriptedModel([Delay(2), "a"], "b"), tools=None)
        outer = ReActAgent("Boss", ScriptedModel(call("call_friday", message="do"), "done"), tools=[inner.as_tool()])
        events, _ = await played(outer, (1, "for the boss"))
        assert [(event.agent, event.type) for event in events if event.type == "input"] == [("Boss", "input")]
        outer.model = ScriptedModel(call("call_friday", message="do"), "done")
        inner.model = ScriptedModel([Delay(2), "a"], "b")
        task = asyncio.ensure_future(played(outer, (0, "x")))
        await asyncio.sleep(1)
        (run,) = inner.runs
        inner.enqueue("for Friday", run_id=run.id)
        events, _ = await task
        (nested,) = [event for event in events if event.type == "input" and event.depth]
        assert nested.agent == "Friday" and nested.input[0].text == "for Friday"
        result = next(m for m in reversed(remembered(outer)) if m.tool_results)
        assert result.tool_results[0].text.endswith("b")

    run_virtual(main())


def test_the_outer_agent_finds_the_run_of_a_sub_agent():
    async def main() -> None:
        inner = agent(ScriptedModel([Delay(2), "a"], "b"), tools=None)
        outer = ReActAgent("Boss", ScriptedModel(call("call_friday", message="do"), "done"), tools=[inner.as_tool()])
        task = asyncio.ensure_future(played(outer, (0, "x")))
        await asyncio.sleep(1)
        outer.enqueue("for Friday", run_id=inner.runs[0].id)
        events, _ = await task
        assert [(event.agent, event.depth) for event in events if event.type == "input"] == [("Friday", 1), ("Boss", 0)]

    run_virtual(main())


def test_a_structured_output_takes_input_between_its_rounds():
    async def main(mode: str) -> None:
        answer: Any = call("generate_response", response=7) if mode == "tool" else [Delay(1), '{"response": 7}']
        friday = agent(ScriptedModel(call("slow", seconds=2), answer))
        options = {"output": StructuredOutput(int, mode=mode)}
        events, unread = await played(friday, (1, "in"), (1, "later", "idle"), **options)
        assert events[-1].message.structured(int) == 7 and unread == ["later"]
        assert "in" in said(friday) and inputs_in(events) == [["in"]]
        assert fold(events).history == tuple(remembered(friday))

    for mode in ("tool", "prompted"):
        run_virtual(main(mode))


def test_hooks_may_change_an_input_or_make_it_empty():
    class Polite(ReActAgent):
        def on_input(self, event: InputEvent) -> Any:
            if "secret" in event.input[0].text:
                return event.replace(input=())
            return event.replace(input=[Msg.user(f"{event.input[0].text}, please")])

    class Watching(Hook):
        seen: list[str] = []

        def on_input(self, event: InputEvent) -> None:
            self.seen.extend(message.text for message in event.input)

    async def main() -> None:
        friday = Polite("Friday", ScriptedModel(call("slow", seconds=3), "x"), tools=[slow], hooks=[Watching()])
        events, unread = await played(friday, (1, "hurry"), (2, "a secret"))
        assert said(friday) == ["go", "-", "-", "hurry, please", "x"] and unread == []
        assert inputs_in(events) == [["hurry, please"], []] and Watching.seen == ["hurry, please"]
        assert fold(events).history == tuple(remembered(friday))

    run_virtual(main())


@pytest.mark.parametrize(
    ("made", "error"),
    [
        (lambda: Msg.system("x"), HookError),
        (lambda: Msg.tool([ToolResultBlock("c", "slow")]), InvalidInputError),
        (lambda: "text", HookError),
    ],
)
def test_a_hook_cannot_make_it_what_a_caller_may_not_give(made: Any, error: type[Exception]):
    async def main() -> None:
        change = hook(InputEvent)(lambda event: event.replace(input=(made(),)))
        friday = agent(ScriptedModel([Delay(1), "x"], "y"), hooks=[change])
        task = friday.call("go").as_task()
        await asyncio.sleep(0.5)
        (run,) = friday.runs
        friday.enqueue("in")
        with pytest.raises(error):
            await task
        assert [message.text for message in run.inbox.unread] == ["in"] and said(friday) == ["go", "x"]

    run_virtual(main())


def test_a_bound_conversation_is_saved_with_its_input():
    async def main() -> None:
        session = InMemorySession()
        friday = agent(ScriptedModel([Delay(1), "x"], "y"))
        await friday.bind(session, "s")
        await played(friday, (0.5, "in"))
        other = agent(ScriptedModel("z"))
        assert await other.load(session, "s")
        assert said(other) == ["go", "x", "in", "y"]
        await friday.observe("heard")
        assert said(friday)[-1] == "heard"

    run_virtual(main())


def test_a_save_in_progress_is_no_run_that_takes_input():
    class Slowly(InMemorySession):
        def save_all(self, *args: Any, **options: Any) -> Any:
            return timer(2.0).pipe(then(lambda: super(Slowly, self).save_all(*args, **options)))

    async def main() -> None:
        friday = agent(ScriptedModel("x"), when_busy="queue")
        saving = friday.save(Slowly(), "s").as_task()
        await asyncio.sleep(1)
        assert friday.running
        with pytest.raises(RunEndedError):
            friday.enqueue("in")
        waiting = friday.call("go").as_task()
        await asyncio.sleep(0)
        friday.enqueue("in", run_id=friday.entered[-1].id)
        await saving
        assert (await waiting).text == "x" and said(friday) == ["go", "in", "x"]

    run_virtual(main())


def test_from_many_threads_nothing_is_lost():
    async def main() -> None:
        friday = agent(ScriptedModel(call("slow", seconds=0.05), *["x"] * 300), max_iters=300)
        task = friday.call("go").as_task()
        await asyncio.sleep(0)
        (run,) = friday.runs
        taken: list[str] = []

        def work(n: int) -> None:
            for i in range(50):
                try:
                    run.inbox.put(f"{n}:{i}", "next_round" if i % 2 else "idle")
                    taken.append(f"{n}:{i}")
                except InboxFullError:
                    continue
                except RunEndedError:
                    return

        threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
        for thread in threads:
            thread.start()
        await task
        for thread in threads:
            thread.join(10)
        unread = [message.text for message in run.inbox.unread]
        there = [text for text in said(friday) if ":" in text]
        assert sorted(there + unread) == sorted(taken)
        for n in range(4):
            for odd in (0, 1):
                own = [int(i) for who, i in (text.split(":") for text in there) if int(who) == n and int(i) % 2 == odd]
                assert own == sorted(own)

    asyncio.run(main())


# --- however it ends ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("memory", [InMemoryMemory, Remote])
@pytest.mark.parametrize("way", ["dispose", "raise", "interrupt", "slow"])
def test_ended_from_inside_every_event_with_input_waiting(way: str, memory: type[Memory]):
    """What memory has is not unread, and the other way round; the next call works."""

    def steered() -> ReActAgent:
        turns = [[call("slow", seconds=1), call("slow", seconds=2)], "mid", "end", "more"]
        return agent(ScriptedModel(*turns), memory=memory(), hooks=[Slow("input")])

    async def main(index: int) -> int:
        friday = steered()
        seen: list[Event] = []
        held: list[Any] = []
        over = asyncio.Event()

        def act(event: Event) -> None:
            seen.append(event)
            if event.type == "pre_call":
                for given_, when in (("a", "next_round"), ("b", "idle"), ("c", "next_round")):
                    friday.enqueue(given_, when)  # type: ignore[arg-type]
            if len(seen) != index + 1:
                return
            if way == "dispose":
                held[0].dispose()
            elif way == "interrupt":
                friday.interrupt()
            over.set()
            if way == "raise":
                raise RuntimeError("a subscriber's own")

        events = friday.stream("go")
        if way == "slow":
            events = events.pipe(concat_map(lambda event: timer(1.0).pipe(then(lambda: just(event)))))
        held.append(events.subscribe(act, lambda error: over.set(), over.set))
        (run,) = friday.runs
        with collect_dropped() as dropped:
            await over.wait()
            await friday.idle()
            assert len(dropped) == (way == "raise" and index >= 0)
        texts = [message.text for message in await friday.memory.get()]
        unread = [message.text for message in run.inbox.unread]
        assert sorted([text for text in texts if text in "abc" and text] + unread) == (["a", "b", "c"] if seen else [])
        assert run.inbox.closed
        friday.model = ScriptedModel("on")
        assert (await friday.call("next")).text == "on"
        return len(seen)

    total = run_virtual(main(-1))
    assert total > 15
    for index in range(total) if way != "slow" else ():
        run_virtual(main(index))


# --- laws -----------------------------------------------------------------------------------------------------------

STEPS = st.sampled_from(["text", "wait", "slow", "direct", "risky", "fail", "think"])
TURNS = st.lists(st.lists(STEPS, min_size=1, max_size=3), max_size=6)
INPUTS = st.lists(st.tuples(st.integers(0, 20), st.sampled_from(["next_round", "idle"])), max_size=6)
ENDS = st.tuples(st.sampled_from(["", "", "", "interrupt", "dispose"]), st.integers(0, 20))


@tool(return_direct=True)
async def direct() -> str:
    """Is the reply."""
    return "direct"


@tool(requires_approval=True)
async def risky() -> str:
    """Needs a person."""
    return "risky"


def _turn(number: int, steps: list[str]) -> list[Any]:
    from agentscope_rx.messages import ThinkingBlock

    made: list[Any] = []
    for index, step in enumerate(steps):
        if step == "wait":
            made.append(Delay(0.5))
        elif step == "think":
            made.append(ThinkingBlock("hm"))
        elif step == "fail":
            made.append(AgentScopeError("the model fails"))
        elif step == "text":
            made.append("text ")
        else:
            made.append(ToolUseBlock(f"{number}.{index}", step, {"seconds": 0.5} if step == "slow" else {}))
    return made


@settings(max_examples=120)
@given(
    TURNS,
    INPUTS,
    ENDS,
    st.sampled_from([InMemoryMemory, Remote]),
    st.sampled_from(["text", "tool"]),
    st.booleans(),
    st.integers(1, 4),
)
def test_every_input_is_once_in_memory_or_unread(
    turns: Any, inputs: Any, end: Any, memory: type[Memory], finish: Any, hooked: bool, max_iters: int
):
    """And the fold of the events is memory; next_round and idle each keep their order."""
    note(f"{turns} {inputs} {end} {memory} {finish} {hooked} {max_iters}")

    async def main() -> None:
        model = ScriptedModel(*[_turn(n, steps) for n, steps in enumerate(turns)], *["The end."] * 20)
        toolkit = Toolkit([slow, direct, risky])
        friday = ReActAgent(
            "Friday", model, toolkit=toolkit, memory=memory(), finish=finish, max_iters=max_iters,
            hooks=[Slow("input")] if hooked else [],
        )  # fmt: skip
        seen: list[Event] = []
        ended: list[str] = []
        events = friday.stream("go").pipe(ops.do_action(seen.append))
        running = events.subscribe(
            on_error=lambda error: ended.append("error"), on_completed=lambda: ended.append("done")
        )
        (run,) = friday.runs
        accepted: dict[str, list[str]] = {"next_round": [], "idle": []}

        async def feed(number: int, moment: int, when: Any) -> None:
            await asyncio.sleep(moment * 0.25 + 0.01)
            try:
                friday.enqueue(f"in {number}", when)
            except RunEndedError:
                assert ended or run.inbox.closed
                return
            accepted[when].append(f"in {number}")

        async def finish_it() -> None:
            way, moment = end
            await asyncio.sleep(moment * 0.25 + 0.02)
            if way == "interrupt":
                friday.interrupt()
            elif way == "dispose":
                running.dispose()

        await asyncio.gather(finish_it(), *(feed(n, *each) for n, each in enumerate(inputs)))
        await friday.idle()
        await asyncio.sleep(60)
        await friday.idle()
        history = await friday.memory.get()
        unread = [message.text for message in run.inbox.unread]
        there = [m.text for m in history if m.text.startswith("in ")]
        assert sorted(there + unread) == sorted(accepted["next_round"] + accepted["idle"])
        for when in ("next_round", "idle"):
            own = [text for text in there if text in accepted[when]]
            assert own == accepted[when][: len(own)]
        if ended:
            assert fold(seen).history == tuple(history)
        results: set[str] = set()
        for place, message in enumerate(history):
            results.update(result.id for result in message.tool_results)
            if message.text.startswith("in "):
                asked = {c.id for m in history[:place] for c in m.tool_calls}
                assert asked <= results, "between a call and its result"
        assert not friday.running and run.inbox.closed

    run_virtual(main())
