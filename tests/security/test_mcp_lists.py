"""MCP servers that list too much: the registration ends with an error, and the loop is never held for long."""

from __future__ import annotations

import asyncio
import gc
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from agentscope_rx import Toolkit
from agentscope_rx.errors import AgentScopeError, McpError, ToolDefinitionError
from agentscope_rx.messages import ToolResultBlock, ToolUseBlock
from agentscope_rx.tools.mcp import McpClient, McpStdio

SERVER = str(Path(__file__).with_name("listing_server.py"))
LIMIT = 0.25
"""Seconds of CPU time of the loop's thread in one turn: five times what it may take on a quiet machine."""


@contextmanager
def client(kind: str) -> Iterator[McpClient]:
    made = McpClient(McpStdio(sys.executable, [SERVER, kind]), name="listing", mode="legacy")
    try:
        yield made
    finally:
        made.close().run()


@pytest.fixture
def turns(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[float]]:
    """The CPU that each callback on any loop takes. (The collector is off: it walks the whole heap of the tests.)"""
    with client("doubling") as warm, pytest.raises(AgentScopeError):
        Toolkit().register_mcp(warm).run()
    spent: list[float] = []
    run = asyncio.Handle._run

    def timed(self: asyncio.Handle) -> None:
        begun = time.thread_time()
        run(self)
        spent.append(time.thread_time() - begun)

    monkeypatch.setattr(asyncio.Handle, "_run", timed)
    gc.disable()
    yield spent
    gc.enable()
    assert max(spent) < LIMIT


@pytest.mark.parametrize(
    ("kind", "says"),
    [
        ("many", "'listing' lists more than 1,000 tools"),
        ("pages", "'listing' lists more than 1,000 tools"),
        ("empty", "'listing' lists its tools on more than 200 pages"),
        ("circle", "'listing' lists its tools without end"),
        ("values", "'listing' gave an answer with more than 50,000 values"),
    ],
)
def test_an_endless_list_is_an_error_naming_the_server(kind: str, says: str, turns: list[float]):
    toolkit = Toolkit()
    with client(kind) as server, pytest.raises(McpError, match=says):
        toolkit.register_mcp(server).run()
    assert toolkit.names == ()


@pytest.mark.parametrize(("kind", "count"), [("thousand", 1000), ("wide", 8)])
def test_a_long_list_is_registered_turn_by_turn(kind: str, count: int, turns: list[float]):
    toolkit = Toolkit()
    with client(kind) as server:
        assert len(toolkit.register_mcp(server).run()) == count


def test_a_hostile_schema_is_refused_by_name_alone(turns: list[float]):
    toolkit = Toolkit()
    with client("doubling") as server:
        with pytest.raises(ToolDefinitionError, match=r"'t1' of MCP server 'listing' .*too complex.*disable=\['t1'\]"):
            toolkit.register_mcp(server).run()
        toolkit.register_mcp(server, disable=["t1"]).run()
    assert toolkit.names == ("t0",)


def test_a_result_is_held_against_its_output_schema_in_time(turns: list[float]):
    toolkit = Toolkit()
    with client("output") as server:
        toolkit.register_mcp(server).run()
        result = toolkit.call(ToolUseBlock("1", "t0", {})).run()
    assert isinstance(result, ToolResultBlock)
    assert "does not match '^(a+)+$'" in result.text
