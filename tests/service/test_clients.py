"""A real server and clients that leave, stall and return, all at once and while it shuts down."""

from __future__ import annotations

import asyncio
import socket
import struct
import threading
import time
from collections.abc import Callable

import pytest
from starlette.middleware.base import BaseHTTPMiddleware
from starlette.middleware.gzip import GZipMiddleware

from agentscope_rx import ReActAgent
from agentscope_rx.events import PostCallEvent
from agentscope_rx.models import OpenAIChatModel
from agentscope_rx.service import LiveRun, Runs, create_app
from agentscope_rx.testing import ScriptedModel
from tests.agent.parts import agent, assert_whole
from tests.service.firehose import firehose
from tests.service.serving import (
    PATIENCE,
    RawClient,
    Served,
    Speaker,
    ask,
    checked,
    events_of,
    served,
    sse,
)


def until(server: Served, true: Callable[[], bool]) -> None:
    """Turn the server's loop until it is so."""
    deadline = time.monotonic() + PATIENCE
    while not server.on_loop(true):
        assert time.monotonic() < deadline, "it never came to be so"


def turn(server: Served, times: int) -> None:
    """Let the server do what it can: so many rounds of its loop, and a few requests."""
    for _ in range(times):
        server.on_loop(lambda: None)
    with server.client() as client:
        for _ in range(times // 20):
            assert client.get("/runs/unknown/events").status_code == 404


def at_rest(server: Served, look: Callable[[], object]) -> object:
    """What is seen once nothing moves any more; buffers of the network take a moment to fill."""
    deadline = time.monotonic() + PATIENCE
    seen, same = look(), 0
    while same < 4:
        assert time.monotonic() < deadline, "it never came to rest"
        turn(server, 100)
        before, seen = seen, look()
        same = same + 1 if seen == before else 0
    return seen


def live_run(runs: Runs) -> LiveRun:
    """The one run there is."""
    (run,) = runs._live
    return run


# --- leaving ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("after", ["pre_call", "pre_reasoning", "reasoning_chunk"])
def test_a_run_and_its_model_end_when_the_client_leaves(after: str):
    model = Speaker(["One ", "moment "], hang=True)
    friday = agent(model)
    app = create_app(friday)
    with served(app) as server:
        with server.client() as client, sse(client, "POST", "/run", json={"text": "hi"}) as source:
            for event in source.iter_sse():
                if event.event == after:
                    break
            model.asked.wait(PATIENCE)
        assert model.closed.wait(PATIENCE)
        until(server, lambda: not friday.running)
        until(server, lambda: app.state.runs.statistics() == (0, 0, 0))
        assert_whole(friday)
        model.hang = False
        with server.client() as client:
            assert isinstance(ask(client)[-1], PostCallEvent)


def test_the_run_ends_behind_a_middleware_too():
    model = Speaker(["One ", "moment "], hang=True)
    friday = agent(model)
    app = create_app(friday)

    async def pass_on(request, call_next):
        return await call_next(request)

    app.add_middleware(BaseHTTPMiddleware, dispatch=pass_on)
    app.add_middleware(GZipMiddleware)
    with served(app) as server, server.client() as client:
        with sse(client, "POST", "/run", json={"text": "hi"}) as source:
            for event in source.iter_sse():
                if event.event == "reasoning_chunk":
                    break
        assert model.closed.wait(PATIENCE)
        until(server, lambda: not friday.running)
        model.hang = False
        assert isinstance(ask(client)[-1], PostCallEvent)


def test_a_client_that_is_cut_off_without_a_word():
    model = Speaker(["One ", "moment "], hang=True)
    friday = agent(model)
    with served(create_app(friday)) as server:
        client = RawClient(server.port)
        client.send("POST", "/run", {"text": "hi"})
        client.read_until(b"moment")
        # a reset, not a farewell
        client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        client.close()
        assert model.closed.wait(PATIENCE)
        until(server, lambda: not friday.running)


def test_a_client_that_returns_takes_up_its_run():
    model = Speaker(["One ", "moment "], hang=True)
    friday = agent(model)
    app = create_app(friday, on_disconnect="continue")
    with served(app) as server, server.client() as client:
        with sse(client, "POST", "/run", json={"text": "hi"}) as source:
            seen = []
            for event in source.iter_sse():
                seen.append(checked(event))
                if event.event == "reasoning_chunk":
                    break
        run = live_run(app.state.runs)
        until(server, lambda: run.statistics().readers == 0)
        assert friday.running and not model.closed.is_set()
        path = f"/runs/{seen[0].run_id}/events"
        with sse(client, "GET", path, headers={"last-event-id": str(seen[-1].seq)}) as source:
            events = source.iter_sse()
            seen.append(checked(next(events)))
            # what comes now is live
            model.go_on.say()
            seen += [checked(event) for event in events]
        assert [event.seq for event in seen] == list(range(len(seen)))
        assert isinstance(seen[-1], PostCallEvent) and seen[-1].message.text == "One moment at last"
        with sse(client, "GET", path) as source:
            assert events_of(source) == seen
        done = client.get(path, headers={"last-event-id": str(seen[-1].seq)})
        assert (done.status_code, done.content) == (204, b"")


# --- stalling ---------------------------------------------------------------------------------------------------------


def test_a_stalled_client_stops_the_reading_of_the_model():
    with firehose() as upstream:
        friday = ReActAgent("Friday", OpenAIChatModel("test", base_url=upstream.base_url, api_key="k"))
        app = create_app(friday, heartbeat=None)
        with served(app) as server, RawClient(server.port) as client:
            client.send("POST", "/run", {"text": "hi"})
            client.read_until(b"event: reasoning_chunk")
            run = live_run(app.state.runs)
            at_rest(server, lambda: (run.statistics(), upstream.written))
            told, written = run.statistics(), upstream.written
            # how much of the last fill the network still took is the machine's affair
            assert upstream.blocked and told.withheld and 32 < told.behind <= told.capacity == 64
            # it reads on, and everything moves again
            for _ in range(2 * told.received):
                client.read_until(b"event: reasoning_chunk")
            until(server, lambda: run.statistics().received > told.received and upstream.written > written)
            at_rest(server, lambda: (run.statistics(), upstream.written))
            assert upstream.blocked and run.statistics().withheld and 32 < run.statistics().behind <= 64
            assert not upstream.left.is_set()
            client.close()
            assert upstream.left.wait(PATIENCE)
            until(server, lambda: run.gone.fired and not friday.running)


def test_one_stalled_client_stops_no_other_run():
    stalled, other = agent(Speaker(["x" * 5000] * 200)), agent(ScriptedModel("fine", repeat=True))
    app = create_app(lambda request: stalled if "stall" in request.query_params else other)
    with served(app) as server, RawClient(server.port) as raw, server.client() as client:
        raw.send("POST", "/run?stall", {"text": "hi"})
        raw.read_until(b"event: reasoning_chunk")
        run = live_run(app.state.runs)
        until(server, lambda: run.statistics().withheld)
        for _ in range(5):
            assert isinstance(ask(client)[-1], PostCallEvent)
        assert run.statistics().withheld
        # it has missed nothing
        seqs = [int(piece.split(b"\n")[0]) for piece in raw.read_until(b"event: post_call").split(b"\nid: ")[1:]]
        assert seqs == list(range(seqs[0], run.statistics().received)) and len(seqs) > 190


def test_a_client_that_stalls_too_long_counts_as_gone():
    model = Speaker(["x" * 5000] * 200)
    friday = agent(model)
    app = create_app(friday, send_timeout=0.05)
    expected = ["ASGI callable returned without completing response."]
    with served(app, expected=expected) as server, RawClient(server.port) as raw:
        raw.send("POST", "/run", {"text": "hi"})
        assert model.closed.wait(PATIENCE)
        until(server, lambda: not friday.running)
        assert model.read < 200


# --- many, and the end ------------------------------------------------------------------------------------------------


def test_many_clients_at_once_some_of_whom_leave():
    agents = [agent(Speaker(["a "] * 50, hang=number % 3 == 0)) for number in range(30)]
    app = create_app(lambda request: agents[int(request.query_params["n"])])
    finished: list[int] = []

    def visit(number: int) -> None:
        with server.client() as client, sse(client, "POST", f"/run?n={number}", json={"text": "hi"}) as source:
            if number % 3 == 0:
                for event in source.iter_sse():
                    if event.event == "reasoning_chunk":
                        return
            events = events_of(source)
            assert [event.seq for event in events] == list(range(len(events)))
            assert isinstance(events[-1], PostCallEvent)
            finished.append(number)

    with served(app) as server:
        threads = [threading.Thread(target=visit, args=(number,)) for number in range(30)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(finished) == 20
        until(server, lambda: app.state.runs.statistics() == (0, 0, 0))
        for each in agents:
            assert each.model.closed.wait(PATIENCE) and not each.running


def test_several_clients_follow_one_run():
    model = Speaker(["One ", "moment "], hang=True)
    app = create_app(agent(model))
    heard: list[list[object]] = []
    with served(app) as server, server.client() as client:
        with sse(client, "POST", "/run", json={"text": "hi"}) as source:
            events = source.iter_sse()
            first = checked(next(events))

            def follow() -> None:
                with server.client() as other, sse(other, "GET", f"/runs/{first.run_id}/events") as source:
                    heard.append(events_of(source))

            threads = [threading.Thread(target=follow) for _ in range(3)]
            for thread in threads:
                thread.start()
            run = live_run(app.state.runs)
            until(server, lambda: run.statistics().readers == 4)
        # the first one leaves; the run has others
        until(server, lambda: run.statistics().readers == 3)
        model.go_on.say()
        for thread in threads:
            thread.join()
    assert heard[0] == heard[1] == heard[2] and isinstance(heard[0][-1], PostCallEvent)


def test_shutdown_stops_all_runs_and_waits_for_their_cleanup():
    models = [Speaker(["One "], hang=True) for _ in range(3)]
    agents = [agent(model) for model in models]
    app = create_app(lambda request: agents[int(request.query_params["n"])], on_disconnect="continue")
    with served(app, graceful=0, expected=["graceful shutdown exceeded", "CancelledError"]) as server:
        clients = [RawClient(server.port) for _ in agents]
        for number, client in enumerate(clients):
            client.send("POST", f"/run?n={number}", {"text": "hi"})
            client.read_until(b"event: reasoning_chunk")
        clients[0].close()
        runs: Runs = app.state.runs
        until(server, lambda: runs.statistics() == (3, 0, 2))
        server.stop()
        # the loop is closed now: what has not been cleaned up never will be
        assert all(model.closed.is_set() for model in models)
        assert not any(each.running for each in agents)
        assert runs.statistics().live == 0
        for each in agents:
            assert_whole(each)
        for client in clients[1:]:
            client.close()


def test_a_disposed_run_is_repaired_before_the_next_call():
    model = Speaker(["One "], hang=True)
    friday = agent(model)
    with served(create_app(friday)) as server:
        for _ in range(5):
            with server.client() as client, sse(client, "POST", "/run", json={"text": "hi"}) as source:
                assert source.response.status_code == 200
                for event in source.iter_sse():
                    if event.event == "reasoning_chunk":
                        break
            until(server, lambda: not friday.running)
        server.await_(_nothing_left())
    assert_whole(friday)


async def _nothing_left() -> None:
    """Fails if a task of a run is left on the server's loop."""
    left = [task for task in asyncio.all_tasks() if "agentscope_rx" in repr(task.get_coro())]
    assert not left, left
