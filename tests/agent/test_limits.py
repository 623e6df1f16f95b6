"""Limits of a run: what each one counts, where it is looked at, and that a deadline ends every stage in time."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest
from reactivex import operators as ops

from agentscope_rx import (
    Approve,
    GenerateReason,
    Hook,
    InMemoryMemory,
    Price,
    ReActAgent,
    Toolkit,
    UsageLimits,
    fold,
    tool,
)
from agentscope_rx.errors import (
    AgentBusyError,
    ConfigurationError,
    ModelConnectionError,
    RunDeadlineError,
    ToolError,
    ToolSuspend,
    UsageLimitError,
)
from agentscope_rx.events import Event
from agentscope_rx.messages import ChatUsage, ToolResultKind, ToolUseBlock
from agentscope_rx.models.options import ExecutionConfig
from agentscope_rx.models.response import ChatResponse
from agentscope_rx.reactive import from_callable
from agentscope_rx.testing import HANG, Delay, ScriptedModel, call, collect_dropped, run_virtual
from tests.agent.parts import agent, assert_whole, events_of, remembered, weather
from tests.agent.test_invariant import MOMENTS, check_after, eventful
from tests.support.assertions import assert_one_truth, assert_prompts_are_whole, results_in


def costs(input: int = 0, output: int = 0) -> ChatResponse:
    return ChatResponse((), usage=ChatUsage(input, output))


def again(input: int = 0, output: int = 0) -> list[Any]:
    """A turn that calls a tool."""
    return [call("weather", city="Rome"), costs(input, output)]


def now() -> float:
    return asyncio.get_running_loop().time()


# --- counts ---------------------------------------------------------------------------------------------------------

# after two rounds: 2 model calls, 2 tool calls, 20 input and 6 output tokens, a cost of 8
PRICES = {"scripted": Price(100_000, 1_000_000)}
COUNTS: dict[str, tuple[str, dict[str, Any], float]] = {
    "model_calls": ("model_calls", {}, 2),
    "input_tokens": ("input_tokens", {}, 20),
    "output_tokens": ("output_tokens", {}, 6),
    "total_tokens": ("total_tokens", {}, 26),
    "cost by table": ("cost", {"prices": PRICES}, 8.0),
    "cost by function": (
        "cost",
        {"prices": lambda model, usage: usage.input_tokens * 0.1 + usage.output_tokens},
        8.0,
    ),
}


@pytest.mark.parametrize("on_limit", ["error", "summary"])
@pytest.mark.parametrize("distance", [-1, 0, 1])
@pytest.mark.parametrize("name", COUNTS)
def test_a_count_is_looked_at_before_each_further_question(name: str, distance: int, on_limit: Any):
    """At or above the limit the model is not asked again; one below, it is."""
    which, more, value = COUNTS[name]
    limit = value - distance
    limits = UsageLimits(**{which: limit}, **more, on_limit=on_limit)

    async def main() -> None:
        friday = agent(ScriptedModel(again(10, 3), again(10, 3), "the third"), limits=limits)
        seen: list[Event] = []
        if distance < 0:
            assert (await friday.call("go")).text == "the third"
            return
        # one above the limit: a round early, but for what comes in larger steps
        rounds = 1 if which == "model_calls" and distance else 2
        if on_limit == "error":
            with pytest.raises(UsageLimitError, match=f"'Friday' has reached its limit of .* for {which}") as caught:
                await friday.stream("go").pipe(ops.do_action(seen.append))
            assert (caught.value.which, caught.value.limit, caught.value.agent) == (which, limit, "Friday")
            assert seen[-1].type == "error" and len(friday.model.requests) == rounds
        else:
            friday.model.turns = (*friday.model.turns[:rounds], ("in short",))
            seen = await events_of(friday, "go")
            reply = seen[-1].message
            assert (reply.text, reply.generate_reason) == ("in short", GenerateReason.LIMIT_REACHED)
            request = friday.model.requests[-1]
            assert len(friday.model.requests) == rounds + 1 and request.tools == ()
            assert which.replace("_", " ") in request.messages[-1].text
        assert_one_truth(seen, (), remembered(friday))
        assert_whole(friday)

    run_virtual(main())


@pytest.mark.parametrize("which", ["model_calls", "input_tokens", "output_tokens", "total_tokens", "cost"])
def test_a_limit_of_nothing_asks_nothing(which: str):
    async def main() -> None:
        friday = agent(ScriptedModel("x"), limits=UsageLimits(**{which: 0}, prices=PRICES))
        with pytest.raises(UsageLimitError):
            await friday.call("go")
        assert friday.model.requests == [] and len(remembered(friday)) == 1
        friday.limits = None
        assert (await friday.call()).text == "x"

    run_virtual(main())


@pytest.mark.parametrize("on_limit", ["error", "summary"])
@pytest.mark.parametrize(("limit", "reached"), [(1, True), (2, True), (3, False), (4, False)])
def test_a_batch_that_would_go_beyond_the_limit_does_not_begin(limit: int, reached: bool, on_limit: Any):
    """`tool_calls` is looked at for a batch as a whole: none of it runs, and the model's calls get results."""

    async def main() -> None:
        first, second = call("weather", city="Rome"), [call("weather", city="Oslo"), call("weather", city="Bern")]
        friday = agent(ScriptedModel(first, second, "done"), limits=UsageLimits(tool_calls=limit, on_limit=on_limit))
        if not reached:
            assert (await friday.call("go")).text == "done"
            return
        seen: list[Event] = []
        if on_limit == "error":
            with pytest.raises(UsageLimitError, match="tool_calls"):
                await friday.stream("go").pipe(ops.do_action(seen.append))
        else:
            seen = await events_of(friday, "go")
            assert seen[-1].message.generate_reason is GenerateReason.LIMIT_REACHED
        kind = ToolResultKind.FAILED if on_limit == "error" else ToolResultKind.REJECTED
        assert [k for k, _ in results_in(remembered(friday)).values()] == [None, kind, kind]
        assert_one_truth(seen, (), remembered(friday))
        assert_whole(friday)
        assert_prompts_are_whole(friday.model)

    run_virtual(main())


def test_calls_that_wait_and_attempts_do_not_count_as_calls():
    @tool(requires_approval=True)
    async def risky() -> str:
        """Needs a person."""
        return "risked"

    failures = iter(range(9))

    @tool(execution_config=ExecutionConfig(max_attempts=3, initial_backoff=1, retry_on=lambda e: True))
    async def flaky() -> str:
        """Fails twice."""
        if next(failures) < 2:
            raise ToolError("busy")
        return "done"

    async def main() -> None:
        friday = agent(
            ScriptedModel([call("flaky"), call("risky"), call("risky")], "x"), tools=[flaky, risky],
            limits=UsageLimits(tool_calls=1),
        )  # fmt: skip
        reply = await friday.call("go")
        assert reply.generate_reason is GenerateReason.APPROVAL_REQUIRED and len(reply.pending_calls) == 2

    run_virtual(main())


def test_a_final_answer_is_never_thrown_away():
    """A limit keeps the run from going on, not from ending well."""

    async def main() -> None:
        limits = UsageLimits(model_calls=1, tool_calls=0, input_tokens=1, output_tokens=1, cost=1, prices=PRICES)
        friday = agent(ScriptedModel(["the answer", costs(1000, 1000)]), limits=limits)
        assert (await friday.call("go")).text == "the answer"

    run_virtual(main())


def test_a_calls_limits_replace_the_agents_for_that_call():
    async def main() -> None:
        friday = agent(
            ScriptedModel(again(), "one", again(), "two", again(), "three"), limits=UsageLimits(model_calls=1)
        )
        with pytest.raises(UsageLimitError):
            await friday.call("go")
        # each call counts anew
        assert (await friday.call()).text == "one"
        assert (await friday.call("go", limits=UsageLimits(model_calls=2))).text == "two"
        with pytest.raises(UsageLimitError):
            await friday.call("go", limits=UsageLimits(tool_calls=0))
        assert (await friday.call(limits=UsageLimits())).text == "three"

    run_virtual(main())


def test_a_model_without_a_price_is_refused_before_the_run():
    async def main() -> None:
        friday = agent(ScriptedModel("x"), limits=UsageLimits(cost=1, prices={"other": Price(1, 1)}))
        with pytest.raises(ConfigurationError, match="no price for the model 'scripted'"):
            await friday.call("go")
        assert friday.model.requests == [] and len(remembered(friday)) == 0

    run_virtual(main())


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"model_calls": -1}, "model_calls"),
        ({"tool_calls": True}, "tool_calls"),
        ({"input_tokens": 1.5}, "input_tokens"),
        ({"cost": -1, "prices": PRICES}, "cost"),
        ({"cost": 1}, "needs prices"),
        ({"deadline": 0}, "deadline"),
        ({"deadline": float("nan")}, "deadline"),
        ({"deadline": "soon"}, "deadline"),
        ({"summary_reserve": -1}, "summary_reserve"),
        ({"on_limit": "ask"}, "on_limit"),
        ({"deadline": 5, "on_limit": "summary"}, "summary_reserve"),
    ],
)
def test_invalid_limits_are_refused_at_construction(given: dict[str, Any], says: str):
    with pytest.raises(ConfigurationError, match=says):
        UsageLimits(**given)


# --- the deadline ---------------------------------------------------------------------------------------------------

DEADLINE = 20.0


class Wait(Hook):
    """Takes so many seconds for events of one type."""

    def __init__(self, type: str, seconds: float = 1000.0) -> None:
        self.type = type
        self.seconds = seconds

    async def _wait(self) -> None:
        await asyncio.sleep(self.seconds)

    def on_event(self, event: Event) -> Any:
        return self._wait() if event.type == self.type else None


@tool
async def slow(seconds: float = 1000.0) -> str:
    """Takes its time."""
    await asyncio.sleep(seconds)
    return "done"


@tool
async def careful(clean_up: float) -> str:
    """Takes its time, and some more to clean up."""
    try:
        await asyncio.sleep(1000)
    finally:
        await asyncio.sleep(clean_up)
    return "done"


@tool(interruptible=False)
async def stubborn(seconds: float = 1000.0) -> str:
    """Does not listen."""
    await asyncio.sleep(seconds)
    return "done after all"


@tool(execution_config=ExecutionConfig(max_attempts=9, initial_backoff=500, max_backoff=500, retry_on=lambda e: True))
async def failing() -> str:
    """Fails."""
    raise ToolError("busy")


BACKOFF = ExecutionConfig(max_attempts=9, initial_backoff=500, max_backoff=500)
TOOLS = (weather, slow, careful, stubborn, failing)


def friday(*turns: Any, **options: Any) -> ReActAgent:
    return agent(ScriptedModel(*turns, execution_config=options.pop("config", None)), tools=TOOLS, **options)


def hooked(type: str, seconds: float = 1000.0) -> Callable[[], ReActAgent]:
    return lambda: friday(again(), "done", hooks=[Wait(type, seconds)])


# what can be cut off by an interruption, so that a last word is possible
STAGES: dict[str, Callable[[], ReActAgent]] = {
    "before the first chunk": lambda: friday(HANG),
    "in the text": lambda: friday(["so ", HANG]),
    "in a call's arguments": lambda: friday(["so ", call("weather", city="Rome"), HANG]),
    "in a tool": lambda: friday([call("weather", city="Rome"), call("slow")]),
    "in the second of three tools in turn": lambda: agent(
        ScriptedModel([call("weather", city="Rome"), call("slow"), call("slow")]),
        tools=None,
        toolkit=Toolkit(TOOLS, parallel=False),
    ),
    "in the model's backoff": lambda: friday(ModelConnectionError("x"), config=BACKOFF),
    "in a tool's backoff": lambda: friday(call("failing")),
    "in the second round": lambda: friday(again(), ["x", HANG]),
}
# what no interruption cuts off
UNCUT: dict[str, Callable[[], ReActAgent]] = {
    **{f"in a hook on {type}": hooked(type) for type in (
        "pre_call", "pre_reasoning", "reasoning_chunk", "post_reasoning", "pre_acting", "acting_chunk", "post_acting",
        "post_call",
    )},
    "in a tool that does not listen": lambda: friday(call("stubborn")),
}  # fmt: skip


@pytest.mark.parametrize("stage", [*STAGES, *UNCUT])
def test_a_deadline_ends_every_stage_in_time(stage: str):
    """A typed error at the very second; memory whole, the agent free, the next call works."""

    async def main() -> None:
        someone = (STAGES | UNCUT)[stage]()
        seen: list[Event] = []
        limits = UsageLimits(deadline=DEADLINE)
        with pytest.raises(RunDeadlineError, match=r"'Friday' did not finish within 20 s") as caught:
            await someone.stream("go", limits=limits).pipe(ops.do_action(seen.append))
        assert now() == DEADLINE and (caught.value.agent, caught.value.limit) == ("Friday", DEADLINE)
        assert not caught.value.retryable and isinstance(caught.value, TimeoutError)
        assert seen[-1].type == "error" and not someone.running
        if stage != "in a hook on post_call":
            assert_one_truth(seen, (), remembered(someone))
        assert_whole(someone)
        someone.model, someone.hooks = ScriptedModel("and on"), type(someone.hooks)(())
        assert (await someone.call("next")).text == "and on"

    run_virtual(main())


@pytest.mark.parametrize("stage", STAGES)
def test_a_summary_is_given_before_the_deadline(stage: str):
    """`summary_reserve` is kept free for it: what is in progress is cut off so much earlier."""

    async def main() -> None:
        someone = STAGES[stage]()
        someone.model.turns = (*someone.model.turns, (Delay(3), "in short"))
        seen = await events_of(someone, "go", limits=UsageLimits(deadline=DEADLINE, on_limit="summary"))
        assert now() == DEADLINE - 10 + 3
        reply = seen[-1].message
        assert (reply.text, reply.generate_reason) == ("in short", GenerateReason.LIMIT_REACHED)
        assert "time" in someone.model.requests[-1].messages[-1].text
        assert_one_truth(seen, (), remembered(someone))
        assert_whole(someone)
        assert_prompts_are_whole(someone.model)

    run_virtual(main())


@pytest.mark.parametrize("stage", [*STAGES, *UNCUT])
def test_a_late_summary_does_not_move_the_deadline(stage: str):
    async def main() -> None:
        someone = (STAGES | UNCUT)[stage]()
        someone.model.turns = (*someone.model.turns, ("in ", HANG))
        with pytest.raises(RunDeadlineError):
            await someone.call("go", limits=UsageLimits(deadline=DEADLINE, on_limit="summary"))
        assert now() == DEADLINE and not someone.running
        assert_whole(someone)

    run_virtual(main())


def test_a_tool_or_hook_slow_to_stop_may_end_within_the_reserve():
    async def main() -> None:
        for seconds, make in (
            (13.0, lambda: friday(call("stubborn", seconds=13.0), "in short")),
            (13.0, lambda: friday(again(), "in short", hooks=[Wait("pre_acting", 13.0)])),
        ):
            began = now()
            someone = make()
            reply = await someone.call("go", limits=UsageLimits(deadline=DEADLINE, on_limit="summary"))
            assert (reply.text, reply.generate_reason) == ("in short", GenerateReason.LIMIT_REACHED)
            assert now() == began + seconds
            # ... with its real result, if it had begun
            kinds = [kind for kind, _ in results_in(remembered(someone)).values()]
            assert kinds == [None if someone.hooks.all == () else ToolResultKind.INTERRUPTED]
            assert_whole(someone)

    run_virtual(main())


def test_a_run_that_ends_by_itself_is_not_given_a_summary():
    """An answer that is there is never thrown away, nor a stop, nor calls that wait."""

    class Stop(Hook):
        def on_event(self, event: Event) -> Any:
            return event.stop() if event.type == "post_acting" else None  # pyright: ignore

    @tool
    async def ask() -> str:
        """Asks."""
        raise ToolSuspend("who?")

    async def main() -> None:
        limits = UsageLimits(deadline=DEADLINE, on_limit="summary")
        # the time for a last word comes while a hook looks at the answer
        someone = friday("the answer", hooks=[Wait("post_reasoning", 15)])
        reply = await someone.call("go", limits=limits)
        assert (reply.text, reply.generate_reason) == ("the answer", GenerateReason.MODEL_STOP)
        assert len(remembered(someone)) == 2
        # ... at a result that it stops at
        someone = friday(again(), hooks=[Wait("post_acting", 15), Stop()])
        assert (await someone.call("go", limits=limits)).generate_reason is GenerateReason.ACTING_STOP_REQUESTED
        # ... while a sibling of a suspended call is running
        someone = agent(ScriptedModel([call("ask"), call("slow")]), tools=[ask, slow])
        reply = await someone.call("go", limits=limits)
        assert reply.generate_reason is GenerateReason.TOOL_SUSPENDED
        assert [each.name for each in reply.pending_calls] == ["ask"]
        # ... while the last word at `max_iters` is on its way
        someone = friday(again(), [Delay(15), "in ", "short"], max_iters=1)
        reply = await someone.call("go", limits=limits)
        assert (reply.text, reply.generate_reason) == ("in short", GenerateReason.MAX_ITERATIONS)
        assert len(someone.model.requests) == 2

    run_virtual(main())


def test_clean_up_of_cut_off_tools_comes_on_top_and_is_bounded():
    """Memory is not repaired while a tool's `finally` block may still have effects."""

    async def main() -> None:
        someone = friday(call("careful", clean_up=2))
        with pytest.raises(RunDeadlineError):
            await someone.call("go", limits=UsageLimits(deadline=DEADLINE))
        assert now() == DEADLINE + 2
        assert_whole(someone)
        began = now()
        someone = friday(call("careful", clean_up=2), "in short")
        reply = await someone.call("go", limits=UsageLimits(deadline=DEADLINE, on_limit="summary"))
        assert reply.text == "in short" and now() == began + 12
        began = now()
        someone = friday(call("careful", clean_up=300))
        with collect_dropped() as dropped, pytest.raises(RunDeadlineError):
            await someone.call("go", limits=UsageLimits(deadline=DEADLINE))
        assert now() <= began + DEADLINE + 60 and dropped
        assert_whole(someone)
        await asyncio.sleep(300)

    run_virtual(main())


def test_a_blocking_tool_is_left_to_itself():
    release = threading.Event()

    @tool
    def block() -> str:
        """Blocks."""
        release.wait(20)
        return "late"

    async def main() -> None:
        someone = agent(ScriptedModel(call("block"), "and on"), tools=[block])
        with pytest.raises(RunDeadlineError):
            await someone.call("go", limits=UsageLimits(deadline=0.3))
        assert 0.3 <= now() < 1
        assert [kind for kind, _ in results_in(remembered(someone)).values()] == [ToolResultKind.FAILED]
        release.set()
        assert (await someone.call("next")).text == "and on"
        assert_whole(someone)

    run_virtual(main())


class Remote(InMemoryMemory):
    """A store that takes its time to write."""

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self.seconds = seconds

    def add(self, messages: Any) -> Any:
        async def write() -> None:
            await asyncio.sleep(self.seconds)
            await super(Remote, self).add(messages)

        return from_callable(write)


@pytest.mark.parametrize("deadline", [step * 0.5 for step in range(1, 30)])
@pytest.mark.parametrize("on_limit", ["error", "summary"])
def test_a_deadline_tears_no_write(deadline: float, on_limit: Any):
    """Calls that are being written when it passes are closed as well, once they are there."""

    async def main() -> None:
        memory = Remote(1)
        someone = agent(ScriptedModel([Delay(1), *again()], [Delay(1), "done"], "in short"), memory=memory)
        limits = UsageLimits(deadline=deadline, on_limit=on_limit, summary_reserve=deadline / 2)
        seen: list[Event] = []
        try:
            await someone.stream("go", limits=limits).pipe(ops.do_action(seen.append))
        except RunDeadlineError:
            # a write that has begun and the repair
            assert deadline <= now() <= deadline + 2
        assert_whole(someone)
        assert not someone.running
        someone.model = ScriptedModel("and on")
        assert (await someone.call("next")).text == "and on"

    run_virtual(main())


def test_a_memory_that_hangs_does_not_keep_a_run_for_ever():
    async def main() -> None:
        someone = agent(ScriptedModel(again()), memory=Remote(3000))
        with collect_dropped() as dropped, pytest.raises(RunDeadlineError):
            await someone.call("go", limits=UsageLimits(deadline=DEADLINE))
        assert now() <= DEADLINE + 90 and dropped
        await asyncio.sleep(4000)

    run_virtual(main())


def test_a_hanging_error_hook_does_not_withhold_the_error():
    async def main() -> None:
        someone = friday(HANG, hooks=[Wait("error")])
        seen: list[Event] = []
        with collect_dropped() as dropped, pytest.raises(RunDeadlineError):
            await someone.stream("go", limits=UsageLimits(deadline=DEADLINE)).pipe(ops.do_action(seen.append))
        assert now() <= DEADLINE + 60 and dropped and seen[-1].type == "error"

    run_virtual(main())


@pytest.mark.parametrize("on_limit", ["error", "summary"])
def test_a_slow_reader_does_not_stop_the_clock(on_limit: Any):
    """Model deadlines stand still while demand is withheld; that of the run does not."""

    async def main() -> None:
        someone = friday(["x"] * 100, "in short")
        limits = UsageLimits(deadline=DEADLINE, on_limit=on_limit)
        stream = someone.stream("go", limits=limits).buffered(3)
        await anext(stream)
        await asyncio.sleep(DEADLINE - 10 + 0.001 if on_limit == "summary" else DEADLINE + 0.001)
        assert not someone.running
        seen = []
        try:
            async for event in stream:
                seen.append(event)
        except RunDeadlineError:
            assert on_limit == "error" and seen[-1].type == "error"
        else:
            assert seen[-1].message.generate_reason is GenerateReason.LIMIT_REACHED
        assert_whole(someone)

    run_virtual(main())


def test_the_wait_for_another_runs_clean_up_is_part_of_the_time():
    """The clock of a call runs from its beginning, also while it waits at the gate."""

    async def begin(someone: ReActAgent) -> None:
        running = someone.call("go").as_task()
        await asyncio.sleep(1)
        running.cancel()
        await asyncio.wait([running])

    async def main() -> None:
        someone = friday(call("careful", clean_up=15), HANG)
        await begin(someone)
        began = now()
        with pytest.raises(RunDeadlineError):
            await someone.call("next", limits=UsageLimits(deadline=10))
        assert now() == began + 10
        with pytest.raises(RunDeadlineError):
            await someone.call("next", limits=UsageLimits(deadline=10))
        assert now() == began + 20, "five at the gate, five of the model's silence"
        assert [m.text for m in remembered(someone) if m.role == "user"] == ["go", "next"]

        someone = friday(call("careful", clean_up=15), HANG, "in short")
        await begin(someone)
        began = now()
        reply = await someone.call("next", limits=UsageLimits(deadline=20, on_limit="summary"))
        assert reply.generate_reason is GenerateReason.LIMIT_REACHED and now() == began + 15

    run_virtual(main())


def test_a_deadline_does_not_make_a_refused_call_wait():
    async def main() -> None:
        someone = friday([Delay(5), "done"])
        running = someone.call("go").as_task()
        await asyncio.sleep(1)
        with pytest.raises(AgentBusyError):
            await someone.call("next", limits=UsageLimits(deadline=10))
        assert now() == 1
        assert (await running).text == "done"

    run_virtual(main())


def test_the_inner_deadlines_hold_within_the_outer_one():
    """A tool's own timeout ends the call, the run's ends the run: whichever comes first."""

    async def main() -> None:
        config = ExecutionConfig(timeout=5)
        someone = friday(call("slow"), "done", tool_execution_config=config)
        reply = await someone.call("go", limits=UsageLimits(deadline=DEADLINE))
        assert reply.text == "done" and now() == 5
        assert [kind for kind, _ in results_in(remembered(someone)).values()] == [ToolResultKind.TIMEOUT]

    run_virtual(main())


def test_a_run_that_ends_before_its_deadline_leaves_no_timer():
    async def main() -> None:
        for on_limit in ("error", "summary"):
            someone = friday(again(), "done")
            await someone.call("go", limits=UsageLimits(deadline=1000, on_limit=on_limit))
            task = friday(HANG).call("go", limits=UsageLimits(deadline=1000, on_limit=on_limit)).as_task()
            await asyncio.sleep(1)
            task.cancel()
            await asyncio.wait([task])

    # (nothing may be left: that is what run_virtual checks)
    run_virtual(main())


def test_a_resumed_call_has_the_whole_time():
    @tool(requires_approval=True)
    async def risky() -> str:
        """Needs a person."""
        await asyncio.sleep(15)
        return "risked"

    async def main() -> None:
        someone = agent(ScriptedModel([Delay(15), ToolUseBlock("r", "risky", {})], "done"), tools=[risky],
                        limits=UsageLimits(deadline=DEADLINE))  # fmt: skip
        assert (await someone.call("go")).pending_calls
        assert (await someone.call(Approve("r"))).text == "done" and now() == 30

    run_virtual(main())


def test_a_limit_leaves_nothing_half_done_in_a_summary():
    """The last word itself counts, and is not stopped by the count that led to it."""

    async def main() -> None:
        someone = agent(
            ScriptedModel(again(10, 3), ["in short", costs(10, 3)]),
            limits=UsageLimits(input_tokens=5, on_limit="summary"),
        )
        reply = await someone.call("go")
        assert reply.text == "in short" and reply.usage == ChatUsage(20, 6)

    run_virtual(main())


@pytest.mark.parametrize("parallel", [True, False])
@pytest.mark.parametrize("on_limit", ["error", "summary"])
def test_a_deadline_at_every_moment(on_limit: Any, parallel: bool):
    """The eventful run of `test_invariant`, with hooks and clean-up that take time, ended by its deadline: in time,
    memory whole, one truth, and the next call works."""
    ended = {"by itself": 0, "with a last word": 0, "late": 0}

    async def main(deadline: float) -> None:
        someone = eventful(parallel=parallel)
        someone.model.turns = (*someone.model.turns, (Delay(0.5), "enough"))
        limits = UsageLimits(deadline=deadline, on_limit=on_limit, summary_reserve=deadline / 4)
        seen: list[Event] = []
        try:
            await someone.stream("go", limits=limits).pipe(ops.do_action(seen.append))
            assert now() <= deadline
            cut = seen[-1].message.generate_reason is GenerateReason.LIMIT_REACHED
            ended["with a last word" if cut else "by itself"] += 1
        except RunDeadlineError:
            assert deadline <= now() <= deadline + 0.5, "the half second is that of the tools' clean-up"
            ended["late"] += 1
        if all(event.type != "post_call" for event in seen) and remembered(someone):
            assert [m.id for m in fold(seen).history] == [m.id for m in remembered(someone)][: len(fold(seen).history)]
        assert not someone.running
        await check_after(someone)

    for moment in [*MOMENTS[1:], 40.0]:
        run_virtual(main(moment))
    assert ended["by itself"] and ended["late"] and bool(ended["with a last word"]) == (on_limit == "summary"), ended
