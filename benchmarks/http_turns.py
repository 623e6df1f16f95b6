"""Turns over HTTP: what httpx, json and pydantic cost by themselves, and what the engine costs with `OpenAIChatModel`.

    python -m benchmarks.http_turns             a table: turns, chunks, agents at once; the ratio of the medians last
    python -m benchmarks.http_turns serve       the server alone: it prints its port

The server is a process of its own, so that CPU time is that of the client. Both sides send the same bodies, byte for
byte. Each round measures both sides in one process, turn about, because the clock of a shared machine changes from one
second to the next.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import json
import statistics
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager

Work = Callable[[], Awaitable[object]]
SYSTEM = "You are a careful assistant. Use the tool until it says that the work is done."
SCHEMA = {
    "type": "object",
    "properties": {"n": {"default": 0, "type": "integer"}},
    "additionalProperties": False,
}
TOOLS = [{"type": "function", "function": {"name": "step", "description": "The tool.", "parameters": SCHEMA}}]
ROUNDS = 7


def answers() -> tuple[bytes, bytes]:
    """The bodies of an answer with a call (its id is a place to fill), and of the last one."""
    about = {"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "m"}

    def event(delta: dict[str, object], reason: str | None = None, **more: object) -> str:
        choice = {"index": 0, "delta": delta, "finish_reason": reason}
        return f"data: {json.dumps({**about, 'choices': [choice], **more})}\n\n"

    def call(arguments: str, **more: str) -> dict[str, object]:
        names = {"name": "step"} if more else {}
        return {"tool_calls": [{"index": 0, **more, "function": {**names, "arguments": arguments}}]}

    usage = {"prompt_tokens": 10, "completion_tokens": 10}
    end = "data: [DONE]\n\n"
    calls = event({"role": "assistant", "content": None}) + event(call("", id="CALL", type="function"))
    calls += event(call('{"n": ')) + event(call("1}")) + event({}, "tool_calls", usage=usage) + end
    done = (
        event({"role": "assistant", "content": ""}) + event({"content": "done"}) + event({}, "stop", usage=usage) + end
    )
    return calls.encode(), done.encode()


async def main() -> None:
    """Serve `/turns/N/chat/completions`: a call for each request with fewer than N results, then an answer."""
    calls, done = answers()

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).lower()
                length = next(line for line in head.split(b"\r\n") if line.startswith(b"content-length:"))
                body = await reader.readexactly(int(length.split(b":")[1]))
                made, wanted = body.count(b'"tool_call_id"'), int(head.split(b" ")[1].split(b"/")[2])
                answer = calls.replace(b"CALL", b"call_%d" % made) if made < wanted else done
                writer.write(
                    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
                    b"%x\r\n%s\r\n0\r\n\r\n" % (len(answer), answer)
                )
                await writer.drain()
        writer.close()

    server = await asyncio.start_server(handle, "127.0.0.1", 0, backlog=2_000, limit=2**24)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


@contextlib.contextmanager
def serving() -> Iterator[str]:
    """The address of such a server, for as long as the block lasts."""
    command = [sys.executable, "-m", "benchmarks.http_turns", "serve"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            yield f"http://127.0.0.1:{int(server.stdout.readline())}"
        finally:
            server.kill()


@asynccontextmanager
async def bare(url: str, turns: int) -> AsyncIterator[Work]:
    """A loop by hand: httpx's lines, `json.loads`, pydantic for the arguments; no errors, deadlines or events."""
    import httpx

    from benchmarks.bare import StepArguments, step

    limits = httpx.Limits(max_connections=None)
    async with httpx.AsyncClient(timeout=None, limits=limits) as client:  # noqa: S113
        address = f"{url}/turns/{turns}/chat/completions"

        async def ask(messages: list[dict[str, object]]) -> tuple[str, list[dict[str, str]]]:
            text: list[str] = []
            calls: dict[int, dict[str, str]] = {}
            body = {"model": "m", "messages": messages, "stream": True, "stream_options": {"include_usage": True}}
            async with client.stream("POST", address, json={**body, "tools": TOOLS}) as response:
                response.raise_for_status()
                async for line in response.aiter_lines():
                    if not line.startswith("data: ") or line == "data: [DONE]":
                        continue
                    delta = json.loads(line[6:])["choices"][0]["delta"]
                    text.append(delta.get("content") or "")
                    for piece in delta.get("tool_calls") or ():
                        call = calls.setdefault(piece["index"], {"id": "", "name": "", "arguments": ""})
                        call["id"] += piece.get("id") or ""
                        call["name"] += piece["function"].get("name") or ""
                        call["arguments"] += piece["function"]["arguments"]
            return "".join(text), list(calls.values())

        async def run() -> str:
            messages: list[dict[str, object]] = [
                {"role": "system", "content": SYSTEM},
                {"role": "user", "content": "go"},
            ]
            while True:
                text, calls = await ask(messages)
                if not calls:
                    return text
                wire = [
                    {"id": c["id"], "type": "function", "function": {"name": c["name"], "arguments": c["arguments"]}}
                    for c in calls
                ]
                messages.append({"role": "assistant", "content": text or None, "tool_calls": wire, "name": "bench"})
                for call in calls:
                    arguments = StepArguments.model_validate(json.loads(call["arguments"]))
                    result = await step(**arguments.model_dump())
                    messages.append({"role": "tool", "tool_call_id": call["id"], "content": result})

        yield run


@asynccontextmanager
async def engine(url: str, turns: int) -> AsyncIterator[Work]:
    """`ReActAgent` with `OpenAIChatModel`; all runs share the model, each has its own memory."""
    from agentscope_rx import ReActAgent
    from agentscope_rx.models import OpenAIChatModel
    from agentscope_rx.models.openai.profiles import OPENAI
    from benchmarks.engine import step

    model = OpenAIChatModel("m", base_url=f"{url}/turns/{turns}", api_key="x", profile=OPENAI)

    async def run() -> str:
        agent = ReActAgent("bench", model, SYSTEM, tools=[step], max_iters=turns + 1)
        return (await agent.call("go")).text

    yield run


WHO = {"bare": bare, "engine": engine}


async def spent(run: Work, at_once: int = 1) -> float:
    """The CPU time of so many runs at once, in seconds."""
    gc.collect()
    begin = time.process_time()
    await asyncio.gather(*(run() for _ in range(at_once)))
    return time.process_time() - begin


async def compared(url: str, turns: int, at_once: int = 1, rounds: int = ROUNDS) -> dict[str, float]:
    """The median of CPU microseconds per turn, measured turn about."""
    times: dict[str, list[float]] = {who: [] for who in WHO}
    async with bare(url, turns) as one, engine(url, turns) as other:
        runs = {"bare": one, "engine": other}
        for run in runs.values():
            await spent(run, at_once)
        for _ in range(rounds):
            for who, run in runs.items():
                times[who].append(await spent(run, at_once))
    return {who: statistics.median(each) / (turns + 1) / at_once * 1e6 for who, each in times.items()}


async def streamed(url: str, count: int, rounds: int = ROUNDS) -> dict[str, float]:
    """The median of CPU microseconds per chunk of a long answer, measured turn about."""
    from benchmarks import over_http

    times: dict[str, list[float]] = {who: [] for who in WHO}
    async with over_http.bare(url) as one, over_http.engine(url) as other:
        runs = {"bare": one, "engine": other}
        for run in runs.values():
            await spent(run)
        for _ in range(rounds):
            for who, run in runs.items():
                times[who].append(await spent(run))
    return {who: statistics.median(each) / count * 1e6 for who, each in times.items()}


def show(title: str, found: dict[str, float]) -> None:
    """Print a row."""
    ratio = found["engine"] / found["bare"]
    print(f"{title:36}{found['bare']:12.1f}{found['engine']:12.1f}{ratio:8.2f}x", flush=True)


def table() -> None:
    """Measure and print, a row as soon as it is known."""
    from benchmarks import sse_server

    print(f"{'':36}{'bare loop':>12}{'engine':>12}{'ratio':>9}")
    with serving() as url:
        for turns in (10, 100):
            show(f"CPU per turn over HTTP, N = {turns}, us", asyncio.run(compared(url, turns, rounds=300 // turns)))
        show("200 agents at once, per turn, us", asyncio.run(compared(url, 3, at_once=200)))
    for count in (1_000, 20_000):
        with sse_server.serving(count) as url:
            show(f"CPU per chunk, {count:,}, us", asyncio.run(streamed(url, count)))


if __name__ == "__main__":
    if sys.argv[1:] == ["serve"]:
        asyncio.run(main())
    else:
        table()
