"""A real Chat Completions server on loopback, with a model that calls the first tool it is offered and then talks.

Prompts steer it: one that holds `hang` gets a first chunk and then silence. It counts the responses that clients left.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import threading
from collections import deque
from collections.abc import AsyncIterator, Iterator, Mapping

HEAD = "HTTP/1.1 {status}\r\ncontent-type: {kind}\r\nconnection: close\r\n\r\n"


class OpenAIServer:
    """Serves on its own thread and loop. `requests` and `headers` are what it got, `left` counts abandoned ones."""

    def __init__(self) -> None:
        self.requests: list[dict[str, object]] = []
        self.headers: list[dict[str, str]] = []
        self.left = 0
        self.open = 0
        self.answers: deque[object] = deque()
        """What it answers next: a text, `{"tool": {arguments}}`, or a list of these. Empty: as above."""
        self.hanging = threading.Event()
        self.noticed = threading.Event()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._main, daemon=True)
        self._ready = threading.Event()

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self._port}/v1"

    def _main(self) -> None:
        asyncio.set_event_loop(self._loop)

        async def start() -> None:
            self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
            self._port = self._server.sockets[0].getsockname()[1]

        self._loop.run_until_complete(start())
        # not before it runs for good: a stop that comes in between would go unnoticed
        self._loop.call_soon(self._ready.set)
        self._loop.run_forever()
        tasks = asyncio.all_tasks(self._loop)
        for task in tasks:
            task.cancel()
        self._loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
        self._server.close()
        self._loop.run_until_complete(self._loop.shutdown_asyncgens())
        self._loop.close()

    def __enter__(self) -> OpenAIServer:
        self._thread.start()
        self._ready.wait()
        return self

    def __exit__(self, *error: object) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.open += 1
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            length = next(
                int(line.split(b":")[1]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length")
            )
            body = json.loads(await reader.readexactly(length))
            self.requests.append(body)
            lines = (line.decode("latin-1").partition(":") for line in head.split(b"\r\n")[1:] if line)
            self.headers.append({name.lower(): value.strip() for name, _, value in lines})
            if not body.get("stream"):
                whole = completion([chunk async for chunk in self._answer(body, reader)])
                writer.write(HEAD.format(status="200 OK", kind="application/json").encode() + whole.encode())
                await writer.drain()
                return
            writer.write(HEAD.format(status="200 OK", kind="text/event-stream").encode())
            async for chunk in self._answer(body, reader):
                writer.write(f"data: {chunk}\n\n".encode())
                await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError):
            self.left += 1
            self.noticed.set()
        finally:
            self.open -= 1
            writer.close()
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()

    async def _answer(self, body: Mapping[str, object], reader: asyncio.StreamReader) -> AsyncIterator[str]:
        messages = body["messages"]
        last = messages[-1]  # pyright: ignore
        if re.search(r"\bhang\b", str(last["content"])):
            yield chunk(content="One moment ")
            self.hanging.set()
            if await reader.read(1) == b"":
                raise ConnectionResetError
        tools = body.get("tools")
        if self.answers:
            for piece in scripted(self.answers.popleft(), f"c{len(self.requests)}"):
                yield piece
        elif tools and last["role"] == "user":
            function = tools[0]["function"]  # pyright: ignore
            arguments = json.dumps(example(function["parameters"]))
            yield chunk(tool_calls=[{"index": 0, "id": f"c{len(self.requests)}", "type": "function",
                                     "function": {"name": function["name"], "arguments": ""}}])  # fmt: skip
            for start in range(0, len(arguments), 5):
                piece = arguments[start : start + 5]
                yield chunk(tool_calls=[{"index": 0, "function": {"arguments": piece}}])
            yield chunk(finish_reason="tool_calls")
        else:
            for word in f"You said: {last['content']}".split(" "):
                yield chunk(content=word + " ")
            yield chunk(finish_reason="stop")
        yield json.dumps({"choices": [], "usage": {"prompt_tokens": 11, "completion_tokens": 7, "total_tokens": 18}})
        yield "[DONE]"


def scripted(answer: object, call_id: str) -> Iterator[str]:
    """The chunks of an answer that is given: its words, then its calls."""
    parts = answer if isinstance(answer, list) else [answer]
    calls = [part for part in parts if isinstance(part, dict)]
    for text in (part for part in parts if isinstance(part, str)):
        for word in re.findall(r"\S+\s*", text):
            yield chunk(content=word)
    for index, part in enumerate(calls):
        ((name, arguments),) = part.items()
        function = {"name": name, "arguments": json.dumps(arguments)}
        yield chunk(tool_calls=[{"index": index, "id": f"{call_id}-{index}", "type": "function", "function": function}])
    yield chunk(finish_reason="tool_calls" if calls else "stop")


def chunk(finish_reason: str | None = None, **delta: object) -> str:
    return json.dumps({
        "id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "test",
        "choices": [{"index": 0, "delta": delta, "finish_reason": finish_reason}],
    })  # fmt: skip


def completion(chunks: list[str]) -> str:
    """The answer in one piece, for a request that does not stream."""
    texts: list[str] = []
    calls: list[dict[str, object]] = []
    reason, usage = "stop", None
    for each in (json.loads(chunk) for chunk in chunks[:-1]):
        usage = each.get("usage", usage)
        for choice in each["choices"]:
            reason = choice["finish_reason"] or reason
            texts.append(choice["delta"].get("content") or "")
            for call in choice["delta"].get("tool_calls", ()):
                if "id" in call:
                    calls.append({name: value for name, value in call.items() if name != "index"})
                else:
                    calls[call["index"]]["function"]["arguments"] += call["function"]["arguments"]  # pyright: ignore
    message = {"role": "assistant", "content": "".join(texts) or None} | ({"tool_calls": calls} if calls else {})
    return json.dumps({
        "id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": "test", "usage": usage,
        "choices": [{"index": 0, "message": message, "finish_reason": reason}],
    })  # fmt: skip


def example(schema: Mapping[str, object]) -> object:
    """Some value that the schema allows."""
    if "enum" in schema:
        return schema["enum"][0]  # pyright: ignore
    kind = schema.get("type")
    if kind == "object":
        properties: Mapping[str, Mapping[str, object]] = schema.get("properties", {})  # pyright: ignore
        return {name: example(properties[name]) for name in schema.get("required", ())}  # pyright: ignore
    return {"string": "Paris", "integer": 3, "number": 4.5, "boolean": True, "array": []}.get(str(kind))


@contextlib.contextmanager
def openai_server() -> Iterator[OpenAIServer]:
    """A server for the length of a block."""
    with OpenAIServer() as server:
        yield server
