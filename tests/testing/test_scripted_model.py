"""`ScriptedModel` plays its script, records what it was asked, and says what was left unplayed."""

from __future__ import annotations

import asyncio

import pytest

from agentscope_rx import GenerateOptions, Msg, ReActAgent
from agentscope_rx.errors import ConfigurationError, ModelConnectionError
from agentscope_rx.messages import ChatUsage, History, ImageBlock, TextBlock, ThinkingBlock, ToolUseBlock, URLSource
from agentscope_rx.models import ChatResponse, ExecutionConfig, FinishReason, ToolSchema, ToolUseDelta
from agentscope_rx.testing import HANG, Delay, ScriptedModel, ScriptedRequest, ScriptExhaustedError, call, run_virtual
from tests.agent.parts import agent, events_of

HI = (Msg.user("hi"),)
ONCE = ExecutionConfig(max_attempts=1)


PATIENT = ExecutionConfig(timeout=None, total_timeout=None)


def played(model: ScriptedModel, messages=HI, **asked) -> list[ChatResponse]:
    async def main() -> list[ChatResponse]:
        return [chunk async for chunk in model.stream(messages, **asked)]

    return run_virtual(main())


STEPS = [
    "text",
    TextBlock("text"),
    ThinkingBlock("hm", "sig"),
    ToolUseDelta(0, "a", "tool", "{}"),
    call("tool", x=1),
    ImageBlock(URLSource("https://x/")),
    ChatResponse(usage=ChatUsage(1, 2), finish_reason=FinishReason.STOP),
]


@pytest.mark.parametrize("step", STEPS, ids=lambda step: type(step).__name__)
def test_every_kind_of_content_is_a_chunk(step):
    block = TextBlock(step) if isinstance(step, str) else step
    expected = step if isinstance(step, ChatResponse) else ChatResponse((block,))
    assert played(ScriptedModel(step)) == played(ScriptedModel([step])) == [expected]


def test_a_turn_is_played_in_order():
    assert len(played(ScriptedModel(STEPS))) == len(STEPS)
    assert played(ScriptedModel([])) == []
    assert len(played(ScriptedModel(step for step in STEPS))) == len(STEPS)


def test_a_delay_is_one_of_the_loops_clock():
    async def main() -> list[float]:
        loop = asyncio.get_running_loop()
        model = ScriptedModel(["a", Delay(0.5), "b", Delay(3600), "c"], execution_config=PATIENT)
        return [loop.time() async for _ in model.stream(HI)]

    assert run_virtual(main()) == [0.0, 0.5, 3600.5]


def test_hang_is_silence_until_it_is_stopped():
    async def main() -> list[str]:
        seen: list[str] = []
        model = ScriptedModel(["a", HANG, "never"], execution_config=PATIENT)
        subscription = model.stream(HI).subscribe(lambda chunk: seen.append(chunk.content[0].text))
        await asyncio.sleep(10_000)
        subscription.dispose()
        return seen

    assert run_virtual(main()) == ["a"]


def test_an_exception_ends_the_attempt():
    error = ModelConnectionError("broken")
    model = ScriptedModel(["a", error, "never"], execution_config=ONCE)
    with pytest.raises(ModelConnectionError) as caught:
        played(model)
    assert caught.value is error


def test_there_is_one_attempt_unless_more_are_asked_for():
    model = ScriptedModel(ModelConnectionError("broken"), "ok")
    with pytest.raises(ModelConnectionError):
        played(model)
    assert len(model.requests) == 1


def test_a_retry_plays_the_next_turn():
    model = ScriptedModel(ModelConnectionError("broken"), "ok", execution_config=ExecutionConfig(max_attempts=2))
    assert played(model)[-1] == ChatResponse((TextBlock("ok"),))
    assert len(model.requests) == 2
    model.assert_complete()


def test_requests_are_recorded_as_they_were():
    model = ScriptedModel("a", "b")
    schema = ToolSchema("tool", "A tool.", {"type": "object"})
    messages = list(HI)
    flow = model.stream(messages, [schema], GenerateOptions(seed=1))
    assert model.requests == []
    run_virtual(flow)
    messages.append(Msg.user("later"))
    assert model.requests == [ScriptedRequest(HI, (schema,), GenerateOptions(seed=1))]
    run_virtual(flow)
    assert len(model.requests) == 2 and len(model.requests[1].messages) == 2


def test_views_are_recorded_without_a_copy():
    model = ScriptedModel("a")
    view = History(list(HI))
    played(model, view)
    assert model.requests[0].messages is view


def test_what_was_left_unplayed():
    model = ScriptedModel("a", "b", call("tool"))
    assert model.unplayed == 3
    played(model)
    assert model.unplayed == 2
    with pytest.raises(AssertionError, match=r"2 of 3 turns were not played: .*'b'.*tool"):
        model.assert_complete()
    played(model)
    played(model)
    model.assert_complete()
    assert model.unplayed == 0


def test_one_request_too_many_says_what_was_asked():
    model = ScriptedModel("a")
    played(model)
    with pytest.raises(ScriptExhaustedError, match=r"1 turns.*request 2.*what now") as caught:
        played(model, (Msg.user("what now?"),))
    assert isinstance(caught.value, AssertionError), "a test that does not expect it fails"
    assert len(model.requests) == 2
    with pytest.raises(ScriptExhaustedError, match="0 turns"):
        played(ScriptedModel(), ())


def test_repeat_begins_again():
    model = ScriptedModel("a", "b", repeat=True)
    assert [played(model)[0].content[0].text for _ in range(5)] == ["a", "b", "a", "b", "a"]
    model.assert_complete()
    with pytest.raises(ScriptExhaustedError):
        played(ScriptedModel(repeat=True))


@pytest.mark.parametrize("turn", [None, 3, ["a", 3], [["nested"]], {"type": "text"}, Msg.user("x"), HI])
def test_what_is_no_step_is_refused_at_construction(turn):
    with pytest.raises(ConfigurationError, match="not a step"):
        ScriptedModel("a", turn)


def test_calls_have_ids_of_their_own():
    one, two = call("tool", x=1), call("tool", x=1)
    assert one == ToolUseBlock(one.id, "tool", {"x": 1}) and one.id != two.id
    assert call("tool", name="a parameter may be called name").input["name"]


def test_it_drives_an_agent():
    model = ScriptedModel(call("weather", city="Rome"), ["It is ", Delay(0.5), "sunny."], model_name="mine")
    events = run_virtual(events_of(agent(model), "Weather?"))
    assert events[-1].message.text == "It is sunny."
    assert [request.messages[-1].role.value for request in model.requests] == ["user", "tool"]
    model.assert_complete()


def test_a_turn_may_be_a_function_of_the_request():
    async def later(request: ScriptedRequest):
        await asyncio.sleep(5)
        return [f"{len(request.tools)} tools, ", "later"]

    model = ScriptedModel(lambda request: request.messages[-1].text.upper(), ["So: ", later])
    friday = ReActAgent("Friday", model)
    assert run_virtual(friday.call("hi")).text == "HI"
    assert run_virtual(friday.call("more")).text == "So: 0 tools, later"
    with pytest.raises(ConfigurationError, match="not a step"):
        run_virtual(ReActAgent("Friday", ScriptedModel(lambda request: 5)).call("x"))  # pyright: ignore
    with pytest.raises(ConfigurationError, match="not a step"):
        ScriptedModel(ValueError)  # pyright: ignore


def test_a_turn_may_wait_and_a_closed_answer_is_recorded():
    async def main() -> tuple[str, int]:
        go = asyncio.Event()
        model = ScriptedModel([go, "gone"], [asyncio.Event()], "end")
        friday = ReActAgent("Friday", model)
        asyncio.get_running_loop().call_later(3, go.set)
        text = (await friday.call("x")).text
        assert model.closed == []
        asyncio.get_running_loop().call_later(3, friday.interrupt)
        await friday.call("y")
        assert (await friday.call("z")).text == "end"
        assert model.closed == [model.requests[1]]
        return text, len(model.requests)

    assert run_virtual(main()) == ("gone", 3)


def test_a_call_takes_an_id():
    assert call("f", "c1", id="x").id == "c1"
    assert call("f", "c1", id="x").input == {"id": "x"}
    assert call("f").id != call("f").id
