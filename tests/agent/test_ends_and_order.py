"""How runs end, and in which order things are told: every reason, every result in its turn, every hook once a call."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from dataclasses import FrozenInstanceError
from typing import Any

import pytest
from pydantic import BaseModel

from agentscope_rx import GenerateReason, Hook, InMemoryMemory, Msg, Toolkit, UsageLimits, hook, tool
from agentscope_rx.errors import HookError, InvalidInputError, ModelConnectionError, ToolSuspend
from agentscope_rx.events import (
    ActingChunkEvent,
    Event,
    PostActingEvent,
    PostReasoningEvent,
    PostSummaryEvent,
    PreCallEvent,
    PreSummaryEvent,
)
from agentscope_rx.messages import ThinkingBlock, ToolResultBlock
from agentscope_rx.models.options import GenerateOptions
from agentscope_rx.testing import HANG, ScriptedModel, call, run_virtual
from tests.agent.parts import agent, assert_whole, events_of, remembered, weather
from tests.support.assertions import assert_one_truth, results_in

R = GenerateReason


class Answer(BaseModel):
    """Some output."""

    n: int


class Stop(Hook):
    """Stops at events of this class."""

    def __init__(self, kind: type[Event]) -> None:
        self.kinds = (kind,)

    def on_event(self, event: Event) -> Any:
        return event.stop()  # pyright: ignore


@tool(requires_approval=True)
async def risky() -> str:
    """Needs a person."""
    return "risked"


@tool
async def ask() -> str:
    """Asks."""
    raise ToolSuspend


@tool
async def wait(seconds: float) -> str | None:
    """Waits; for less than a second it has nothing to say."""
    await asyncio.sleep(seconds)
    return f"{seconds:g}" if seconds >= 1 else None


@tool(return_direct=True)
async def direct() -> str:
    """Has the last word."""
    return "done"


async def _interrupted() -> Msg:
    friday = agent(ScriptedModel(["x", HANG]))
    task = friday.call("go").as_task()
    await asyncio.sleep(1)
    friday.interrupt()
    return await task


TOOLS = (weather, risky, ask, wait, direct)


def ends(*turns: Any, **options: Any) -> Callable[[], Any]:
    output = options.pop("output", None)
    return lambda: agent(ScriptedModel(*turns), tools=TOOLS, **options).call("go", output=output)


REASONS: dict[GenerateReason, Callable[[], Any]] = {
    R.MODEL_STOP: ends("done"),
    R.STRUCTURED_OUTPUT: ends(call("generate_response", n=1), output=Answer),
    R.RETURN_DIRECT: ends(call("direct")),
    R.TOOL_SUSPENDED: ends(call("ask")),
    R.APPROVAL_REQUIRED: ends(call("risky")),
    R.REASONING_STOP_REQUESTED: ends("x", hooks=[Stop(PostReasoningEvent)]),
    R.ACTING_STOP_REQUESTED: ends(call("wait", seconds=1), hooks=[Stop(PostActingEvent)]),
    R.INTERRUPTED: _interrupted,
    R.MAX_ITERATIONS: ends(call("wait", seconds=1), "in short", max_iters=1),
    R.LIMIT_REACHED: ends(
        call("wait", seconds=1), "in short", limits=UsageLimits(model_calls=1, on_limit="summary")
    ),
}  # fmt: skip


@pytest.mark.spec("W40")
@pytest.mark.parametrize("reason", [reason for reason in R if reason is not R.TOOL_CALLS])
def test_every_reason_is_the_end_of_some_run(reason: GenerateReason):
    """What is declared is produced. (TOOL_CALLS is what remembered messages with calls have.)"""

    async def main() -> None:
        assert (await REASONS[reason]()).generate_reason is reason

    run_virtual(main())


@pytest.mark.spec("W40")
def test_a_remembered_message_with_calls_says_so():
    async def main() -> None:
        friday = agent(ScriptedModel(call("wait", seconds=1), "done"), tools=TOOLS)
        await friday.call("go")
        assert [m.generate_reason for m in remembered(friday) if m.role == "assistant"] == [R.TOOL_CALLS, R.MODEL_STOP]

    run_virtual(main())


# --- order ----------------------------------------------------------------------------------------------------------


@pytest.mark.spec("W39", "R12", "§22.10")
@pytest.mark.parametrize(
    ("seconds", "parallel", "told"),
    [
        ([1, 5, 3], True, [1, 5, 5]),
        ([5, 1, 3], True, [5, 5, 5]),
        ([1, 2, 3], True, [1, 2, 3]),
        ([1, 5, 3], False, [1, 6, 9]),
    ],
)
def test_a_result_is_told_in_its_turn_and_no_later(seconds: list[float], parallel: bool, told: list[float]):
    """In call order whatever the delays, and as soon as that allows."""
    at: list[float] = []

    class Note(Hook):
        kinds = (PostActingEvent,)

        def on_event(self, event: Event) -> None:
            at.append(asyncio.get_running_loop().time())

    async def main() -> None:
        calls = [call("wait", seconds=each) for each in seconds]
        toolkit = Toolkit(TOOLS, parallel=parallel)
        friday = agent(ScriptedModel(calls, "done"), tools=None, toolkit=toolkit, hooks=[Note()])
        seen = await events_of(friday, "go")
        assert at == told
        results = [e.result.text for e in seen if isinstance(e, PostActingEvent)]
        assert results == [f"{each:g}" for each in seconds]
        # each is shown at once, whatever its turn
        last = [e.chunk.text for e in seen if isinstance(e, ActingChunkEvent) and e.is_last]
        assert last == [f"{each:g}" for each in (sorted(seconds) if parallel else seconds)]
        assert_one_truth(seen, (), remembered(friday))
        assert_whole(friday)

    run_virtual(main())


@pytest.mark.spec("D1", "R10")
@pytest.mark.parametrize("parallel", [True, False])
def test_hooks_see_every_call_of_a_batch(parallel: bool):
    """Three calls, three times each."""
    seen: Counter[str] = Counter()

    class Note(Hook):
        def on_event(self, event: Event) -> Any:
            seen[event.type] += 1
            return self._later() if event.type in ("pre_acting", "post_acting") else None

        async def _later(self) -> None:
            await asyncio.sleep(1)

    async def main() -> None:
        calls = [call("wait", seconds=each) for each in (3, 2, 1)]
        toolkit = Toolkit(TOOLS, parallel=parallel)
        await agent(ScriptedModel(calls, "done"), tools=None, toolkit=toolkit, hooks=[Note()]).call("go")
        assert (seen["pre_acting"], seen["post_acting"], seen["pre_reasoning"]) == (3, 3, 2)

    run_virtual(main())


@pytest.mark.spec("W10", "§22.10")
def test_a_tool_without_a_result_does_not_shift_the_others():
    async def main() -> None:
        calls = [call("wait", seconds=each) for each in (2, 0, 1)]
        friday = agent(ScriptedModel(calls, "done"), tools=TOOLS)
        await friday.call("go")
        said = results_in(remembered(friday))
        assert [said[each.id][0] for each in calls] == [None, None, None]
        assert [said[each.id][1] for each in calls][::2] == ["2", "1"]

    run_virtual(main())


@pytest.mark.spec("§22.10")
def test_a_hook_failing_at_a_result_leaves_every_call_closed():
    """One failing hook."""

    @hook(PostActingEvent)
    def fail(event: PostActingEvent) -> None:
        if event.result.text == "2":
            raise RuntimeError("hook")

    async def main() -> None:
        calls = [call("wait", seconds=each) for each in (1, 2, 3)]
        friday = agent(ScriptedModel(calls, "never"), tools=TOOLS, hooks=[fail])
        with pytest.raises(RuntimeError, match="hook"):
            await friday.call("go")
        assert [kind for kind, _ in results_in(remembered(friday)).values()] == [None, "failed", "failed"]
        assert_whole(friday)

    run_virtual(main())


# --- hooks' part in it ----------------------------------------------------------------------------------------------


@pytest.mark.spec("W30")
def test_events_do_not_change_in_anybodys_hands():
    """A hook answers with a copy; what another hook holds stays what it was."""
    held: list[PostActingEvent] = []

    @hook(PostActingEvent, priority=1)
    def first(event: PostActingEvent) -> PostActingEvent:
        held.append(event)
        with pytest.raises(FrozenInstanceError):
            event.stop_requested = True  # type: ignore[misc]
        return event.with_result(ToolResultBlock(event.tool_use.id, event.tool_use.name))

    async def main() -> None:
        friday = agent(ScriptedModel(call("wait", seconds=1), "done"), tools=TOOLS, hooks=[first])
        await friday.call("go")
        assert held[0].result.text == "1"
        assert list(results_in(remembered(friday)).values()) == [(None, "")]

    run_virtual(main())


@pytest.mark.spec("W34", "case 44")
@pytest.mark.parametrize("who", ["the caller", "a hook"])
def test_system_messages_are_no_input(who: str):
    """One rule, for the caller and for hooks; nothing is remembered."""

    @hook(PreCallEvent)
    def inject(event: PreCallEvent) -> PreCallEvent:
        return event.replace(input=(*event.input, Msg.system("obey")))

    async def main() -> None:
        friday = agent(ScriptedModel("x"), hooks=[inject] if who == "a hook" else [])
        with pytest.raises(HookError if who == "a hook" else InvalidInputError, match="SYSTEM"):
            await friday.call("go" if who == "a hook" else [Msg.user("go"), Msg.system("obey")])
        assert len(remembered(friday)) == 0

    run_virtual(main())


@pytest.mark.spec("W37", "W49", "§22.10")
def test_the_summary_is_an_answer_like_any_other():
    """Hooks change what is asked and what is said; a stop has no meaning there, so there is none."""
    options = GenerateOptions(temperature=0.1)

    @hook(PreSummaryEvent)
    def before(event: PreSummaryEvent) -> PreSummaryEvent:
        return event.with_hint("Be brief.").replace(options=options)

    @hook(PostSummaryEvent)
    def after(event: PostSummaryEvent) -> PostSummaryEvent:
        assert not hasattr(event, "stop")
        return event.replace(message=event.message.replace(content=event.message.text.upper()))

    async def main() -> None:
        model = ScriptedModel(call("wait", seconds=1), "in short")
        friday = agent(model, tools=TOOLS, hooks=[before, after], max_iters=1)
        seen = await events_of(friday, "go")
        assert seen[-1].message.text == remembered(friday)[-1].text == "IN SHORT"
        assert seen[-1].message.generate_reason is R.MAX_ITERATIONS
        assert model.requests[-1].messages[-1].text == "Be brief." and model.requests[-1].options.temperature == 0.1
        assert_one_truth(seen, (), remembered(friday))

    run_virtual(main())


WITHOUT_WORDS = [
    [],
    [""],
    [ThinkingBlock("hm")],
    [call("wait", seconds=1)],
    [ThinkingBlock("hm"), call("wait", seconds=1)],
]


@pytest.mark.parametrize("turn", WITHOUT_WORDS)
@pytest.mark.parametrize("limits", [None, UsageLimits(model_calls=1, on_limit="summary")])
def test_a_summary_without_words_is_asked_for_once_more(turn: Any, limits: Any):
    async def main() -> None:
        model = ScriptedModel(call("wait", seconds=1), turn, "in short")
        friday = agent(model, tools=TOOLS, max_iters=1 if limits is None else 9, limits=limits)
        seen = await events_of(friday, "go")
        reply = seen[-1].message
        assert reply.text == "in short"
        assert reply.generate_reason is (R.MAX_ITERATIONS if limits is None else R.LIMIT_REACHED)
        assert model.requests[-1].tools == () and "no words" in model.requests[-1].messages[-1].text
        assert_one_truth(seen, (), remembered(friday))
        assert_whole(friday)

    run_virtual(main())


@pytest.mark.parametrize("turn", WITHOUT_WORDS)
@pytest.mark.parametrize("limits", [None, UsageLimits(model_calls=1, on_limit="summary")])
def test_the_engine_says_what_no_summary_says(turn: Any, limits: Any):
    async def main() -> None:
        model = ScriptedModel(call("wait", seconds=1), turn, turn, "never")
        friday = agent(model, tools=TOOLS, max_iters=1 if limits is None else 9, limits=limits)
        seen = await events_of(friday, "go")
        reply = seen[-1].message
        which = "the limit of 1 round " if limits is None else "the limit for model calls"
        assert which in reply.text
        assert reply.generate_reason is (R.MAX_ITERATIONS if limits is None else R.LIMIT_REACHED)
        assert len(model.requests) == 3
        assert_one_truth(seen, (), remembered(friday))
        assert_whole(friday)
        friday.model = ScriptedModel("and on")
        assert (await friday.call("go on")).text == "and on"

    run_virtual(main())


@pytest.mark.spec("W49")
def test_a_summary_that_fails_is_an_error_and_no_reply():
    """An error has its own type, and is not remembered as a message."""

    async def main() -> None:
        turns = [ModelConnectionError("x")] * 3
        friday = agent(ScriptedModel(call("wait", seconds=1), *turns), tools=TOOLS, max_iters=1)
        with pytest.raises(ModelConnectionError):
            await friday.call("go")
        assert [m.role for m in remembered(friday)] == ["user", "assistant", "tool"]
        assert_whole(friday)
        friday.model = ScriptedModel("and on")
        assert (await friday.call()).text == "and on"

    run_virtual(main())


@pytest.mark.spec("R2", "D9")
def test_a_cancellation_is_not_an_interruption():
    """The canceller gets a CancelledError; there is no reply, and no hook is called at the end."""
    told: list[str] = []

    class Note(Hook):
        def on_event(self, event: Event) -> None:
            told.append(event.type)

    async def main() -> None:
        friday = agent(ScriptedModel(call("wait", seconds=60)), tools=TOOLS, hooks=[Note()], memory=InMemoryMemory())
        task = asyncio.create_task(_await(friday))
        await asyncio.sleep(1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await friday.idle()
        assert told[-1] == "pre_acting"
        assert [m.role for m in remembered(friday)] == ["user", "assistant", "tool"]

    run_virtual(main())


async def _await(friday: Any) -> Msg:
    return await friday.call("go")
