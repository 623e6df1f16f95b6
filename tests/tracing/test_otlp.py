"""Spans and metrics sent by OTLP to a collector: the tree, the numbers, and no secret in anything that leaves."""

from __future__ import annotations

import json
import logging
from io import StringIO

import pytest
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from tenacity import wait_none

from agentscope_rx import ReActAgent, Toolkit, tool
from agentscope_rx.errors import ModelConnectionError
from agentscope_rx.messages import ChatUsage, Msg
from agentscope_rx.models import ChatResponse, ExecutionConfig
from agentscope_rx.testing import ScriptedModel, call
from agentscope_rx.tracing import Content, OpenTelemetryHook, add_run_to_logs
from tests.tracing.collector import Collector, fields
from tests.tracing.test_content import CORES, SECRETS


def traced(collector: Collector, agent: ReActAgent, question: str, content: Content | bool) -> Msg:
    """The reply of a run, once all of its traces have left."""
    spans = TracerProvider()
    spans.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(f"{collector.url}/v1/traces")))
    reader = PeriodicExportingMetricReader(OTLPMetricExporter(f"{collector.url}/v1/metrics"), 3_600_000)
    meters = MeterProvider([reader], shutdown_on_exit=False)
    agent.hooks.add(OpenTelemetryHook(tracer_provider=spans, meter_provider=meters, content=content))
    try:
        return agent.call(question).run()
    finally:
        spans.shutdown()
        meters.shutdown()


def used(input: int, output: int) -> ChatResponse:
    return ChatResponse(usage=ChatUsage(input, output))


@tool
async def lookup(q: str) -> str:
    """Finds."""
    if q == "bad":
        raise ValueError("nothing there")
    return f"found {q}"


def test_a_run_reaches_a_collector_whole() -> None:
    inner = ReActAgent(
        "inner", ScriptedModel((call("lookup", "c9", q="x"), used(5, 1)), ("ok", used(6, 1))), tools=[lookup]
    )
    calls = [call("lookup", "c1", q="a"), call("lookup", "c2", q="bad"), call("call_inner", "c3", message="go")]
    outer = ReActAgent(
        "outer", ScriptedModel((*calls, used(10, 3)), ("done", used(20, 4))), toolkit=Toolkit([lookup, inner.as_tool()])
    )
    with Collector() as collector:
        traced(collector, outer, "hi", True)
    spans = collector.spans
    by_id = {span.span_id: span for span in spans}
    paths: list[str] = []
    for span in spans:
        names, parent = [span.name], span.parent_span_id
        while parent:
            names.insert(0, by_id[parent].name)
            parent = by_id[parent].parent_span_id
        paths.append(" > ".join(name for name in names if name not in ("reasoning", "acting")))
    assert {span.trace_id for span in spans} == {spans[0].trace_id}
    assert sorted(set(paths) - {"invoke_agent outer"}) == [
        "invoke_agent outer > chat scripted",
        "invoke_agent outer > execute_tool call_inner",
        "invoke_agent outer > execute_tool call_inner > invoke_agent inner",
        "invoke_agent outer > execute_tool call_inner > invoke_agent inner > chat scripted",
        "invoke_agent outer > execute_tool call_inner > invoke_agent inner > execute_tool lookup",
        "invoke_agent outer > execute_tool lookup",
    ]
    tokens = [fields(span.attributes).get("gen_ai.usage.input_tokens", 0) for span in spans if "chat" in span.name]
    assert tokens == [10, 5, 6, 20]
    failed = [span for span in spans if span.status.code == span.status.STATUS_CODE_ERROR]
    assert [fields(span.attributes)["gen_ai.tool.call.id"] for span in failed] == ["c2"]
    (question,) = json.loads(str(fields(spans[0].attributes)["gen_ai.input.messages"]))
    assert question["parts"] == [{"type": "text", "content": "hi"}]
    assert {"gen_ai.client.token.usage", "agentscope.run.duration", "agentscope.tool.duration"} <= set(
        collector.metrics
    )


@pytest.mark.parametrize("content", [False, True])
@pytest.mark.parametrize("kind", SECRETS)
def test_no_secret_leaves_the_process(kind: str, content: bool) -> None:
    """A secret in the question, the arguments, results, errors, options and answers: in no span, metric or log."""
    secret, core = SECRETS[kind], CORES[kind]

    @tool
    async def leak(q: str) -> str:
        """Raises what it was given."""
        if q.startswith("raise"):
            raise ValueError(f"cannot use {secret}")
        return f"result {secret}"

    model = ScriptedModel(
        ModelConnectionError(f"No connection, with {secret}"),
        ([call("leak", "c1", q=f"a {secret}"), call("leak", "c2", q="raise")]),
        f"The secret is {secret}, as you said.",
        execution_config=ExecutionConfig(max_attempts=2, wait=wait_none()),
    )
    written = StringIO()
    handler = logging.StreamHandler(written)
    handler.setFormatter(
        logging.Formatter("%(agent)s %(run_id)s %(call_id)s %(message)s %(error_type)s", defaults={"error_type": ""})
    )
    logger = logging.getLogger("agentscope_rx")
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    undo = add_run_to_logs(handler)
    try:
        with Collector() as collector:
            reply = traced(collector, ReActAgent("friday", model, tools=[leak]), f"use {secret}", content)
    finally:
        undo()
        logger.removeHandler(handler)
        logger.setLevel(logging.NOTSET)
    assert secret in reply.text
    sent = b"".join(body for _, body in collector.raw) + str(collector.headers).encode()
    assert len(collector.raw) == 2 and core.encode() not in sent
    assert "attempt 1 failed" in written.getvalue() and core not in written.getvalue()
    # and all of the rest is there, if it was asked for
    assert (b"as you said" in sent) is content


def test_nothing_of_the_content_leaves_unasked() -> None:
    words = ["question-word", "argument-word", "result-word", "answer-word", "system-word"]

    @tool
    async def plain(q: str) -> str:
        """Says a word."""
        return "result-word"

    model = ScriptedModel(call("plain", "c1", q="argument-word"), "answer-word")
    agent = ReActAgent("friday", model, tools=[plain], sys_prompt="system-word")
    with Collector() as collector:
        traced(collector, agent, "question-word", False)
    sent = b"".join(body for _, body in collector.raw)
    assert [word for word in words if word.encode() in sent] == []
