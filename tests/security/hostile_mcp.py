"""An MCP server without the SDK, which does what it is told on its command line: `python hostile_mcp.py ATTACK`."""

from __future__ import annotations

import json
import os
import sys
from typing import Any

out = sys.stdout.buffer
listed = 0


def say(**words: Any) -> None:
    out.write(json.dumps({"jsonrpc": "2.0", **words}).encode() + b"\n")


def text(id: object, words: str) -> None:
    say(id=id, result={"content": [{"type": "text", "text": words}]})
    out.flush()


def endless_line(id: object) -> None:
    while True:
        out.write(b"x" * 65536)


def endless_result(id: object) -> None:
    out.write(b'{"jsonrpc": "2.0", "id": %d, "result": {"content": [{"type": "text", "text": "' % id)
    endless_line(id)


def drop_by_drop(id: object) -> None:
    while True:
        os.write(1, b"x")


def many_values(id: object) -> None:
    values = b"[]," * 300_000
    out.write(
        b'{"jsonrpc": "2.0", "id": 1, "result": {"content": [], "structuredContent": {"a": [' + values + b"0]}}}\n"
    )
    out.flush()
    sys.stdin.read()


def many_requests(id: object) -> None:
    for number in range(100_000):
        say(id=f"ping {number}", method="ping")
    text(id, "asked")


def one_request(id: object) -> None:
    # (one write: no answer comes in between)
    out.write(b'{"jsonrpc": "2.0", "id": "ping", "method": "ping"}\n' * 1000)
    text(id, "asked")


def errors(id: object) -> None:
    for _ in range(500):
        sys.stderr.buffer.write(b"e" * 65536)
    sys.stderr.buffer.flush()
    text(id, "said")


def last_words(id: object) -> None:
    sys.stderr.buffer.write(b"e" * 1_000_000 + b"\nthe last words\n")
    sys.stderr.buffer.flush()
    os._exit(3)


def blank_lines(id: object) -> None:
    out.write(b"\n" * 2_000 + b"no message\n" * 500)
    text(id, "said")


def progress(id: object, token: object = None) -> None:
    for number in range(3_000):
        say(method="notifications/progress", params={"progressToken": id, "progress": number, "message": "m" * 500})
        say(method="notifications/progress", params={"progressToken": "unknown", "progress": number})
    text(id, "done")


def loggers(id: object) -> None:
    for number in range(500):
        params = {"level": "warning", "logger": f"name{number}", "data": "x" * 20_000}
        say(method="notifications/message", params=params)
    text(id, "logged")


def changes(id: object) -> None:
    for _ in range(500):
        say(method="notifications/tools/list_changed")
    text(id, "changed")


def listings(id: object) -> None:
    text(id, str(listed))


def main() -> None:
    global listed
    if sys.argv[1:] == ["at_once"]:
        endless_line(0)
    for line in sys.stdin.buffer:
        asked = json.loads(line)
        method, id = asked.get("method"), asked.get("id")
        if method == "initialize":
            version = asked["params"]["protocolVersion"]
            capabilities = {"tools": {"listChanged": True}, "logging": {}}
            server = {"name": "hostile", "version": "1"}
            say(id=id, result={"protocolVersion": version, "capabilities": capabilities, "serverInfo": server})
        elif method == "tools/list":
            listed += 1
            tools = [{"name": name, "inputSchema": {"type": "object"}} for name in ("attack", "listings")]
            say(id=id, result={"tools": tools})
        elif method == "tools/call":
            globals()[sys.argv[1] if asked["params"]["name"] == "attack" else "listings"](id)
        elif id is not None and method is not None:
            say(id=id, result={})
        out.flush()


if __name__ == "__main__":
    main()
