"""The acceptance cases 131-146 of §22: messages, memory, session. One test each, by number.

Shutdown (143-146) is in `tests/agent/test_shutdown`, the user agent (158, 159) in `tests/agent/test_user_agent`;
long-term memory and RAG (136, 137, 160) and saved tool groups (part of 138) are not here yet.
"""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor

import pytest

from agentscope_rx import (
    GenerateReason,
    InMemoryMemory,
    InMemorySession,
    JsonSession,
    Msg,
    StatePersistence,
    ToolUseBlock,
    hook,
)
from agentscope_rx.errors import ConfigurationError, InvalidInputError, SessionError
from agentscope_rx.events import PostReasoningEvent
from agentscope_rx.messages import TextBlock, ThinkingBlock
from agentscope_rx.testing import run_virtual
from tests.acceptance.parts import agent, said, use
from tests.agent.parts import remembered


@pytest.mark.spec("case 131")
def test_case_131_the_reason_is_a_field():
    """Departure: a reason that nobody knows is an error; metadata is not touched by it."""
    message = Msg.assistant("x").replace(metadata={"k": 1})
    assert message.generate_reason is GenerateReason.MODEL_STOP
    changed = message.replace(generate_reason=GenerateReason.INTERRUPTED)
    assert (changed.id, changed.metadata, changed.timestamp) == (message.id, {"k": 1}, message.timestamp)
    assert Msg.from_json(changed.to_json()).generate_reason is GenerateReason.INTERRUPTED
    data = json.loads(message.to_json())
    with pytest.raises(InvalidInputError, match="generate_reason"):
        Msg.from_dict({**data, "generate_reason": "whatever"})


@pytest.mark.spec("case 132")
def test_case_132_text():
    assert Msg.assistant([TextBlock("a"), ThinkingBlock("t"), use("c"), TextBlock("b")]).text == "a\nb"
    assert Msg.assistant(use("c")).text == ""


@pytest.mark.spec("case 133")
def test_case_133_calls():
    """JSON and immutability; what the caller changes later does not show."""
    arguments = {"a": [1, {"b": 2}]}
    call = ToolUseBlock("x", "y", arguments)
    arguments["a"].append(3)
    assert call.input == {"a": [1, {"b": 2}]}
    message = Msg.assistant(call)
    assert Msg.from_json(message.to_json()).tool_calls == (call,)
    with pytest.raises(TypeError):
        call.input["z"] = 1


@pytest.mark.spec("case 134")
def test_case_134_memory():
    """Deleting what is not there does nothing; many threads lose nothing. Departure: by id, not place."""
    memory = InMemoryMemory([first := Msg.user("a"), second := Msg.user("b")])
    assert memory.delete(["nope"]).run() == 0 and memory.delete([first.id, "nope"]).run() == 1
    assert list(memory.messages) == [second]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda n: memory.add([Msg.user(f"{n}")]).run(), range(64)))
    assert sorted(message.text for message in memory.messages) == sorted(["b", *map(str, range(64))])


@pytest.mark.spec("case 135", "case 138", "case 139", "case 140", "W70")
def test_cases_135_138_139_saved_state(tmp_path):
    """Loading replaces; each save after growth, change or shrinking is what is read;
    the choice of what is kept."""

    async def main():
        session = JsonSession(tmp_path)
        friday = agent("one", "two", "three")

        async def check():
            await friday.save(session, "s")
            other = agent(memory=InMemoryMemory([Msg.user("gone")]))
            assert await other.load(session, "s")
            assert list(remembered(other)) == list(remembered(friday))
            # after a reload nothing is rewritten, and nothing lost
            await other.save(session, "s")
            third = agent()
            await third.load(session, "s")
            assert list(remembered(third)) == list(remembered(friday))

        for word in "abc":
            await friday.call(word)
            await check()
        for number in range(len(remembered(friday))):
            changed = remembered(friday)[number].replace(content=f"changed {number}")
            await friday.memory.replace(changed)
            await check()
        await friday.memory.delete([remembered(friday)[2].id])
        await check()
        await friday.memory.clear()
        await check()

        stopped = agent(use("a"), hooks=[hook(PostReasoningEvent)(lambda event: event.stop())])
        await stopped.call("hi")
        await stopped.save(session, "t")
        for kept, lines, pending in (
            (StatePersistence(), ["user hi", "Friday [a]"], {"a"}),
            (StatePersistence.memory_only(), ["user hi", "Friday [a]"], None),
            (StatePersistence(memory=False), [], {"a"}),
        ):
            other = agent(state_persistence=kept)
            assert await other.load(session, "t")
            assert said(other) == lines and other.conversation().pending == pending
        assert not await agent(state_persistence=StatePersistence(memory=False, pending=False)).load(session, "t")

    run_virtual(main())


@pytest.mark.spec("case 141", "case 142", "W71")
@pytest.mark.parametrize("kind", [InMemorySession, JsonSession])
def test_cases_141_142_isolation_and_keys(kind, tmp_path):
    """Sessions are apart, keys alike in both stores; a blank one is refused."""

    async def main():
        session = kind(tmp_path) if kind is JsonSession else kind()
        for key in ("a", "b", "a b/ü"):
            friday = agent("x")
            await friday.call(f"of {key}")
            await friday.save(session, key)
        assert sorted(await session.keys()) == ["a", "a b/ü", "b"]
        await session.delete("a")
        other = agent()
        assert not await other.load(session, "a") and said(other) == []
        assert await other.load(session, "b") and said(other) == ["user of b", "Friday x"]
        for blank in ("", "  "):
            with pytest.raises((SessionError, InvalidInputError)):
                await other.save(session, blank)
        for method in (other.save, other.load, other.bind):
            with pytest.raises(ConfigurationError, match=r"session must be .*JsonSession.*, not None"):
                method(None, "a")

    run_virtual(main())
