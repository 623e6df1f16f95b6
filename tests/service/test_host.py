"""`AgentHost`: agents by name, stored conversations and those that a request brings."""

from __future__ import annotations

import pytest

from agentscope_rx import ConfigurationError, InMemoryMemory, Msg, ReActAgent
from agentscope_rx.service import AgentHost, UnknownAgentError
from agentscope_rx.service.runs.live_run import LiveRun
from agentscope_rx.testing import ScriptedModel, run_virtual


async def answered(run: LiveRun) -> list[str]:
    reader = run.follow()
    kinds: list[str] = []
    try:
        while await reader.wait():
            kinds.append(reader.take().event.type)
    finally:
        await run.leave(reader)
    return kinds


def texts(model: ScriptedModel, number: int) -> list[str]:
    return [message.text for message in model.requests[number].messages]


def test_a_session_id_names_a_stored_conversation_of_a_user() -> None:
    model = ScriptedModel("one", "two", "three")

    async def main() -> None:
        async with AgentHost(ReActAgent("a", model)) as host:
            for text, user in (("first", "ann"), ("second", "ann"), ("other", "bob")):
                assert "post_call" in await answered(host.begin("a", text, user=user, session_id="s"))

    run_virtual(main())
    assert texts(model, 1) == ["first", "one", "second"]
    assert texts(model, 2) == ["other"]


def test_a_memory_is_the_conversation_of_one_request() -> None:
    model = ScriptedModel("one", "two")

    async def main() -> None:
        async with AgentHost(ReActAgent("a", model)) as host:
            memory = InMemoryMemory([Msg.user("before"), Msg.assistant("yes")])
            await answered(host.begin(None, "now", memory=memory))
            await answered(host.begin(None, "alone"))
            assert host.runs.statistics() == (0, 0, 0)

    run_virtual(main())
    assert texts(model, 0) == ["before", "yes", "now"]
    assert texts(model, 1) == ["alone"]


def test_agents_of_two_names_do_not_share_a_session_id() -> None:
    model = ScriptedModel("one", "two")
    agents = {"a/b": ReActAgent("x", model), "a": ReActAgent("x", model)}

    async def main() -> None:
        async with AgentHost(agents) as host:
            await answered(host.begin("a/b", "first", user="u", session_id="s"))
            await answered(host.begin("a", "second", user="b/u", session_id="s"))
            with pytest.raises(UnknownAgentError, match="There is no agent 'c'"):
                host.begin("c", "hi")
            with pytest.raises(UnknownAgentError, match="names no agent"):
                host.begin(None, "hi")

    run_virtual(main())
    assert texts(model, 1) == ["second"]


def test_what_is_no_agent_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="at least one agent"):
        AgentHost({})
    with pytest.raises(ConfigurationError, match="must be an Agent"):
        AgentHost({"a": object()})  # type: ignore[dict-item]
