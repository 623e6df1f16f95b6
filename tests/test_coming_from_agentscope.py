"""What descriptions of AgentScope's ReActAgent (Java and Python) promise holds here, statement by statement.

Where this library departs on purpose, `docs/reference/agentscope-names.md` says so, and the two pages on AgentScope in
`docs/coming-from/` show it; other tests pin the departure.
"""

from __future__ import annotations

import asyncio
from typing import Annotated

import pytest
from pydantic import BaseModel

from agentscope_rx import (
    ExecutionConfig,
    GenerateOptions,
    GenerateReason,
    Inject,
    InMemoryMemory,
    InMemorySession,
    Msg,
    ReActAgent,
    RuntimeContext,
    StructuredOutput,
    Toolkit,
    ToolResultBlock,
    ToolSuspend,
    UsageLimits,
    hook,
    tool,
)
from agentscope_rx.agent import Tracer
from agentscope_rx.errors import AgentBusyError
from agentscope_rx.events import ActingChunkEvent, ErrorEvent, PostActingEvent, PreReasoningEvent
from agentscope_rx.messages import ToolResultKind
from agentscope_rx.models import MODEL_DEFAULTS, TOOL_DEFAULTS
from agentscope_rx.reactive import just
from agentscope_rx.testing import HANG, Delay, ScriptedModel, call, run_virtual


@tool
async def add(a: int, b: int) -> int:
    """Adds."""
    return a + b


@tool
async def broken() -> str:
    """Fails half-way."""
    yield "begun"
    raise ValueError("boom")


@tool
async def nap(seconds: float) -> float:
    """Takes its time."""
    await asyncio.sleep(seconds)
    return seconds


def agent(*turns, cls=ReActAgent, tools=(add, broken, nap), **options) -> ReActAgent:
    if "toolkit" in options:
        tools = None
    return cls("Friday", ScriptedModel(*turns), "You are Friday.", tools=tools, **options)


def roles(friday: ReActAgent) -> list[str]:
    return [message.role.value for message in friday.memory.messages]


def results(friday: ReActAgent) -> list[ToolResultBlock]:
    return [result for message in friday.memory.messages for result in message.tool_results]


def sent(friday: ReActAgent, request: int = -1) -> list[str]:
    return [message.text for message in friday.model.requests[request].messages]


def test_what_an_agent_is_built_with():
    """Memory, no tools, 10 rounds, calls guarded, TOOL_CHOICE; 5 min, 2 s to 30 s doubling, 3 attempts of a model."""
    friday = ReActAgent("Friday", ScriptedModel("Hi."))
    assert isinstance(friday.memory, InMemoryMemory) and len(friday.toolkit) == 0
    assert friday.max_iters == 10 and friday.check_running and StructuredOutput(int).reminder == "tool_choice"
    for config, attempts in ((MODEL_DEFAULTS, 3), (TOOL_DEFAULTS, 1)):
        assert (config.timeout, config.initial_backoff, config.max_backoff, config.backoff_multiplier) == (
            300,
            2,
            30,
            2,
        )
        assert config.max_attempts == attempts


def test_rounds_alternate_until_an_answer_calls_nothing():
    friday = agent(call("add", a=1, b=2), "3")
    assert run_virtual(friday.call("1 + 2?")).text == "3"
    assert roles(friday) == ["user", "assistant", "tool", "assistant"]
    assert sent(friday, 0) == ["You are Friday.", "1 + 2?"]


def test_a_failing_tool_is_a_result_and_its_siblings_go_on():
    """Also one that fails while it streams."""
    friday = agent([call("broken"), call("add", a=1, b=2)], "3")
    assert run_virtual(friday.call("Go")).text == "3"
    assert [each.kind for each in results(friday)] == [ToolResultKind.FAILED, None]


def test_hooks_are_a_chain_by_priority():
    seen: list[int] = []

    @hook(PreReasoningEvent, priority=900)
    def late(event: PreReasoningEvent):
        seen.append(len(event.hints))
        return event.with_hint("late")

    @hook(PreReasoningEvent, priority=10)
    async def early(event: PreReasoningEvent):
        seen.append(len(event.hints))
        return event.with_hint("early").replace(messages=event.messages[-1:], options=GenerateOptions(temperature=0.1))

    friday = agent("One.", "Two.", hooks=[late, early])
    run_virtual(friday.call("one"))
    run_virtual(friday.call("two"))
    assert seen == [0, 1, 0, 1]
    assert sent(friday) == ["You are Friday.", "two", "early", "late"], "compaction, of what the model is sent"
    assert friday.model.requests[-1].options.temperature == 0.1
    assert len(friday.memory.messages) == 4


def test_what_a_hook_recalls_precedes_history_and_is_not_stored():
    @hook(PreReasoningEvent)
    def recall(event: PreReasoningEvent):
        return event.replace(messages=(Msg.user("likes tea"), *event.messages))

    friday = agent("Tea?", hooks=[recall])
    run_virtual(friday.call("A drink?"))
    assert sent(friday) == ["You are Friday.", "likes tea", "A drink?"] and len(friday.memory.messages) == 2


def test_a_hook_after_acting_cuts_a_large_result():
    @hook(PostActingEvent, priority=50)
    def cut(event: PostActingEvent):
        return event.with_result(ToolResultBlock(event.result.id, event.result.name, event.result.text[:2]))

    friday = agent(call("add", a=1000, b=1), "1001", hooks=[cut])
    run_virtual(friday.call("Go"))
    assert results(friday)[0].text == "10"
    assert friday.model.requests[1].messages[-1].tool_results[0].text == "10"


def test_chunks_of_every_stage_reach_stream_and_hooks():
    seen: list[str] = []

    @hook(ActingChunkEvent)
    def note(event: ActingChunkEvent):
        seen.append(event.text)

    async def main() -> None:
        friday = agent(call("broken"), "It is broken.", hooks=[note], max_iters=1)
        events = [event async for event in friday.stream("Go")]
        kinds = {event.type for event in events}
        assert {"reasoning_chunk", "acting_chunk", "summary_chunk"} <= kinds and seen[0] == "begun"
        assert events[-1].message.generate_reason is GenerateReason.MAX_ITERATIONS

    run_virtual(main())


def test_the_summary_has_no_tools_and_its_request_is_not_stored():
    friday = agent(call("add", a=1, b=2), "So far: 3.", max_iters=1)
    assert run_virtual(friday.call("Go")).text == "So far: 3."
    assert friday.model.requests[1].tools == () and "summarize" in sent(friday)[-1]
    assert roles(friday) == ["user", "assistant", "tool", "assistant"]


def test_calls_open_at_a_limit_get_error_results():
    friday = agent(
        [call("add", a=1, b=2), call("add", a=1, b=3)], "Sorry.", limits=UsageLimits(tool_calls=1, on_limit="summary")
    )
    assert run_virtual(friday.call("Go")).text == "Sorry."
    assert [each.kind for each in results(friday)] == [ToolResultKind.REJECTED] * 2


class StopsBeforeTools(ReActAgent):
    def post_reasoning(self, event):
        return event.stop() if event.message.tool_calls else None


class StopsAfterTools(ReActAgent):
    def post_acting(self, event):
        return event.stop()


@pytest.mark.parametrize("given", [0, 1, 2], ids=["none", "some", "all"])
def test_a_stop_after_reasoning_leaves_calls_pending(given: int):
    """Without input they run; with results these count, and the rest runs."""
    friday = agent([call("add", a=1, b=2), call("add", a=2, b=2)], "Done.", cls=StopsBeforeTools)
    reply = run_virtual(friday.call("Go"))
    assert reply.generate_reason is GenerateReason.REASONING_STOP_REQUESTED and not results(friday)
    answers = [ToolResultBlock(each.id, each.name, "mine") for each in reply.pending_calls[:given]]
    assert run_virtual(friday.call([Msg.tool(answers)] if answers else None)).text == "Done."
    assert [each.text for each in results(friday)] == [["3", "4"], ["mine", "4"], ["mine", "mine"]][given]


def test_a_stop_after_acting_gives_the_result_and_call_goes_on():
    friday = agent(call("add", a=1, b=2), "3", cls=StopsAfterTools)
    reply = run_virtual(friday.call("Go"))
    assert reply.role == "tool" and reply.generate_reason is GenerateReason.ACTING_STOP_REQUESTED
    assert run_virtual(friday.call()).text == "3"


def test_a_suspended_call_returns_and_siblings_are_kept():
    @tool
    async def sign() -> str:
        """Signs."""
        raise ToolSuspend("Waiting for Ann")

    friday = agent([call("sign"), call("add", a=1, b=2)], "Signed.", tools=[sign, add])
    reply = run_virtual(friday.call("Go"))
    assert reply.generate_reason is GenerateReason.TOOL_SUSPENDED
    assert [block.type for block in reply.content] == ["tool_use", "tool_result"]
    assert roles(friday) == ["user", "assistant", "tool"]
    pending = reply.pending_calls[0]
    assert run_virtual(friday.call(Msg.tool(ToolResultBlock(pending.id, pending.name, "ok")))).text == "Signed."


def test_goto_reasoning_stores_messages_and_passes_max_iters():
    class SendsBack(ReActAgent):
        def post_reasoning(self, event):
            return event.goto_reasoning("Again.") if event.iteration == 0 else None

    friday = agent("One.", "Two.", cls=SendsBack, max_iters=1)
    assert run_virtual(friday.call("Go")).text == "Two."
    assert [message.text for message in friday.memory.messages] == ["Go", "One.", "Again.", "Two."]


def test_the_running_flag_is_freed_however_a_call_ends():
    async def main() -> None:
        friday = agent([Delay(5), "One."], ValueError("boom"), [HANG], "Four.")
        free: list[bool] = []
        friday.call("Go").subscribe(lambda reply: free.append(not friday.running))
        await asyncio.sleep(1)
        with pytest.raises(AgentBusyError, match="is still running"):
            await friday.call("Me, too")
        await asyncio.sleep(5)
        assert free == [True]
        with pytest.raises(ValueError, match="boom"):
            await friday.call("Go")
        assert not friday.running
        running = friday.call("Go").as_task()
        await asyncio.sleep(1)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert (await friday.call("Go")).text == "Four."

    run_virtual(main())


def test_a_tracer_wraps_the_call_and_by_default_none_does():
    traced: list[str] = []

    class Traces(Tracer):
        def around_call(self, source, request):
            traced.append(request.agent)
            return source

    run_virtual(agent("Hi.", tracer=Traces()).call("Hello"))
    assert traced == ["Friday"]


@pytest.mark.parametrize(("parallel", "seconds"), [(True, 2.0), (False, 3.0)])
def test_tools_run_at_once_or_in_turn_in_call_order(parallel: bool, seconds: float):
    async def main() -> None:
        friday = agent(
            [call("nap", seconds=2), call("nap", seconds=1)], "Awake.", toolkit=Toolkit([nap], parallel=parallel)
        )
        began = asyncio.get_running_loop().time()
        await friday.call("Go")
        assert asyncio.get_running_loop().time() - began == seconds
        assert [each.text for each in results(friday)] == ["2.0", "1.0"]

    run_virtual(main())


def test_tools_are_tried_again_with_backoff_and_timed_out():
    tries: list[float] = []

    @tool(execution_config=ExecutionConfig(max_attempts=3, timeout=60, retry_on=lambda error: True))
    async def flaky() -> str:
        """Works at the third time."""
        tries.append(asyncio.get_running_loop().time())
        if len(tries) < 3:
            raise ConnectionError
        await asyncio.sleep(3600)
        return "never"

    friday = agent(call("flaky"), "Too slow.", tools=[flaky])
    run_virtual(friday.call("Go"))
    assert 1 <= tries[1] - tries[0] <= 3 and 2 <= tries[2] - tries[1] <= 6
    assert results(friday)[0].kind is ToolResultKind.TIMEOUT


def test_tools_are_given_objects_of_the_call_by_type_and_by_key():
    class User:
        def __init__(self, name: str) -> None:
            self.name = name

    async def greet(user: User, admin: User) -> str:
        """Greets."""
        return f"{user.name}, {admin.name}"

    greet.__annotations__ = {"user": Annotated[User, Inject], "admin": Annotated[User, Inject("admin")], "return": str}
    context = RuntimeContext(User("Ann"))
    context.put(User("Ben"), "admin")
    friday = agent(call("greet"), "Hello.", tools=[greet])
    run_virtual(friday.call("Go", context=context))
    assert results(friday)[0].text == "Ann, Ben"


def test_hooks_change_arguments_answer_and_reply():
    class Changes(ReActAgent):
        def pre_acting(self, event):
            return event.replace(tool_use=event.tool_use.with_input({"a": 10, "b": 1}))

        def post_reasoning(self, event):
            return None if event.message.tool_calls else event.replace(message=event.message.replace(content="B"))

        def post_call(self, event):
            return event.replace(message=event.message.replace(content=event.message.text + "!"))

    friday = agent(call("add", a=1, b=2), "A", cls=Changes)
    assert run_virtual(friday.call("Go")).text == "B!"
    assert results(friday)[0].text == "11" and friday.memory.messages[-1].text == "B!"


def test_an_error_reaches_error_hooks_and_the_caller():
    heard: list[str] = []

    @hook(ErrorEvent)
    def note(event: ErrorEvent):
        heard.append(event.error_text)

    with pytest.raises(ValueError, match="boom"):
        run_virtual(agent(ValueError("boom"), hooks=[note]).call("Go"))
    assert heard == ["boom"]


def test_an_interruption_keeps_the_text_and_replies_as_given():
    async def main() -> None:
        friday = agent(["Let me ", HANG], "On.")
        running = friday.call("Go").as_task()
        await asyncio.sleep(1)
        friday.interrupt(Msg.assistant("Cancelled.", "Friday"))
        assert (await running).text == "Cancelled."
        assert [message.text for message in friday.memory.messages] == ["Go", "Let me ", "Cancelled."]
        assert (await friday.call("Go on")).text == "On."

    run_virtual(main())


def test_interrupted_tools_get_results_and_the_reply_is_ours():
    class Polite(ReActAgent):
        def handle_interrupt(self, run):
            return just(Msg.assistant("Of course.", self.name))

    async def main() -> None:
        friday = agent([call("nap", seconds=9), call("nap", seconds=8)], cls=Polite)
        running = friday.call("Go").as_task()
        await asyncio.sleep(1)
        friday.interrupt()
        assert (await running).text == "Of course."
        assert [each.kind for each in results(friday)] == [ToolResultKind.INTERRUPTED] * 2

    run_virtual(main())


def test_state_is_saved_and_loaded():
    async def main() -> None:
        session, friday, other = InMemorySession(), agent("Hi."), agent()
        await friday.call("Hello")
        await friday.save(session, "ann")
        assert await other.load(session, "ann") and other.memory.messages == friday.memory.messages

    run_virtual(main())


def test_structured_output_is_checked_asked_for_again_and_typed():
    class Weather(BaseModel):
        city: str

    friday = agent(call("generate_response", city=3), "In Rome?", call("generate_response", city="Rome"))
    reply = run_virtual(friday.call("Where?", output=Weather))
    assert reply.structured(Weather).city == "Rome" and not results(friday)


def test_observing_remembers_and_answers_nothing():
    friday = agent()
    run_virtual(friday.observe([Msg.user("Hear this."), Msg.assistant("And this.", "Ben")]))
    assert len(friday.memory.messages) == 2 and not friday.model.requests


def test_hooks_stand_around_reply_reasoning_and_acting():
    seen: list[str] = []
    names = ["pre_reply", "pre_reasoning", "post_reasoning", "pre_acting", "post_acting", "post_reply"]
    methods = {name: (lambda self, event, name=name: seen.append(name)) for name in names}
    friday = agent(call("add", a=1, b=2), "3", cls=type("Noting", (ReActAgent,), methods))
    run_virtual(friday.call("Go"))
    assert seen == [*names[:5], "pre_reasoning", "post_reasoning", "post_reply"]


def test_the_finish_tool_ends_the_run_and_text_counts_as_it():
    """Python up to 1.0.7; at `max_iters` it, too, ends by a summary."""
    friday = agent(call("add", a=1, b=2), call("generate_response", response="3"), "Plain.", finish="tool")
    assert run_virtual(friday.call("Go")).text == "3"
    assert roles(friday) == ["user", "assistant", "tool", "assistant"]
    assert run_virtual(friday.call("And now?")).text == "Plain."
    assert all(request.tools[-1].name == "generate_response" for request in friday.model.requests)
    short = agent(call("add", a=1, b=2), "So far: 3.", finish="tool", max_iters=1)
    assert run_virtual(short.call("Go")).generate_reason is GenerateReason.MAX_ITERATIONS
