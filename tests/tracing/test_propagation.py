"""One trace over several processes: what is sent to models and MCP servers, and taken from a service's callers."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from opentelemetry import baggage, context, trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from tenacity import wait_none

from agentscope_rx import ReActAgent, Toolkit, tool
from agentscope_rx.errors import ConfigurationError
from agentscope_rx.events import PostCallEvent
from agentscope_rx.messages import ToolResultBlock, ToolUseBlock
from agentscope_rx.models import ExecutionConfig, GenerateOptions, OpenAIChatModel
from agentscope_rx.models.wrappers import FallbackModel
from agentscope_rx.service import create_app
from agentscope_rx.testing import ScriptedModel, call
from agentscope_rx.tools.mcp import McpClient, McpStdio
from agentscope_rx.trace_context import TRACE_CONTEXT
from agentscope_rx.tracing import OpenTelemetryHook, propagate_context, stop_propagating
from tests.service.serving import ask, served
from tests.support.openai_server import OpenAIServer
from tests.tracing.collector import Collector

TRACER = TracerProvider().get_tracer("test")
CALLER = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@pytest.fixture(autouse=True)
def off_again() -> Iterator[None]:
    assert TRACE_CONTEXT.here is None
    yield
    stop_propagating()


@tool
def where() -> str:
    """The trace that the call runs in."""
    return trace.format_trace_id(trace.get_current_span().get_span_context().trace_id)


def header_of(span: trace.Span | ReadableSpan) -> str:
    here = span.get_span_context()
    assert here is not None
    return f"00-{trace.format_trace_id(here.trace_id)}-{trace.format_span_id(here.span_id)}-{here.trace_flags:02x}"


def asked(server: OpenAIServer, options: GenerateOptions | None = None) -> dict[str, str]:
    """The headers of one model request."""
    model = OpenAIChatModel("m", api_key="k", base_url=server.base_url, options=options)
    ReActAgent("friday", model).call("hi").run()
    return server.headers[-1]


def test_model_requests_carry_the_current_span() -> None:
    propagate_context()
    with OpenAIServer() as server, TRACER.start_as_current_span("caller") as span:
        token = context.attach(baggage.set_baggage("user", "ada"))
        try:
            headers = asked(server)
        finally:
            context.detach(token)
    assert headers["traceparent"] == header_of(span)
    # (what may hold data of users stays here)
    assert "baggage" not in headers


def test_each_attempt_carries_its_own_span() -> None:
    """Retries, then a fallback: what the server got are the spans of the attempts."""
    propagate_context()
    kept = InMemorySpanExporter()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(kept))
    config = ExecutionConfig(max_attempts=3, wait=wait_none())
    with Collector(503) as down, OpenAIServer() as server:
        first = OpenAIChatModel("first", api_key="k", base_url=down.url, execution_config=config)
        second = OpenAIChatModel("second", api_key="k", base_url=server.base_url)
        hook = OpenTelemetryHook(tracer_provider=provider)
        ReActAgent("friday", FallbackModel(first, second), tracer=hook).call("hi").run()
        sent = [each["traceparent"] for each in (*down.headers, *server.headers)]
    spans = [span for span in kept.get_finished_spans() if span.name.startswith("chat")]
    assert len(sent) == len(set(sent)) == 4
    assert sent == [header_of(span) for span in spans]
    assert len({each.split("-")[1] for each in sent}) == 1


def test_nothing_is_sent_without_span_or_wish() -> None:
    with OpenAIServer() as server:
        with TRACER.start_as_current_span("caller"):
            assert "traceparent" not in asked(server)
        propagate_context()
        assert "traceparent" not in asked(server)


@pytest.mark.parametrize(("models", "sent"), [(False, False), (["127.0.0.1"], True), (["api.example.com"], False)])
def test_hosts_can_be_chosen(models: bool | list[str], sent: bool) -> None:
    propagate_context(models=models)
    with OpenAIServer() as server, TRACER.start_as_current_span("caller"):
        assert ("traceparent" in asked(server)) is sent


def test_headers_of_the_request_come_first() -> None:
    propagate_context()
    options = GenerateOptions(additional_headers={"Traceparent": CALLER})
    with OpenAIServer() as server, TRACER.start_as_current_span("caller"):
        assert asked(server, options)["traceparent"] == CALLER


@pytest.mark.parametrize("models", ["api.example.com", ["https://api.example.com"], [""], [3], None])
def test_bad_hosts_are_refused(models: object) -> None:
    with pytest.raises(ConfigurationError, match="names of hosts"):
        propagate_context(models=models)  # pyright: ignore[reportArgumentType]


# --- the service ------------------------------------------------------------------------------------------------------


def traced_in(headers: dict[str, str]) -> str:
    """The trace that the tool of a run begun by a request was in."""
    friday = ReActAgent("friday", ScriptedModel(call("where"), "done"), toolkit=Toolkit([where]))
    with served(create_app(friday)) as server, server.client() as client:
        client.headers.update(headers)
        events = ask(client)
        assert isinstance(events[-1], PostCallEvent)
    memory = friday.memory.get().run()
    return memory[2].tool_results[0].text


def test_runs_of_a_service_are_in_the_callers_trace() -> None:
    propagate_context()
    assert traced_in({"traceparent": CALLER}) == CALLER.split("-")[1]


@pytest.mark.parametrize("header", ["", "00-xyz", "00-" + "0" * 32 + "-b7ad6b7169203331-01", "a" * 5000])
def test_bad_header_of_a_caller_is_ignored(header: str) -> None:
    propagate_context()
    assert traced_in({"traceparent": header}) == "0" * 32


def test_service_takes_nothing_unless_asked() -> None:
    assert traced_in({"traceparent": CALLER}) == "0" * 32
    propagate_context(service=False)
    assert traced_in({"traceparent": CALLER}) == "0" * 32


def test_span_of_a_framework_comes_first() -> None:
    propagate_context()
    assert TRACE_CONTEXT.here is not None
    with TRACER.start_as_current_span("request") as span, TRACE_CONTEXT.here.incoming({"traceparent": CALLER}):
        assert trace.get_current_span() is span
    with TRACE_CONTEXT.here.incoming({"traceparent": CALLER}):
        assert header_of(trace.get_current_span()) == CALLER
    assert trace.get_current_span() is trace.INVALID_SPAN


# --- MCP --------------------------------------------------------------------------------------------------------------

SERVER = McpStdio(
    sys.executable,
    [str(Path(__file__).with_name("traced_server.py"))],
    env={"PYTHONPATH": str(Path(__file__).parents[2])},
)


@pytest.mark.parametrize(("name", "arguments"), [("where", {}), ("call_friday", {"message": "where are you?"})])
def test_calls_of_an_mcp_server_are_in_the_trace(name: str, arguments: dict[str, str]) -> None:
    """A tool in another process, and the run of an agent that is one there, with a tool of its own."""
    client = McpClient(SERVER, name="demo")
    toolkit = Toolkit()
    try:
        toolkit.register_mcp(client).run()
        with TRACER.start_as_current_span("caller") as span:
            found = toolkit.call(ToolUseBlock("c1", name, arguments)).run()
        alone = toolkit.call(ToolUseBlock("c2", name, arguments)).run()
    finally:
        client.close().run()
    here = span.get_span_context()
    assert isinstance(found, ToolResultBlock) and isinstance(alone, ToolResultBlock)
    *_, trace_id, span_id = found.text.split()
    assert trace_id == trace.format_trace_id(here.trace_id)
    # a span of its own, in another process
    assert span_id != trace.format_span_id(here.span_id)
    assert trace_id not in alone.text


def test_run_is_in_the_trace_of_its_mcp_tools() -> None:
    """Each call of the other process belongs to the span of its tool call here."""
    client, toolkit = McpClient(SERVER, name="demo"), Toolkit()
    kept = InMemorySpanExporter()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(kept))
    try:
        toolkit.register_mcp(client).run()
        model = ScriptedModel([call("where", "c1"), call("where", "c2")], "done")
        agent = ReActAgent("friday", model, toolkit=toolkit, tracer=OpenTelemetryHook(tracer_provider=provider))
        agent.call("hi").run()
    finally:
        client.close().run()
    (trace_id,) = {trace.format_trace_id(span.context.trace_id) for span in kept.get_finished_spans() if span.context}
    results = [result.text.split() for message in agent.memory.get().run() for result in message.tool_results]
    assert [each[0] for each in results] == [trace_id, trace_id]
    assert results[0][1] != results[1][1]


def test_tracing_imports_no_opentelemetry() -> None:
    code = "import sys, agentscope_rx.tracing as t; t.Content(); sys.exit('opentelemetry' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
