"""A server of Chat Completions in a process of its own: `python -m benchmarks.sse_server 20000` prints its port.

Every request is answered with so many chunks of a word, each in a chunk of HTTP of its own, as fast as they are read.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import subprocess
import sys
from collections.abc import Iterator


def answer(count: int) -> list[bytes]:
    """The chunks of one answer, framed."""
    about = {"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "m"}

    def chunk(delta: dict[str, str], reason: str | None, **more: object) -> str:
        return json.dumps({**about, "choices": [{"index": 0, "delta": delta, "finish_reason": reason}], **more})

    usage = {"prompt_tokens": 1, "completion_tokens": count}
    said = [chunk({"content": f"word{n} "}, None) for n in range(count)]
    events = [f"data: {text}\n\n".encode() for text in [*said, chunk({}, "stop", usage=usage), "[DONE]"]]
    return [b"%x\r\n%s\r\n" % (len(event), event) for event in events]


async def main(count: int) -> None:
    """Serve until the process is ended."""
    chunks = answer(count)

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                lengths = [line.split(b":")[1] for line in head.lower().split(b"\r\n") if b"content-length" in line]
                await reader.readexactly(int(lengths[0]))
                writer.write(
                    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
                )
                for number, chunk in enumerate(chunks):
                    writer.write(chunk)
                    if number % 50 == 0:
                        await writer.drain()
                writer.write(b"0\r\n\r\n")
                await writer.drain()
        writer.close()

    server = await asyncio.start_server(handle, "127.0.0.1", 0, backlog=2_000)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


@contextlib.contextmanager
def serving(count: int) -> Iterator[str]:
    """The base URL of such a server, for as long as the block lasts."""
    command = [sys.executable, "-m", "benchmarks.sse_server", str(count)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            yield f"http://127.0.0.1:{int(server.stdout.readline())}/v1"
        finally:
            server.kill()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1])))
