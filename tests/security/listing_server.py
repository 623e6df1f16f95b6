"""An MCP server on standard input and output that lists what it is told to: `python listing_server.py KIND`."""

from __future__ import annotations

import json
import sys
from typing import Any

Json = dict[str, Any]
SCHEMA: Json = {"type": "object", "properties": {"a": {"type": "string"}}}


def tools(start: int, count: int, schema: Json = SCHEMA) -> list[Json]:
    return [{"name": f"t{n}", "description": "A tool.", "inputSchema": schema} for n in range(start, start + count)]


def wide(count: int) -> Json:
    return {"type": "object", "properties": {f"p{n}": {"type": "string", "pattern": "^a+$"} for n in range(count)}}


def doubling(levels: int) -> Json:
    parts: Json = {
        f"d{n}": {"allOf": [{"$ref": f"#/$defs/d{n + 1}"}, {"$ref": f"#/$defs/d{n + 1}"}]} for n in range(levels)
    }
    return {"type": "object", "$ref": "#/$defs/d0", "$defs": {**parts, f"d{levels}": {}}}


def page(kind: str, cursor: str | None) -> Json:
    start = int(cursor or 0)
    if kind == "many":
        return {"tools": tools(0, 20_000)}
    if kind == "pages":
        return {"tools": tools(start, 100), "nextCursor": str(start + 100)}
    if kind == "empty":
        return {"tools": [], "nextCursor": str(start + 1)}
    if kind == "circle":
        return {"tools": tools(start, 1), "nextCursor": str((start + 1) % 3)}
    if kind == "thousand":
        return {"tools": tools(start, 250)} | ({"nextCursor": str(start + 250)} if start < 750 else {})
    if kind == "wide":
        return {"tools": [each for n in range(8) for each in tools(n, 1, wide(1500))]}
    if kind == "values":
        return {"tools": [each for n in range(40) for each in tools(n, 1, wide(1500))]}
    if kind == "doubling":
        return {"tools": [*tools(0, 1), *tools(1, 1, doubling(30))]}
    assert kind == "output"
    output = {"type": "object", "properties": {"a": {"pattern": "^(a+)+$"}}}
    return {"tools": [{**tools(0, 1)[0], "outputSchema": output}]}


def answer(kind: str, request: Json) -> Json | None:
    method, params = request["method"], request.get("params") or {}
    if method == "initialize":
        return {
            "protocolVersion": "2025-06-18",
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "listing", "version": "1"},
        }
    if method == "tools/list":
        return page(kind, params.get("cursor"))
    if method == "tools/call":
        return {"content": [], "structuredContent": {"a": "a" * 40 + "!"}}
    return {} if "id" in request else None


for line in sys.stdin:
    asked = json.loads(line)
    if "id" in asked and (result := answer(sys.argv[1], asked)) is not None:
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": result}) + "\n")
        sys.stdout.flush()
