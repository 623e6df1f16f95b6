"""instrument(): every agent of the process; on and off, from any thread, and at no cost when it is off."""

from __future__ import annotations

import subprocess
import sys
import textwrap
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from opentelemetry.semconv._incubating.attributes import gen_ai_attributes
from opentelemetry.semconv.schemas import Schemas

from agentscope_rx import ReActAgent, hook
from agentscope_rx.errors import ConfigurationError
from agentscope_rx.events import PreCallEvent
from agentscope_rx.hooks.base import Tracer
from agentscope_rx.hooks.process_wide import PROCESS_WIDE, trace_process
from agentscope_rx.reactive import Probe
from agentscope_rx.testing import ScriptedModel, run_virtual
from agentscope_rx.tracing import (
    SCHEMA_URL,
    UNTRACED,
    Content,
    OpenTelemetryHook,
    conventions,
    instrument,
    uninstrument,
)
from tests.tracing.trees import Spans


@pytest.fixture(autouse=True)
def off_afterwards() -> Iterator[None]:
    yield
    uninstrument()
    assert PROCESS_WIDE.tracers == ()


def agent_of(**options: Any) -> ReActAgent:
    return ReActAgent("Friday", ScriptedModel("end", repeat=True), **options)


def call(agent: ReActAgent) -> None:
    async def main() -> None:
        await agent.call("hi")

    run_virtual(main())


def test_agents_that_exist_already_and_later_ones() -> None:
    spans, before = Spans(), agent_of()
    instrument(tracer_provider=spans.provider)
    call(before)
    call(agent_of())
    assert len(spans.named("invoke_agent")) == 2
    uninstrument()
    call(before)
    call(agent_of())
    assert len(spans.named("invoke_agent")) == 2
    instrument(tracer_provider=spans.provider)
    call(before)
    assert len(spans.named("invoke_agent")) == 3


def test_a_run_in_progress_keeps_its_spans() -> None:
    spans = Spans()

    @hook(PreCallEvent)
    def off(event: PreCallEvent) -> None:
        uninstrument()

    instrument(tracer_provider=spans.provider)
    agent = agent_of(hooks=[off])
    call(agent)
    assert spans.tree() == "invoke_agent Friday\n  reasoning\n    chat scripted"
    call(agent)
    assert len(spans.ended) == 3


def test_twice_is_once() -> None:
    spans = Spans()
    assert instrument(tracer_provider=spans.provider) is instrument(tracer_provider=spans.provider)
    call(agent_of())
    assert len(spans.named("invoke_agent")) == 1
    uninstrument()
    uninstrument()


def test_other_options_replace_the_first() -> None:
    spans = Spans()
    instrument(tracer_provider=spans.provider)
    instrument(tracer_provider=spans.provider, stages=False)
    call(agent_of())
    assert spans.tree() == "invoke_agent Friday\n  chat scripted"


def test_an_agent_that_is_left_out() -> None:
    spans = Spans()
    instrument(tracer_provider=spans.provider)
    call(agent_of(tracer=UNTRACED))
    assert spans.ended == []


def test_an_agent_with_a_hook_of_its_own_is_not_traced_twice() -> None:
    process, own = Spans(), Spans()
    instrument(tracer_provider=process.provider)
    call(agent_of(tracer=own.hook()))
    assert (len(process.ended), len(own.ended)) == (0, 3)


def test_another_tracer_of_the_agent_stays() -> None:
    spans = Spans()
    seen: list[str] = []

    class Mine(Tracer):
        def around_call(self, source: Any) -> Any:
            seen.append("mine")
            return source

    instrument(tracer_provider=spans.provider)
    call(agent_of(tracer=Mine()))
    assert seen == ["mine"] and len(spans.ended) == 3


def test_the_hooks_of_an_agent_are_its_own() -> None:
    instrument(tracer_provider=Spans().provider)
    agent = agent_of()
    assert list(agent.hooks) == []
    extra = Tracer()
    agent.hooks.add(extra)
    assert list(agent.hooks) == [extra]
    agent.hooks.remove(extra)
    assert list(agent.hooks) == []


def test_many_threads() -> None:
    spans, agents = Spans(), [agent_of() for _ in range(4)]
    failed: list[BaseException] = []

    def work(agent: ReActAgent) -> None:
        try:
            for _ in range(20):
                instrument(tracer_provider=spans.provider)
                call(agent)
                uninstrument()
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=work, args=(agent,)) for agent in agents]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    spans.assert_whole()


def test_a_tracer_of_the_process_that_is_no_tracer() -> None:
    with pytest.raises(ConfigurationError, match="takes a Tracer"):
        trace_process("tracer")  # pyright: ignore


@pytest.mark.parametrize("options", [{"content": "all"}, {"tracer_provider": "provider"}])
def test_wrong_options_are_refused(options: Any) -> None:
    with pytest.raises(ConfigurationError, match=f"{next(iter(options))} must be"):
        instrument(**options)
    with pytest.raises(ConfigurationError, match=f"{next(iter(options))} must be"):
        OpenTelemetryHook(**options)


def test_a_probe_of_a_users_tracer() -> None:
    log: list[str] = []

    class Ends(Probe[object]):
        def __init__(self, name: str) -> None:
            self.name = name

        def end(self, outcome: Any, error: Any) -> None:
            log.append(f"{self.name} {outcome}")

    class Mine(Tracer):
        def probe_call(self, request: Any) -> Any:
            return Ends(f"call of {request.agent}")

        def probe_attempt(self, request: Any) -> Any:
            return Ends(f"attempt of {request.model_name}")

    call(agent_of(tracer=Mine()))
    assert log == ["attempt of scripted completed", "call of Friday completed"]


# --- content ------------------------------------------------------------------------------------------------------


def test_no_content_unless_asked() -> None:
    spans = Spans()
    call(agent_of(tracer=spans.hook(), sys_prompt="Be secret."))
    for span in spans.ended:
        text = repr(dict(span.attributes or {}))
        assert "hi" not in text.replace("which", "") and "secret" not in text and "'end'" not in text


@pytest.mark.parametrize("content", [True, Content()])
def test_content_if_asked(content: Any) -> None:
    spans = Spans()
    call(agent_of(tracer=spans.hook(content=content), sys_prompt="Be kind."))
    chat = dict(spans["chat scripted"].attributes or {})
    assert "Be kind." in str(chat["gen_ai.system_instructions"])
    assert '"hi"' in str(chat["gen_ai.input.messages"]) and '"end"' in str(chat["gen_ai.output.messages"])
    run = dict(spans["invoke_agent Friday"].attributes or {})
    assert '"hi"' in str(run["gen_ai.input.messages"]) and '"end"' in str(run["gen_ai.output.messages"])


def test_the_message_of_an_error_has_no_secrets() -> None:
    spans = Spans()
    model = ScriptedModel(ValueError("bad key sk-abcdefghijklmnop1234"))

    async def main() -> None:
        with pytest.raises(ValueError, match="bad key"):
            await ReActAgent("Friday", model, tracer=spans.hook()).call("hi")

    run_virtual(main())
    for span in spans.ended:
        assert "sk-abc" not in repr((span.status.description, [dict(each.attributes or {}) for each in span.events]))
    assert spans["chat scripted"].status.description == "bad key ***"


# --- conventions --------------------------------------------------------------------------------------------------


def test_the_names_are_those_of_the_conventions() -> None:
    known = {value for name, value in vars(gen_ai_attributes).items() if name.isupper() and isinstance(value, str)}
    used = {
        value
        for name, value in vars(conventions).items()
        if name.isupper() and isinstance(value, str) and value.startswith("gen_ai.")
    }
    assert used - known == set()
    assert SCHEMA_URL in {each.value for each in Schemas}


def test_the_schema_and_the_scope_are_said() -> None:
    spans = Spans()
    call(agent_of(tracer=spans.hook()))
    scope = spans["invoke_agent Friday"].instrumentation_scope
    assert scope is not None and (scope.name, scope.schema_url) == ("agentscope_rx", SCHEMA_URL)


# --- processes ----------------------------------------------------------------------------------------------------


def python(program: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, timeout=60, check=False
    )


def test_the_interpreters_exit_ends_the_spans() -> None:
    ended = python("""
        import logging, threading
        logging.basicConfig()
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor, ConsoleSpanExporter
        from agentscope_rx import ReActAgent
        from agentscope_rx.testing import HANG, ScriptedModel
        from agentscope_rx.tracing import instrument

        def line(span):
            return f"{span.name} {span.attributes.get('agentscope.cancelled')}\\n"

        provider = TracerProvider()
        provider.add_span_processor(BatchSpanProcessor(ConsoleSpanExporter(formatter=line)))
        instrument(tracer_provider=provider)
        begun = threading.Event()
        agent = ReActAgent("Friday", ScriptedModel(["a", HANG]))
        agent.stream("hi").subscribe(lambda event: event.type == "reasoning_chunk" and begun.set(), lambda error: None)
        assert begun.wait(20)
    """)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert sorted(ended.stdout.split("\n")) == sorted(
        ["", "chat scripted True", "reasoning True", "invoke_agent Friday True"]
    )


def test_a_global_provider_may_be_set_later() -> None:
    ended = python("""
        from opentelemetry import trace
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import ConsoleSpanExporter, SimpleSpanProcessor
        from agentscope_rx import ReActAgent
        from agentscope_rx.testing import ScriptedModel
        from agentscope_rx.tracing import instrument

        instrument()
        agent = ReActAgent("Friday", ScriptedModel("end", repeat=True))
        agent.call("hi").run()
        provider = TracerProvider()
        provider.add_span_processor(SimpleSpanProcessor(ConsoleSpanExporter(formatter=lambda span: span.name + "\\n")))
        trace.set_tracer_provider(provider)
        agent.call("hi").run()
    """)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout.splitlines() == ["chat scripted", "reasoning", "invoke_agent Friday"]


def test_without_the_extra_the_error_names_it() -> None:
    ended = python("""
        import sys

        sys.modules["opentelemetry"] = None
        import agentscope_rx.tracing as tracing
        for name in ("instrument", "OpenTelemetryHook"):
            try:
                getattr(tracing, name)
            except tracing.MissingExtraError as error:
                print(error)
    """)
    assert ended.stderr == ""
    told = "'opentelemetry' is not installed. Install it with: pip install 'agentscope-rx[otel]'"
    assert ended.stdout.splitlines() == [told, told]
