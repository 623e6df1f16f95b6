"""A structured call that waits, or was cut off, is still one when it goes on: also in another process."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, Field
from pydantic_core import to_json

from agentscope_rx import (
    Approve,
    GenerateReason,
    GracefulShutdown,
    Msg,
    Reject,
    StructuredOutput,
    Toolkit,
    ToolSuspend,
    UserAgent,
    tool,
)
from agentscope_rx.agent import StatePersistence
from agentscope_rx.agent.structured_output.pending import PendingOutput, read_output, saved_output
from agentscope_rx.errors import AgentShuttingDownError, ConfigurationError, SavedStateError, StructuredOutputError
from agentscope_rx.messages import ToolResultBlock, ToolUseBlock
from agentscope_rx.session import InMemorySession
from agentscope_rx.testing import run_virtual
from agentscope_rx.testing.scripted_model import Delay, ScriptedModel
from tests.agent.parts import agent, assert_whole, remembered


class Answer(BaseModel):
    files: int = Field(ge=0)
    note: str | None = None


@tool(requires_approval=True)
def delete(path: str) -> str:
    """Deletes a file."""
    return f"deleted {path}"


@tool
def ask_boss(question: str) -> str:
    """Asks a person who is not there."""
    raise ToolSuspend("ask later")


def call(name: str, id: str, /, **arguments: object) -> ToolUseBlock:
    return ToolUseBlock(id, name, arguments)


def respond(id: str = "r", /, **arguments: object) -> ToolUseBlock:
    return call("generate_response", id, **arguments)


WAITS = [call("delete", "a", path="x")]


def friday(*turns: object, modes: tuple[str, ...] = ("tool",), **options: Any):
    model = ScriptedModel(*turns, output_modes=modes)
    return agent(model, tools=None, toolkit=Toolkit([delete, ask_boss]), **options)


async def again(someone: Any, reloaded: bool, *turns: object, **options: Any) -> Any:
    """The agent with these turns to come; read from JSON in another process, or the same one."""
    if not reloaded:
        someone.model = ScriptedModel(*turns, output_modes=options.get("modes", ("tool",)))
        return someone
    session = InMemorySession()
    await someone.save(session, "s")
    state = json.loads(json.dumps((await session.load_all("s")).values["state"]))
    await session.save("s", "state", state)
    other = friday(*turns, **options)
    assert await other.load(session, "s")
    return other


@pytest.mark.parametrize("reloaded", [False, True])
@pytest.mark.parametrize("answer", [None, Approve("a"), Reject("a", "no"), "result"])
def test_an_approved_call_goes_on_to_its_output(reloaded: bool, answer: Any):
    async def main() -> None:
        first = friday(WAITS)
        waiting = await first.call("How many?", output=Answer)
        assert waiting.pending_calls and not waiting.has_structured
        given = Msg.tool(ToolResultBlock("a", "delete", "gone")) if answer == "result" else answer
        if given is None:
            # nothing was decided: it waits, and asks for the same afterwards
            still = await again(first, reloaded)
            assert (await still.call()).pending_calls
            first, given = still, Approve("a")
        second = await again(first, reloaded, [respond(files=-1)], [respond("r2", files=3)])
        reply = await second.call(given)
        assert reply.structured(Answer) == Answer(files=3) and reply.structured() == {"files": 3}
        assert reply.generate_reason is GenerateReason.STRUCTURED_OUTPUT
        assert "generate_response" in [each.name for each in second.model.requests[0].tools]
        assert_whole(second)
        assert second.conversation().output is None

    run_virtual(main())


@pytest.mark.parametrize("reloaded", [False, True])
@pytest.mark.parametrize("mode", ["native", "prompted", "tool"])
def test_each_mode_asks_again_with_the_same_schema(mode: str, reloaded: bool):
    async def main() -> None:
        wanted = StructuredOutput(list[int], mode=mode, max_retries=1, name="hand_over", description="Hand it over.")
        modes = ("native", "tool", "prompted")
        first = friday(WAITS, modes=modes)
        await first.call("Which?", output=wanted)
        before = first.model.requests[0]
        turns = [call("hand_over", "r", response=[1, 2])] if mode == "tool" else '{"response": [1, 2]}'
        second = await again(first, reloaded, turns, modes=modes)
        reply = await second.call(Approve("a"))
        assert reply.structured(list[int]) == [1, 2]
        after = second.model.requests[0]
        assert after.options.response_format == before.options.response_format
        assert {t.name: t.parameters for t in after.tools} == {t.name: t.parameters for t in before.tools}
        assert after.messages[0].text == before.messages[0].text

    run_virtual(main())


@pytest.mark.parametrize("reloaded", [False, True])
def test_how_it_fails_is_kept_too(reloaded: bool):
    async def main() -> None:
        for on_failure in ("error", "text"):
            first = friday(WAITS)
            await first.call("?", output=StructuredOutput(Answer, max_retries=0, on_failure=on_failure))
            second = await again(first, reloaded, "in words")
            if on_failure == "text":
                assert (await second.call(Approve("a"))).text == "in words"
            else:
                with pytest.raises(StructuredOutputError):
                    await second.call(Approve("a"))

    run_virtual(main())


@dataclass
class Other:
    name: str


@pytest.mark.parametrize("reloaded", [False, True])
def test_the_output_that_is_given_again_wins(reloaded: bool):
    async def main() -> None:
        first = friday(WAITS)
        await first.call("?", output=Answer)
        second = await again(first, reloaded, [respond(name="Ann")])
        assert (await second.call(Approve("a"), output=Other)).structured(Other) == Other("Ann")

    run_virtual(main())


@pytest.mark.parametrize("reloaded", [False, True])
def test_new_words_are_a_new_question(reloaded: bool):
    async def main() -> None:
        first = friday(WAITS)
        await first.call("?", output=Answer)
        second = await again(first, reloaded, "Hello.", "Hello again.")
        assert (await second.call("Something else")).text == "Hello."
        assert (await second.call()).text == "Hello again."
        assert "generate_response" not in [each.name for each in second.model.requests[0].tools]

    run_virtual(main())


@pytest.mark.parametrize("reloaded", [False, True])
def test_a_call_without_output_is_not_given_one(reloaded: bool):
    async def main() -> None:
        first = friday([respond(files=1)], WAITS)
        await first.call("?", output=Answer)
        await first.call("and now in words")
        second = await again(first, reloaded, "In words.")
        assert (await second.call(Approve("a"))).text == "In words."

    run_virtual(main())


@pytest.mark.parametrize("reloaded", [False, True])
def test_it_is_kept_over_several_waits(reloaded: bool):
    async def main() -> None:
        first = friday([*WAITS, call("ask_boss", "q", question="?")])
        await first.call("?", output=Answer)
        second = await again(first, reloaded)
        assert [each.id for each in (await second.call(Approve("a"))).pending_calls] == ["q"]
        third = await again(second, reloaded, [call("delete", "b", path="y")])
        assert (await third.call(Msg.tool(ToolResultBlock("q", "ask_boss", "yes")))).pending_calls
        fourth = await again(third, reloaded, [respond(files=2)])
        assert (await fourth.call(Approve("b"))).structured(Answer) == Answer(files=2)
        assert_whole(fourth)

    run_virtual(main())


@pytest.mark.parametrize("reloaded", [False, True])
def test_the_finish_tool_takes_the_output_again(reloaded: bool):
    async def main() -> None:
        first = friday(WAITS, finish="tool")
        await first.call("?", output=Answer)
        second = await again(first, reloaded, [respond(response="Three.", files=3)], finish="tool")
        reply = await second.call(Approve("a"))
        assert (reply.text, reply.structured(Answer)) == ("Three.", Answer(files=3))

    run_virtual(main())


@pytest.mark.parametrize("given", [None, "?"])
@pytest.mark.parametrize("reloaded", [False, True])
def test_what_a_shutdown_has_cut_off_asks_again(given: str | None, reloaded: bool):
    async def main() -> None:
        shutdown = GracefulShutdown(timeout=1)
        first = friday([Delay(10), "late"], shutdown=shutdown)
        running = first.call("?", output=Answer).as_task()
        await asyncio.sleep(0.5)
        await shutdown.begin()
        with pytest.raises(AgentShuttingDownError):
            await running
        second = await again(first, True, [respond(files=1)], "Hi.")
        assert (await second.call(given)).structured(Answer) == Answer(files=1)
        second = await again(first, True, "Hi.")
        assert (await second.call("Something else")).text == "Hi."

    run_virtual(main())


def test_a_person_who_was_asked_is_asked_for_the_same_again():
    async def main() -> None:
        shutdown, session, asked = GracefulShutdown(timeout=1), InMemorySession(), list[object]()

        async def late(question: object) -> str:
            await asyncio.sleep(10)
            return "late"

        def now(question: Any) -> dict[str, int]:
            asked.append(question.output)
            return {"files": 4}

        ann = UserAgent("Ann", late, shutdown=shutdown)
        running = ann.call("?", output=Answer).as_task()
        await asyncio.sleep(0.5)
        await shutdown.begin()
        with pytest.raises(AgentShuttingDownError):
            await running
        await ann.save(session, "s")
        other = UserAgent("Ann", now)
        await other.load(session, "s")
        assert (await other.call()).structured(Answer) == Answer(files=4)
        assert isinstance(asked[0], StructuredOutput)

    run_virtual(main())


def test_a_model_without_the_mode_is_refused_before_any_change():
    async def main() -> None:
        first = friday(WAITS, modes=("native", "tool"))
        await first.call("?", output=StructuredOutput(Answer, mode="native"))
        second = await again(first, True, [respond(files=1)], modes=("tool",))
        before = list(remembered(second))
        with pytest.raises(ConfigurationError, match="native"):
            await second.call(Approve("a"))
        assert list(remembered(second)) == before
        assert (await second.call(Approve("a"), output=Answer)).structured(Answer) == Answer(files=1)

    run_virtual(main())


@pytest.mark.parametrize(
    "wrong",
    [
        {"schema": {"type": 3}},
        {"mode": "loud"},
        {"max_retries": -1},
        {"name": "no name"},
        {"on_failure": "x"},
        {"calls": 1},
    ],
)
def test_a_saved_request_that_is_none_is_refused(wrong: dict[str, object]):
    async def main() -> None:
        session, first = InMemorySession(), friday(WAITS)
        await first.call("?", output=Answer)
        await first.save(session, "s")
        state: Any = (await session.load_all("s")).values["state"]
        state["output"].update(wrong)
        await session.save("s", "state", state)
        second = friday("hi")
        with pytest.raises(SavedStateError):
            await second.load(session, "s")
        assert list(remembered(second)) == [] and second.conversation().output is None

    run_virtual(main())


def test_a_load_without_pending_state_has_no_output_to_resume():
    async def main() -> None:
        session, first = InMemorySession(), friday(WAITS)
        await first.call("?", output=Answer)
        await first.save(session, "s")
        second = friday("words")
        await second.load(session, "s", persistence=StatePersistence.memory_only())
        assert second.conversation().output is None

    run_virtual(main())


class Tree(BaseModel):
    name: str
    below: list[Tree]


# refers to itself as the whole, which moves when it is put into a field
REF = {"anyOf": [{"type": "integer"}, {"type": "array", "items": {"$ref": "#"}}]}
kinds = st.sampled_from(
    [Answer, Other, int, list[Other], dict[str, int], Answer | Other, int | None, {"type": "integer"}, Tree, REF]
)


@given(
    kinds,
    st.sampled_from(["auto", "native", "tool", "prompted"]),
    st.integers(0, 5),
    st.sampled_from(["error", "text"]),
    st.frozensets(st.sampled_from("abc")),
)
@settings(max_examples=60)
def test_what_is_read_asks_for_what_was_asked(
    kind: Any, mode: Any, retries: int, on_failure: Any, calls: frozenset[str]
):
    output = StructuredOutput(kind, mode=mode, max_retries=retries, on_failure=on_failure, reminder="prompt")
    found = read_output(json.loads(json.dumps(saved_output(PendingOutput(output, calls)))))
    assert found is not None and found.calls == calls
    assert to_json(found.output.shape.schema) == to_json(output.shape.schema)
    assert found.output.shape.field == output.shape.field
    same = ("mode", "max_retries", "on_failure", "reminder", "name", "description")
    assert [getattr(found.output, each) for each in same] == [getattr(output, each) for each in same]
    assert saved_output(found) == saved_output(PendingOutput(output, calls))
