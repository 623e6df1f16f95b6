"""Chat Completions over HTTP, in a process of its own: `python -m benchmarks.compare.server` prints its port.

The name of the model says what it answers: `turns-100` calls the first tool of the request a hundred times and then
answers, `chunks-5000` answers in so many pieces, `wait-50` after so many milliseconds. How far a conversation is comes
from its messages, so the server keeps nothing. It answers whole or as a stream, as the request wants, and ends with a
call of `final_answer` where the request has such a tool.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence

ABOUT = {"id": "c1", "created": 1, "model": "m"}
USAGE = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
ASKED = re.compile(rb'"role":\s*"assistant"')
MODEL = re.compile(rb'"model":\s*"(\w+)-(\d+)"')
STREAM = re.compile(rb'"stream":\s*true')
FINAL = re.compile(rb'"name":\s*"final_answer"')
NO_DELAY = 50
"""So many chunks are written before the reader is waited for."""

Message = Mapping[str, object]


def call(number: int, name: str = "step", arguments: str = '{"n": 1}') -> Message:
    """A tool call as a message of the assistant."""
    function = {"name": name, "arguments": arguments}
    return {"tool_calls": [{"index": 0, "id": f"call_{number}", "type": "function", "function": function}]}


def answer(kind: str, count: int, rounds: int, ends_by_call: bool) -> list[Message]:
    """The pieces of the next answer, after so many rounds."""
    if kind == "turns" and rounds < count:
        return [call(rounds)]
    words = [f"word{n} " for n in range(count)] if kind == "chunks" else ["done"]
    pieces: list[Message] = [{"content": word} for word in words]
    return [*pieces, call(rounds, "final_answer", '{"answer": "done"}')] if ends_by_call else pieces


def streamed(pieces: Sequence[Message]) -> list[bytes]:
    """The answer as framed server-sent events."""
    reason = "tool_calls" if "tool_calls" in pieces[-1] else "stop"

    def event(delta: Message, finish: str | None, **more: object) -> bytes:
        choices = [{"index": 0, "delta": delta, "finish_reason": finish}]
        return _framed(json.dumps({**ABOUT, "object": "chat.completion.chunk", "choices": choices, **more}))

    first = {"role": "assistant", **pieces[0]}
    deltas = [event(delta, None) for delta in (first, *pieces[1:])]
    return [*deltas, event({}, reason, usage=USAGE), _framed("[DONE]"), b"0\r\n\r\n"]


def _framed(text: str) -> bytes:
    data = f"data: {text}\n\n".encode()
    return b"%x\r\n%s\r\n" % (len(data), data)


def whole(pieces: Sequence[Message]) -> bytes:
    """The answer as one JSON body."""
    text = "".join(str(piece["content"]) for piece in pieces if "content" in piece)
    calls = [{k: v for k, v in each.items() if k != "index"} for p in pieces for each in p.get("tool_calls", ())]  # type: ignore[attr-defined]
    message = {"role": "assistant", "content": text or None, **({"tool_calls": calls} if calls else {})}
    choices = [{"index": 0, "message": message, "finish_reason": "tool_calls" if calls else "stop"}]
    return json.dumps({**ABOUT, "object": "chat.completion", "choices": choices, "usage": USAGE}).encode()


class Answers:
    """Answers to requests; long ones are kept, framed."""

    def __init__(self) -> None:
        self._kept: dict[tuple[object, ...], list[bytes]] = {}

    async def to(self, body: bytes) -> list[bytes]:
        """The parts of the response, head first."""
        found = MODEL.search(body)
        assert found is not None, body[:200]
        kind, count = found[1].decode(), int(found[2])
        if kind == "wait":
            await asyncio.sleep(count / 1000)
        about = kind, count, len(ASKED.findall(body)), FINAL.search(body) is not None
        if STREAM.search(body):
            kept = self._kept.get(about)
            if kept is None:
                kept = streamed(answer(*about))
                if kind == "chunks":
                    self._kept[about] = kept
            head = b"content-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
            return [b"HTTP/1.1 200 OK\r\n" + head, *kept]
        data = whole(answer(*about))
        return [b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(data) + data]


async def main() -> None:
    """Serve until the process is ended."""
    answers = Answers()

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                lengths = [line.split(b":")[1] for line in head.lower().split(b"\r\n") if b"content-length" in line]
                body = await reader.readexactly(int(lengths[0]))
                for number, part in enumerate(await answers.to(body)):
                    writer.write(part)
                    if number % NO_DELAY == 0:
                        await writer.drain()
                await writer.drain()
        writer.close()

    server = await asyncio.start_server(handle, "127.0.0.1", 0, backlog=2_000)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


@contextlib.contextmanager
def serving() -> Iterator[str]:
    """The base URL of such a server, for as long as the block lasts."""
    command = [sys.executable, "-m", "benchmarks.compare.server"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            yield f"http://127.0.0.1:{int(server.stdout.readline())}/v1"
        finally:
            server.kill()


if __name__ == "__main__":
    asyncio.run(main())
