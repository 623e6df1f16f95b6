"""A run's traces in a real Phoenix: sent by OTLP, read back through Phoenix's API, and compared with the run.

    python -m benchmarks.consumers --phoenix path/to/venv/bin/phoenix      starts a server of its own on loopback
    python -m benchmarks.consumers --url http://127.0.0.1:6006             uses one that runs already

It needs the extra `otel`, `opentelemetry-exporter-otlp-proto-http`, and Phoenix (`pip install arize-phoenix`, best in an
environment of its own, as it brings a web server and a database). Nothing leaves this machine. It ends with status 1 if
the tree, the tokens, the names or the errors in Phoenix are not those of the run.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, cast
from uuid import uuid4

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

from agentscope_rx import ReActAgent, Toolkit, tool
from agentscope_rx.messages import ChatUsage
from agentscope_rx.models import ChatResponse
from agentscope_rx.testing import ScriptedModel, call
from agentscope_rx.tracing import OpenTelemetryHook

SECRET = "sk-proj-Zx9vB3nM5kL7jH2gF4dS6aQ8wE1rT0yU"
START_SECONDS = 180
READ_SECONDS = 60

Row = Mapping[str, Any]


@tool
async def weather(city: str) -> str:
    """The weather in a city."""
    await asyncio.sleep(0.01)
    return f"Sunny in {city}; the key is {SECRET}."


@tool
async def broken(city: str) -> str:
    """Always fails."""
    raise ValueError(f"no such city: {city}")


def used(input: int, output: int) -> ChatResponse:
    return ChatResponse(usage=ChatUsage(input, output))


def agent_with(provider: TracerProvider) -> ReActAgent:
    """An agent with two tools, one of which fails, and a sub-agent with a tool of its own."""
    hook = OpenTelemetryHook(tracer_provider=provider, content=True, metrics=False)
    expert = ReActAgent(
        "Expert",
        ScriptedModel((call("weather", "e1", city="Bergen"), used(11, 3)), ("It rains.", used(13, 2))),
        toolkit=Toolkit([weather]),
    )
    turns = (
        ([call("weather", "c1", city="Oslo"), call("broken", "c2", city="Atlantis")], used(100, 20)),
        (call("call_expert", "c3", message="And Bergen?"), used(150, 10)),
        ("Sunny in Oslo, rain in Bergen.", used(200, 8)),
    )
    steps = [((*each[0], each[1]) if isinstance(each[0], list) else each) for each in turns]
    return ReActAgent("Friday", ScriptedModel(*steps), toolkit=Toolkit([weather, broken, expert.as_tool()]), tracer=hook)


EXPECTED = {
    ("invoke_agent Friday", "AGENT", "OK"),
    ("chat scripted", "LLM", "OK"),
    ("execute_tool weather", "TOOL", "OK"),
    ("execute_tool broken", "TOOL", "ERROR"),
    ("execute_tool call_expert", "TOOL", "OK"),
    ("invoke_agent Expert", "AGENT", "OK"),
}


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    where = parser.add_mutually_exclusive_group(required=True)
    where.add_argument("--phoenix", help="the program `phoenix`, to be started on loopback")
    where.add_argument("--url", help="the address of a Phoenix that runs")
    given = parser.parse_args(arguments)
    if given.url:
        return checked(cast("str", given.url))
    with phoenix(cast("str", given.phoenix)) as url:
        return checked(url)


@contextmanager
def phoenix(program: str) -> Iterator[str]:
    """A Phoenix on loopback, with a database of its own; stopped at the end."""
    port, grpc = free_port(), free_port()
    with tempfile.TemporaryDirectory() as folder:
        env = {
            **os.environ,
            "PHOENIX_HOST": "127.0.0.1",
            "PHOENIX_PORT": str(port),
            "PHOENIX_GRPC_PORT": str(grpc),
            "PHOENIX_WORKING_DIR": folder,
            "PHOENIX_TELEMETRY_ENABLED": "false",
        }
        log = subprocess.DEVNULL
        process = subprocess.Popen([program, "serve"], env=env, stdout=log, stderr=log)
        url = f"http://127.0.0.1:{port}"
        try:
            wait_for(lambda: answer(f"{url}/healthz") is not None, START_SECONDS, "Phoenix did not start")
            yield url
        finally:
            process.terminate()
            process.wait(30)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def answer(url: str) -> bytes | None:
    try:
        with urllib.request.urlopen(url, timeout=10) as response:  # noqa: S310 - an address on loopback
            return cast("bytes", response.read())
    except OSError:
        return None


def wait_for(done: Any, seconds: float, what: str) -> None:
    deadline = time.monotonic() + seconds
    while not done():
        if time.monotonic() > deadline:
            raise SystemExit(f"{what} within {seconds} s.")
        time.sleep(0.5)


def checked(url: str) -> int:
    """Run the agent, send its spans, read them back; 0 if they are those of the run."""
    project = f"agentscope-{uuid4().hex[:8]}"
    resource = Resource.create({"service.name": "weather", "openinference.project.name": project})
    provider = TracerProvider(resource=resource)
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(f"{url}/v1/traces")))
    reply = agent_with(provider).call("What is the weather in Oslo and Bergen?").run()
    provider.shutdown()
    address = f"{url}/v1/projects/{project}/spans?limit=100"
    rows: list[Row] = []

    def arrived() -> bool:
        body = answer(address)
        rows[:] = json.loads(body)["data"] if body else []
        return any(row["name"] == "invoke_agent Friday" for row in rows)

    wait_for(arrived, READ_SECONDS, "The spans did not arrive")
    show(rows)
    assert reply.usage is not None
    problems = list(compared(rows, reply.usage))
    print("\n".join(problems) or "Phoenix shows the run as it was.")
    return 1 if problems else 0


def show(rows: Sequence[Row], parent: str | None = None, depth: int = 0) -> None:
    """The tree as Phoenix has it."""
    for row in sorted(rows, key=lambda row: row["start_time"]):
        if row["parent_id"] == parent:
            fields = row["attributes"]
            tokens = [fields.get(f"llm.token_count.{kind}") for kind in ("prompt", "completion")]
            print(f"{'  ' * depth}{row['span_kind']:6} {row['name']}  {row['status_code']}  tokens {tokens}")
            show(rows, row["context"]["span_id"], depth + 1)


def compared(rows: Sequence[Row], usage: ChatUsage) -> Iterator[str]:
    """What is not as it was in the run."""
    found = {(row["name"], row["span_kind"], "ERROR" if row["status_code"] == "ERROR" else "OK") for row in rows}
    for missing in EXPECTED - found:
        yield f"missing: {missing}"
    by_id = {row["context"]["span_id"]: row for row in rows}
    roots = [row["name"] for row in rows if row["parent_id"] not in by_id]
    if roots != ["invoke_agent Friday"] or len({row["context"]["trace_id"] for row in rows}) != 1:
        yield f"not one tree: {roots}"
    calls = [row["attributes"] for row in rows if row["span_kind"] == "LLM"]
    for kind, expected in (("prompt", usage.input_tokens), ("completion", usage.output_tokens)):
        counted = sum(each.get(f"llm.token_count.{kind}", 0) for each in calls)
        if counted != expected:
            yield f"{kind} tokens: {counted}, not {expected}"
    texts = json.dumps(rows)
    if "What is the weather in Oslo" not in texts or "Sunny in Oslo" not in texts:
        yield "the content is missing"
    if SECRET in texts:
        yield "a secret is in Phoenix"
    tools = {row["attributes"].get("tool.name") for row in rows if row["span_kind"] == "TOOL"}
    if tools != {"weather", "broken", "call_expert"}:
        yield f"tools: {tools}"


if __name__ == "__main__":
    sys.exit(main())
