"""Background work of an agent that is served: its events, its result in a later run, and the service's end."""

from __future__ import annotations

import asyncio
import threading

from agentscope_rx import BackgroundHook, ReActAgent, tool
from agentscope_rx.events import BackgroundEvent, InputEvent, PostCallEvent
from agentscope_rx.service import create_app
from agentscope_rx.testing import ScriptedModel, call
from tests.service.serving import PATIENCE, ask, served


class Gated:
    """A tool that works until it is let go, or cancelled."""

    def __init__(self) -> None:
        self.go = asyncio.Event()
        self.cancelled = threading.Event()

    async def build(self) -> str:
        """Builds."""
        try:
            await self.go.wait()
        except asyncio.CancelledError:
            self.cancelled.set()
            raise
        return "the docs are built"


def test_a_result_comes_later_and_work_ends_with_the_service():
    work = Gated()
    kit = [tool(background=True)(work.build)]
    model = ScriptedModel(call("build"), "Begun.", "I know.", call("build"), "Begun again.")
    friday = ReActAgent("Friday", model, tools=kit, hooks=[BackgroundHook(wait="leave")])
    with served(create_app(friday)) as server, server.client() as client:
        first = ask(client, "Build.")
        assert [event.state for event in first if isinstance(event, BackgroundEvent)] == ["started"]
        assert isinstance(first[-1], PostCallEvent) and first[-1].message.text == "Begun."

        async def finish() -> None:
            work.go.set()
            await friday.background().wait()
            work.go.clear()

        server.await_(finish())
        second = ask(client, "And?")
        assert [event.state for event in second if isinstance(event, BackgroundEvent)] == ["completed"]
        (given,) = [event for event in second if isinstance(event, InputEvent)]
        assert "the docs are built" in given.input[0].text
        assert [event.seq for event in second] == list(range(len(second)))
        assert ask(client, "Once more.")[-1].message.text == "Begun again."
        assert len(friday.background().in_progress) == 1
    # the end of the server's loop
    assert work.cancelled.wait(PATIENCE) and friday.background().in_progress == ()
    (record,) = friday.background().records.values()
    assert record["state"] == "running"
