"""The run, the agent and the call in the records of `logging`, and what the library itself logs."""

from __future__ import annotations

import asyncio
import logging
import subprocess
import sys
from collections.abc import Iterator, Sequence

import pytest
from tenacity import wait_fixed

from agentscope_rx import BackgroundHook, ReActAgent, Toolkit, tool
from agentscope_rx.errors import ConfigurationError, ModelConnectionError
from agentscope_rx.events import PostActingEvent, PreReasoningEvent
from agentscope_rx.hooks import hook
from agentscope_rx.hooks.process_wide import UNTRACED
from agentscope_rx.models import ExecutionConfig
from agentscope_rx.models.attempts import attempts
from agentscope_rx.models.wrappers import CircuitBreaker, FallbackModel, HedgedModel, RateLimitedModel
from agentscope_rx.reactive import Flow, Rate, just, throw
from agentscope_rx.testing import ScriptedModel, call, run_virtual
from agentscope_rx.testing.scripted_model import Delay
from agentscope_rx.tracing import add_run_to_logs

LOG = logging.getLogger("app")
SECRET = "sk-proj-Zx9vB3nM5kL7jH2gF4dS6aQ8wE1rT0yU"


class Kept(logging.Handler):
    """Keeps the records."""

    def __init__(self) -> None:
        super().__init__()
        self.records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)

    def of(self, name: str) -> list[logging.LogRecord]:
        return [each for each in self.records if each.name == name]

    def texts(self, name: str) -> list[str]:
        return [f"{each.levelname} {each.getMessage()}" for each in self.of(name)]

    def places(self) -> list[tuple[str, str, str]]:
        """Message, agent and call of the records of the application."""
        return [(each.getMessage(), of(each, "agent"), of(each, "call_id")) for each in self.of("app")]


def of(record: logging.LogRecord, name: str) -> str:
    return str(getattr(record, name))


@pytest.fixture
def kept() -> Iterator[Kept]:
    handler = Kept()
    root = logging.getLogger()
    level = root.level
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    undo = add_run_to_logs(handler)
    yield handler
    undo()
    root.setLevel(level)
    root.removeHandler(handler)


@tool
async def search(q: str) -> str:
    """Finds."""
    LOG.info("searching")
    await asyncio.sleep(1)

    async def inner() -> None:
        LOG.info("task")

    await asyncio.create_task(inner())
    return q


@tool
def crawl(q: str) -> str:
    """Blocks, on a worker thread."""
    LOG.info("crawling")
    return q


def test_records_of_tools_have_run_and_call(kept: Kept) -> None:
    calls = [call("search", "c1", q="a"), call("crawl", "c2", q="b")]
    agent = ReActAgent("friday", ScriptedModel(calls, "done"), toolkit=Toolkit([search, crawl]))
    LOG.info("before")
    asyncio.run(_called(agent))
    LOG.info("after")
    assert sorted(kept.places()) == [
        ("after", "", ""),
        ("before", "", ""),
        ("crawling", "friday", "c2"),
        ("searching", "friday", "c1"),
        ("task", "friday", "c1"),
    ]
    ids = {of(each, "run_id") for each in kept.of("app") if of(each, "agent")}
    assert len(ids) == 1 and ids == {of(each, "run_path") for each in kept.of("app")} - {""}


async def _called(agent: ReActAgent) -> None:
    await agent.call("hi")


def test_hooks_and_subscribers_are_not_in_the_call(kept: Kept) -> None:
    @hook(PostActingEvent)
    def acted(event: PostActingEvent) -> None:
        LOG.info("acted")

    @hook(PreReasoningEvent)
    def asks(event: PreReasoningEvent) -> None:
        LOG.info("asks")

    model = ScriptedModel(call("search", "c1", q="a"), "done")
    agent = ReActAgent("friday", model, toolkit=Toolkit([search]), hooks=[acted, asks])

    async def read() -> None:
        async for event in agent.stream("hi"):
            LOG.info("read %s", event.type)

    run_virtual(read())
    places = kept.places()
    assert [each[1:] for each in places if each[0] in ("acted", "asks")] == [("friday", "")] * 3
    # the reader's own task is outside of the run
    assert {each[1:] for each in places if each[0].startswith("read")} == {("", "")}


def test_sub_agent_has_its_own_run_and_the_whole_path(kept: Kept) -> None:
    inner = ReActAgent("inner", ScriptedModel(call("search", "c9", q="a"), "found"), toolkit=Toolkit([search]))
    outer = ReActAgent(
        "outer", ScriptedModel(call("call_inner", "c1", message="look"), "done"), toolkit=Toolkit([inner.as_tool()])
    )
    run_virtual(outer.call("hi"))
    assert set(kept.places()) == {("searching", "inner", "c9"), ("task", "inner", "c9")}
    path = of(kept.of("app")[0], "run_path").split("/")
    assert path[1] == "c1" and path[2] == of(kept.of("app")[0], "run_id") and len(path) == 3


def test_untraced_agents_are_known_to_logs(kept: Kept) -> None:
    model = ScriptedModel(call("search", "c1", q="a"), "done")
    run_virtual(ReActAgent("friday", model, toolkit=Toolkit([search]), tracer=UNTRACED).call("hi"))
    assert set(kept.places()) == {("searching", "friday", "c1"), ("task", "friday", "c1")}


def test_parallel_runs_do_not_mix(kept: Kept) -> None:
    agents = [
        ReActAgent(f"a{n}", ScriptedModel(call("search", f"c{n}", q="a"), "done"), toolkit=Toolkit([search]))
        for n in range(20)
    ]

    async def all_of_them() -> None:
        await asyncio.gather(*(_called(each) for each in agents))

    run_virtual(all_of_them())
    assert sorted(kept.places()) == sorted(
        (text, f"a{n}", f"c{n}") for n in range(20) for text in ("searching", "task")
    )


def test_own_attributes_of_a_record_stay(kept: Kept) -> None:
    LOG.info("x", extra={"run_id": "mine"})
    assert of(kept.of("app")[0], "run_id") == "mine"


def test_undone_logs_know_no_run(kept: Kept) -> None:
    handler = Kept()
    undo = add_run_to_logs(handler, kept)
    add_run_to_logs(handler)
    undo()
    assert handler.filters == [] and kept.filters == []


def test_bad_handlers_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="handlers of logging"):
        add_run_to_logs("root")  # pyright: ignore[reportArgumentType]
    code = "import agentscope_rx.tracing as t\ntry: t.add_run_to_logs()\nexcept Exception as e: print(e)"
    shown = subprocess.run([sys.executable, "-c", code], check=True, timeout=60, capture_output=True, text=True)
    assert "call logging.basicConfig() before" in shown.stdout


def test_importing_the_library_touches_no_logging() -> None:
    code = (
        "import logging, agentscope_rx, agentscope_rx.tracing\n"
        "found = [n for n, l in logging.root.manager.loggerDict.items() if getattr(l, 'handlers', None) or "
        "getattr(l, 'filters', None)]\n"
        "assert not found and not logging.root.handlers, found"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


# --- the library's own records ----------------------------------------------------------------------------------------

BROKEN = ModelConnectionError(f"No connection to https://x/?key={SECRET}")


def run_of(kept: Kept, name: str = "agentscope_rx.models") -> Sequence[str]:
    """The texts of the library, each made in the one run."""
    assert {of(each, "agent") for each in kept.of(name)} == {"friday"}
    assert not any(
        SECRET in text for text in map(str, (each.__dict__ | {"text": each.getMessage()} for each in kept.records))
    )
    return kept.texts(name)


def test_retries_are_logged(kept: Kept) -> None:
    model = ScriptedModel(BROKEN, "hello", execution_config=ExecutionConfig(max_attempts=3, wait=wait_fixed(2)))
    run_virtual(ReActAgent("friday", model).call("hi"))
    (text,) = run_of(kept)
    assert text.startswith("INFO model scripted: attempt 1 failed, the next begins in 2.0 s: ModelConnectionError: ")
    (record,) = kept.of("agentscope_rx.models")
    assert (of(record, "attempt"), of(record, "error_type")) == ("1", "ModelConnectionError")


def test_fallbacks_are_logged(kept: Kept) -> None:
    model = FallbackModel(ScriptedModel(BROKEN, model_name="first"), ScriptedModel("hello", model_name="second"))
    run_virtual(ReActAgent("friday", model).call("hi"))
    texts = run_of(kept)
    assert (
        len(texts) == 1
        and texts[0].startswith("INFO")
        and "model first failed, second is asked instead: ModelConnectionError" in texts[0]
    )


def test_circuits_are_logged(kept: Kept) -> None:
    model = CircuitBreaker(ScriptedModel(BROKEN, BROKEN, "hello"), failures=2, reset=5)

    async def calls() -> None:
        friday = ReActAgent("friday", model)
        for _ in range(2):
            with pytest.raises(ModelConnectionError):
                await friday.call("hi")
        await asyncio.sleep(6)
        await friday.call("hi")

    run_virtual(calls())
    assert run_of(kept) == [
        "WARNING model scripted: the circuit is open for 5.0 s after 2 failures",
        "INFO model scripted: the circuit is closed again",
    ]


def test_waits_for_limits_are_logged(kept: Kept) -> None:
    model = RateLimitedModel(ScriptedModel("a", "b"), rate=Rate(1, per=10))
    friday = ReActAgent("friday", model)

    async def calls() -> None:
        await friday.call("hi")
        await friday.call("hi")

    run_virtual(calls())
    assert run_of(kept) == [
        "DEBUG model scripted: a request waits for its rate limit",
        "INFO model scripted: waited 10.0 s for its rate limit",
    ]


def test_hedged_attempts_are_logged(kept: Kept) -> None:
    model = HedgedModel(ScriptedModel((Delay(5), "slow"), "quick"), after=2)
    run_virtual(ReActAgent("friday", model).call("hi"))
    assert run_of(kept) == ["INFO model scripted: silent for 2.0 s, a second attempt begins"]


def test_retries_of_tools_are_logged(kept: Kept) -> None:
    tries: list[int] = []

    @tool(execution_config=ExecutionConfig(max_attempts=2, wait=wait_fixed(1)))
    async def flaky() -> str:
        """Fails once."""
        tries.append(1)
        if len(tries) == 1:
            raise TimeoutError(f"token={SECRET}")
        return "ok"

    model = ScriptedModel(call("flaky", "c1"), "done")
    run_virtual(ReActAgent("friday", model, toolkit=Toolkit([flaky])).call("hi"))
    (text,) = run_of(kept, "agentscope_rx")
    assert text == "INFO tool flaky: attempt 1 failed, the next begins in 1.0 s: TimeoutError: token=***"
    assert of(kept.of("agentscope_rx")[0], "call_id") == "c1"


def test_retries_of_embeddings_and_speech_are_logged(kept: Kept) -> None:
    tries: list[int] = []

    def attempt() -> Flow[int]:
        tries.append(1)
        return throw(BROKEN) if len(tries) < 3 else just(7)

    config = ExecutionConfig(max_attempts=3, wait=wait_fixed(2))
    assert run_virtual(attempts(attempt, config, "embedder", "custom")) == 7
    texts = kept.texts("agentscope_rx.models")
    assert [text.split(" failed")[0] for text in texts] == [
        "INFO model embedder: attempt 1",
        "INFO model embedder: attempt 2",
    ]
    assert all(SECRET not in text for text in texts)


def test_work_in_the_background_is_logged(kept: Kept) -> None:
    @tool
    async def build() -> str:
        """Takes a while."""
        await asyncio.sleep(50)
        LOG.warning("built")
        return "built"

    model = ScriptedModel((call("build", "c1"),), "Going on.", "Done.")
    agent = ReActAgent("Friday", model, toolkit=Toolkit([build]), hooks=[BackgroundHook(10)])
    run_virtual(agent.call("go"))
    own = [record for record in kept.records if record.name in ("agentscope_rx", "app")]
    begun, within, ended = own
    job = begun.__dict__["job"]
    assert begun.getMessage() == f"tool build goes on in the background, as {job}"
    assert ended.getMessage() == f"tool build has ended in the background, {job}: completed"
    assert ended.__dict__["elapsed"] == 50.0
    assert {record.__dict__["call_id"] for record in own} == {"c1"}
    assert {record.__dict__["agent"] for record in own} == {"Friday"}
    assert within.__dict__["run_id"] == begun.__dict__["run_id"] != ""
