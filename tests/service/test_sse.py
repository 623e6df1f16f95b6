"""The ASGI side in virtual time: what decides the status, what ends the response, what becomes of the run."""

from __future__ import annotations

import asyncio
import json
import threading
from typing import Any

import pytest
import reactivex
from starlette.requests import Request

from agentscope_rx.errors import ConfigurationError, InvalidInputError
from agentscope_rx.events import event_from_json
from agentscope_rx.reactive import concat, defer, empty, throw, timer
from agentscope_rx.service import LiveRun, Runs, SSEResponse, last_event_id, sse_response
from agentscope_rx.testing import HANG, Delay, ScriptedModel, run_virtual
from tests.agent.parts import agent, assert_whole
from tests.service.test_sse_format import decoded


class Client:
    """What a server would be to the response; `pause` is how long it takes over each message."""

    def __init__(self, pause: float = 0, method: str = "POST") -> None:
        self.scope = {"type": "http", "method": method, "path": "/", "headers": [], "asgi": {"version": "3.0"}}
        self.pause = pause
        self.messages: list[dict[str, Any]] = []
        self.at: list[float] = []
        self.gone = asyncio.Event()
        self.wrote = asyncio.Event()
        self.failing: Exception | None = None

    async def receive(self) -> dict[str, Any]:
        await self.gone.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Any) -> None:
        await asyncio.sleep(self.pause)
        if self.failing is not None:
            raise self.failing
        self.messages.append(message)
        self.at.append(asyncio.get_running_loop().time())
        self.wrote.set()

    async def get(self, response: SSEResponse) -> Client:
        await response(self.scope, self.receive, self.send)
        return self

    @property
    def status(self) -> int:
        return self.messages[0]["status"]

    @property
    def headers(self) -> dict[str, str]:
        return {name.decode(): value.decode() for name, value in self.messages[0]["headers"]}

    @property
    def body(self) -> bytes:
        return b"".join(message.get("body", b"") for message in self.messages[1:])

    @property
    def complete(self) -> bool:
        return bool(self.messages) and not self.messages[-1].get("more_body", False) and len(self.messages) > 1

    @property
    def kinds(self) -> list[str]:
        return [each.event for each in decoded(self.body)]


def friday(*script: Any, **options: Any):
    return agent(ScriptedModel(*script), **options)


def test_a_run_as_a_response():
    async def main():
        response = sse_response(friday(["It is ", "sunny."]).stream("hi"), retry=2)
        client = await Client().get(response)
        assert client.status == 200 and client.complete
        assert client.headers == {
            "content-type": "text/event-stream; charset=utf-8",
            "cache-control": "no-store",
            "x-accel-buffering": "no",
        }
        heard = decoded(client.body)
        assert heard[0].retry == 2000
        assert [event_from_json(each.data).type for each in heard] == [each.event for each in heard]
        assert client.kinds[0] == "pre_call" and client.kinds[-1] == "post_call"
        told = response.statistics()
        assert (told.received, told.readers, told.withheld) == (len(heard), 0, False)

    run_virtual(main())


def test_own_headers_win():
    async def main():
        response = sse_response(friday("x").stream("hi"), headers={"Cache-Control": "no-cache", "x-mine": "1"})
        client = await Client().get(response)
        assert client.headers["x-mine"] == "1" and client.headers["cache-control"] == "no-cache"

    run_virtual(main())


def test_heartbeats_begin_at_once_so_failures_are_events():
    async def main():
        silent = concat(timer(100), throw(ValueError("late")))
        client = await Client().get(sse_response(silent, heartbeat=15))  # pyright: ignore
        # the first signal was the timer's number, which is no event at all
        assert client.status == 200 and client.at[0] == 15
        assert client.body.count(b":\n") >= 5 and client.kinds == ["error"] and client.complete

    run_virtual(main())


@pytest.mark.parametrize("heartbeat", [None, 15])
def test_a_failure_before_any_event_is_a_status(heartbeat):
    async def main():
        client = await Client().get(sse_response(throw(InvalidInputError("not so")), heartbeat=heartbeat))
        assert client.status == 422
        assert json.loads(client.body) == {"error": {"type": "InvalidInputError", "message": "not so"}}
        client = await Client().get(sse_response(defer(lambda: 1 / 0), heartbeat=heartbeat))  # pyright: ignore
        assert client.status == 500 and client.complete

    run_virtual(main())


def test_a_stream_of_nothing_is_a_whole_response():
    async def main():
        client = await Client().get(sse_response(empty()))
        assert client.status == 200 and client.body == b"" and client.complete

    run_virtual(main())


def test_a_busy_agent_is_409_and_its_run_goes_on():
    async def main():
        busy = friday([Delay(100), "done"])
        first = asyncio.ensure_future(Client().get(sse_response(busy.stream("one"))))
        await asyncio.sleep(1)
        second = await Client().get(sse_response(busy.stream("two")))
        assert second.status == 409 and json.loads(second.body)["error"]["type"] == "AgentBusyError"
        assert (await first).kinds[-1] == "post_call"

    run_virtual(main())


@pytest.mark.parametrize("moment", [0, 0.5, 1, 1.5, 20, 50])
def test_the_run_stops_when_the_client_goes_whenever_that_is(moment):
    async def main():
        alone = friday(["One ", Delay(1), "moment ", Delay(30), HANG], "Here I am.")
        client = Client()
        serving = asyncio.ensure_future(client.get(sse_response(alone.stream("hi"), heartbeat=7)))
        await asyncio.sleep(moment)
        client.gone.set()
        await serving
        assert not alone.running and not client.complete
        assert_whole(alone)
        assert (await alone.call("again")).text == "Here I am."

    run_virtual(main())


def test_a_client_that_has_gone_before_the_run_says_anything():
    async def main():
        client = Client()
        client.gone.set()
        hanging = friday([HANG])
        await client.get(sse_response(hanging.stream("hi")))
        assert not hanging.running

    run_virtual(main())


def test_a_server_that_cancels_has_the_run_cleaned_up():
    async def main():
        hanging = friday(["One", HANG])
        client = Client()
        serving = asyncio.ensure_future(client.get(sse_response(hanging.stream("hi"))))
        await asyncio.sleep(1)
        serving.cancel()
        with pytest.raises(asyncio.CancelledError):
            await serving
        assert not hanging.running
        assert_whole(hanging)

    run_virtual(main())


def test_a_client_that_takes_nothing_counts_as_gone_in_time():
    async def main():
        for kind, stopped in (("stop", True), ("continue", False)):
            talker = friday([*"abcdefgh", Delay(1000), "z"])
            async with Runs() as runs:
                client = Client()
                run = runs.add(talker.stream("hi"), on_disconnect=kind)
                serving = asyncio.ensure_future(client.get(sse_response(run, send_timeout=40)))
                await client.wrote.wait()
                began = asyncio.get_running_loop().time()
                client.pause = 10_000
                await serving
                assert asyncio.get_running_loop().time() == began + 40 and not client.complete
                assert run.ended.fired is stopped and talker.running is not stopped

    run_virtual(main())


def test_a_server_that_raises_for_a_client_that_is_gone():
    async def main():
        hanging = friday(["One", HANG])
        client = Client()
        serving = asyncio.ensure_future(client.get(sse_response(hanging.stream("hi"), heartbeat=5)))
        await client.wrote.wait()
        client.failing = OSError("gone")
        await serving
        assert not hanging.running

    run_virtual(main())


def test_a_slow_client_slows_the_run():
    async def main():
        talker = friday([f"{i} " for i in range(300)])
        client = Client(pause=1)
        response = sse_response(talker.stream("hi"))
        serving = asyncio.ensure_future(client.get(response))
        most = 0
        while not serving.done():
            await asyncio.sleep(5)
            told = response.statistics()
            most = max(most, told.behind)
            # one event is under way in each of: the source, the response
            assert told.received - sum(b"data:" in m.get("body", b"") for m in client.messages) <= 64 + 2
        assert most == 64 and client.kinds[-1] == "post_call" and len(client.kinds) == response.statistics().received

    run_virtual(main())


def test_a_sync_burst_is_not_cut():
    async def main():
        events = [event async for event in friday(["a"] * 300).stream("hi")]
        client = await Client().get(sse_response(reactivex.from_iterable(events)))
        assert len(client.kinds) == len(events)

    run_virtual(main())


def test_head_tells_the_headers_and_begins_nothing():
    async def main():
        asked = friday("x")
        client = await Client(method="HEAD").get(sse_response(asked.stream("hi")))
        assert client.status == 200 and client.body == b"" and client.headers["content-type"].startswith("text/event-")
        assert not asked.model.requests

    run_virtual(main())


def test_a_client_that_has_it_all_is_told_not_to_come_back():
    async def main():
        async with Runs() as runs:
            run = runs.add(friday("x").stream("hi"), on_disconnect="continue")
            first = await Client().get(sse_response(run))
            last = int(decoded(first.body)[-1].id)
            again = await Client(method="GET").get(sse_response(run, after=last))
            assert again.status == 204 and again.body == b""
            part = await Client().get(sse_response(run, after=last - 1))
            assert part.status == 200 and part.kinds == ["post_call"]
            wrong = await Client().get(sse_response(run, after=last + 1))
            assert wrong.status == 422

    run_virtual(main())


def test_a_response_runs_where_it_is_sent():
    async def main():
        assert (await Client().get(made[0])).kinds[-1] == "post_call"

    made: list[SSEResponse] = []
    thread = threading.Thread(target=lambda: made.append(sse_response(friday("x").stream("hi"))))
    thread.start()
    thread.join()
    run_virtual(main())


@pytest.mark.parametrize(
    ("header", "query", "number"),
    [(None, "", None), ("", "", None), ("7", "", 7), (None, "last_event_id=12", 12), ("3", "last_event_id=12", 3)],
)
def test_the_last_event_that_a_client_has(header, query, number):
    assert last_event_id(_request(header, query)) == number


@pytest.mark.parametrize("header", ["x", "-1", "1.5", "\u0663", "9" * 30, "NaN"])
def test_what_is_no_number_of_an_event(header):
    with pytest.raises(InvalidInputError, match="must be the number"):
        last_event_id(_request(None, f"last_event_id={header}"))


def _request(header: str | None, query: str) -> Request:
    headers = [] if header is None else [(b"last-event-id", header.encode())]
    return Request({"type": "http", "method": "GET", "headers": headers, "query_string": query.encode()})


@pytest.mark.parametrize(
    "options", [{"heartbeat": 0}, {"heartbeat": float("nan")}, {"send_timeout": -1}, {"retry": -1}]
)
def test_misuse_is_said(options):
    with pytest.raises(ConfigurationError):
        sse_response(LiveRun(empty()), **options)
