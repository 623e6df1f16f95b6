"""Pipelines over HTTP, on a real loopback server: run, the log of a run, an approval inside a member, and on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from agentscope_rx import Agent
from agentscope_rx.events import PostCallEvent
from agentscope_rx.messages import GenerateReason
from agentscope_rx.pipeline import Handoffs, SequentialPipeline
from agentscope_rx.service import create_app
from agentscope_rx.testing import call
from tests.pipeline.teams import Done, member, use
from tests.service.serving import ask, events_of, served, sse


def sequence(done: Done) -> Agent:
    cleaner = member("Cleaner", use("d", "delete", path="a"), "a is gone", tools=[done.delete])
    return SequentialPipeline([member("Planner", "delete a"), cleaner, member("Writer", "all done")])


def handoffs(done: Done) -> Agent:
    cleaner = member("Cleaner", use("d", "delete", path="a"), "all done", tools=[done.delete])
    return Handoffs("Desk", [member("Triage", call("transfer_to_cleaner")), cleaner])


@pytest.mark.parametrize("make", [sequence, handoffs])
def test_an_approval_inside_a_member_over_http(make: Callable[[Done], Agent]):
    done = Done()
    with served(create_app(make(done), on_disconnect="continue")) as server, server.client() as client:
        events = ask(client, "clean up")
        assert [each.seq for each in events] == list(range(len(events)))
        asked = events[-1]
        assert isinstance(asked, PostCallEvent) and not done.deleted
        assert asked.message.generate_reason is GenerateReason.APPROVAL_REQUIRED
        [waiting] = asked.message.pending_calls
        at = len(events) // 2
        path = f"/runs/{events[0].run_id}/events"
        with sse(client, "GET", path, headers={"last-event-id": str(at)}) as source:
            assert source.response.status_code == 200, source.response.read()
            assert events_of(source) == events[at + 1 :]
        answers: list[dict[str, Any]] = [{"type": "approve", "call_id": waiting.id, "input": {"path": "b"}}]
        with sse(client, "POST", "/run", json={"answers": answers}) as source:
            last = events_of(source)[-1]
        assert isinstance(last, PostCallEvent) and last.message.text == "all done"
    assert done.deleted == ["b"]
