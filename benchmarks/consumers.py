"""A run's traces in a real Phoenix: sent by OTLP, read back through Phoenix's API, and compared with the run.

    python -m benchmarks.consumers --phoenix path/to/venv/bin/phoenix      starts a server of its own on loopback
    python -m benchmarks.consumers --url http://127.0.0.1:6006             uses one that runs already
    python -m benchmarks.consumers --logfire                               Logfire as the provider, in this process
    python -m benchmarks.consumers --langfuse                              the Langfuse SDK, to a collector on loopback

It needs the extra `otel`, `opentelemetry-exporter-otlp-proto-http`, and the consumer (`pip install arize-phoenix`, best
in an environment of its own, as it brings a web server and a database; `logfire`; `langfuse`). Nothing leaves this
machine. It ends with status 1 if the tree, the tokens, the names or the errors are not those of the run.
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
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import Any, cast
from uuid import uuid4

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from agentscope_rx import ReActAgent, Toolkit, tool
from agentscope_rx.messages import ChatUsage
from agentscope_rx.models import ChatResponse
from agentscope_rx.testing import ScriptedModel, call
from agentscope_rx.tracing import OpenTelemetryHook

QUESTION = "What is the weather in Oslo and Bergen?"
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


def agent_with(provider: TracerProvider | None) -> ReActAgent:
    """An agent with two tools, one of which fails, and a sub-agent with a tool of its own."""
    hook = OpenTelemetryHook(tracer_provider=provider, content=True, metrics=False)
    expert = ReActAgent(
        "Expert",
        ScriptedModel((call("weather", "e1", city="Bergen"), used(11, 3)), ("It rains.", used(13, 2))),
        toolkit=Toolkit([weather]),
    )
    model = ScriptedModel(
        (call("weather", "c1", city="Oslo"), call("broken", "c2", city="Atlantis"), used(100, 20)),
        (call("call_expert", "c3", message="And Bergen?"), used(150, 10)),
        ("Sunny in Oslo, rain in Bergen.", used(200, 8)),
    )
    return ReActAgent("Friday", model, toolkit=Toolkit([weather, broken, expert.as_tool()]), tracer=hook)


EXPECTED = {
    ("invoke_agent Friday", "AGENT", "OK"),
    ("reasoning", "CHAIN", "OK"),
    ("acting", "CHAIN", "OK"),
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
    where.add_argument("--logfire", action="store_true", help="Logfire, in this process")
    where.add_argument("--langfuse", action="store_true", help="the Langfuse SDK, in this process")
    given = parser.parse_args(arguments)
    if given.logfire or given.langfuse:
        return in_logfire() if given.logfire else in_langfuse()
    if given.url:
        return checked(cast("str", given.url))
    with phoenix(cast("str", given.phoenix)) as url:
        return checked(url)


@contextmanager
def phoenix(program: str) -> Generator[str]:
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
    reply = agent_with(provider).call(QUESTION).run()
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


def in_logfire() -> int:
    """Logfire's own spans and this library's are one tree, shown in its console; nothing is sent."""
    logfire: Any = import_module("logfire")
    kept = InMemorySpanExporter()
    logfire.configure(send_to_logfire=False, additional_span_processors=[SimpleSpanProcessor(kept)])
    with logfire.span("request {number}", number=7):
        agent_with(None).call(QUESTION).run()
    logfire.force_flush()
    return told([(span.name, span.parent is None) for span in kept.get_finished_spans()], "request {number}")


def in_langfuse() -> int:
    """The Langfuse SDK sends this library's spans to its OTLP endpoint, here a collector on loopback."""

    from tests.tracing.collector import Collector

    langfuse: Any = import_module("langfuse")

    with Collector() as collector:
        client = langfuse.Langfuse(public_key="pk-lf-x", secret_key="sk-lf-x", base_url=collector.url)
        agent_with(None).call(QUESTION).run()
        client.flush()
        client.shutdown()
    print({path for path, _ in collector.raw})
    ids = {span.span_id for span in collector.spans}
    return told([(span.name, span.parent_span_id not in ids) for span in collector.spans], "invoke_agent Friday")


def told(spans: Sequence[tuple[str, bool]], root: str) -> int:
    """0 if all parts of the run are among the spans, and this one alone has no parent."""
    names = {name for name, _ in spans}
    missing = {name for name, _, _ in EXPECTED} - names
    roots = [name for name, is_root in spans if is_root]
    print(f"{len(spans)} spans; missing: {missing or 'none'}; roots: {roots}")
    return 1 if missing or roots != [root] else 0


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
