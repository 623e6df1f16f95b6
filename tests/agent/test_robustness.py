"""Faults that other engines have, each by a test that this one would fail if it had them."""

from __future__ import annotations

import asyncio
import inspect
import threading
from types import MappingProxyType

import pytest
from reactivex import operators as ops

from agentscope_rx import (
    Agent,
    Base64Source,
    ExecutionConfig,
    GenerateReason,
    GracefulShutdown,
    Hook,
    ImageBlock,
    InMemoryMemory,
    InMemorySession,
    Msg,
    ReActAgent,
    StreamOptions,
    Toolkit,
    ToolSuspend,
    ToolUseBlock,
    URLSource,
    UsageLimits,
    VideoBlock,
    hook,
    tool,
)
from agentscope_rx.agent import StatePersistence, Tracer
from agentscope_rx.agent.run import Done
from agentscope_rx.errors import AgentShuttingDownError, HookError, InvalidInputError, ModelConnectionError, ServerError
from agentscope_rx.events import (
    Event,
    PostActingEvent,
    PostCallEvent,
    PostObserveEvent,
    PostReasoningEvent,
    PostSummaryEvent,
    PreActingEvent,
    PreCallEvent,
    PreObserveEvent,
    PreReasoningEvent,
    ReasoningChunkEvent,
)
from agentscope_rx.events.base import _KINDS
from agentscope_rx.messages import TextBlock, ThinkingBlock, ToolResultKind
from agentscope_rx.models import accumulate
from agentscope_rx.models.response import ChatResponse, ToolUseDelta
from agentscope_rx.planning import TodoList
from agentscope_rx.reactive import empty, from_async_iterable, just, then
from agentscope_rx.testing import HANG, Delay, ScriptedModel, run_virtual
from tests.agent.compacting import Compacts, summarized
from tests.agent.parts import count, events_of, remembered, slow, weather
from tests.agent.shorthand import agent, assert_good, broken, given, said, trace, use
from tests.knowledge.citing.parts import Told

ONCE = ExecutionConfig(max_attempts=1)


# --- 21.1 reactive plumbing -----------------------------------------------------------------------------------------


@pytest.mark.spec("W04", "J7")
def test_chunks_are_awaited_in_order_and_their_errors_heard():
    """A slow chunk hook delays the Post event; what it raises fails the run."""

    @hook(ReasoningChunkEvent)
    async def slowly(event):
        await asyncio.sleep(5 if event.text == "a" else 0)
        if event.text == "c":
            raise ValueError("of the chunk hook")

    friday = agent(["a", "b"], ["c"], hooks=[slowly])
    events = run_virtual(events_of(friday, "hi"))
    assert [e.text for e in events if isinstance(e, ReasoningChunkEvent)] == ["a", "b"]
    assert trace(events) == "pre_call pre_reasoning reasoning_chunk*2 post_reasoning post_call"
    with pytest.raises(ValueError, match="of the chunk hook"):
        run_virtual(friday.call("hi"))


@pytest.mark.spec("W13", "W14", "J13")
def test_timeouts_and_5xx_are_retried_with_the_multiplier():
    """By a typed attribute; 1 s, then ten times that, with +-50 %."""

    async def main():
        loop = asyncio.get_running_loop()
        config = ExecutionConfig(timeout=1, max_attempts=3, initial_backoff=1, backoff_multiplier=10, max_backoff=99)
        friday = agent([Delay(9)], ServerError("down", status=500), "ok", model_execution_config=config)
        times = [loop.time() async for event in friday.stream("hi") if event.type in ("retry", "reasoning_chunk")]
        assert times[0] == 1 and 0.5 <= times[1] - times[0] <= 1.5 and 5 <= times[2] - times[1] <= 15

    run_virtual(main())


@pytest.mark.spec("W09", "W16", "R13", "J13")
def test_a_retried_tool_is_really_called_again():
    """Lookup, entry and timeout are those of each attempt; a failure is retried if it says so."""
    called: list[int] = []

    @tool(execution_config=ExecutionConfig(max_attempts=3, retry_on=lambda error: True, timeout=2))
    async def flaky() -> str:
        """Fails, then hangs, then works."""
        called.append(len(called))
        if len(called) == 1:
            raise ValueError("at once")
        await asyncio.sleep(60 if len(called) == 2 else 0)
        return "ok"

    friday = agent(use("a", "flaky"), "done", tools=[flaky])
    events = run_virtual(events_of(friday, "hi"))
    assert called == [0, 1, 2] and said(friday)[2] == "a=ok"
    assert [e.error_type for e in events if e.type == "retry"] == ["ValueError", "ToolTimeoutError"]


@pytest.mark.spec("W17", "D9")
@pytest.mark.parametrize("error", [InterruptedError("socket"), asyncio.CancelledError(), TimeoutError("late")])
def test_a_cancelled_request_is_not_an_interruption_by_the_user(error: BaseException):
    """It is an error, not a polite answer."""

    class Cut(ScriptedModel):
        def do_stream(self, messages, tools, options):
            async def chunks():
                yield ChatResponse((TextBlock("so"),))
                raise error

            return from_async_iterable(chunks)

    friday = agent(Cut(execution_config=ONCE))
    with pytest.raises(Exception) as caught:
        run_virtual(friday.call("hi"))
    assert "interrupted me" not in str(caught.value) and said(friday) == ["user hi"]
    assert not friday.running


@pytest.mark.spec("W19")
def test_a_tracer_belongs_to_its_agent():
    """No global; another agent's run is not seen."""
    seen: list[str] = []

    class Noting(Tracer):
        def around_model(self, source, request):
            seen.append(request.agent)
            return source

    traced, other = agent("a", tracer=Noting()), agent("b")
    other.name = "Other"
    run_virtual(traced.call("hi"))
    run_virtual(other.call("hi"))
    assert seen == ["Friday"]


@pytest.mark.spec("W20", "D13", "R24", "J1")
def test_a_blocking_tool_does_not_block_the_loop():
    """The loop answers what the tool waits for."""

    @tool
    def wait() -> str:
        """Waits for the loop."""
        return "answered" if go.wait(5) else "blocked"

    async def main():
        asyncio.get_running_loop().call_later(0.01, go.set)
        return (
            await agent(use("a", "wait"), "done", tools=[wait])
            .stream("hi")
            .pipe(ops.filter(lambda e: isinstance(e, PostActingEvent)), ops.map(lambda e: e.result.text))
        )

    go = threading.Event()
    assert asyncio.run(main()) == "answered"


# --- 21.2 per-call state --------------------------------------------------------------------------------------------


@pytest.mark.spec("W26", "W22")
def test_progress_goes_to_the_run_that_it_belongs_to():
    """Two runs on one agent at once, one toolkit: each stream has its own chunks."""

    async def main():
        friday = agent(
            use("a", "count", upto=3), use("b", "count", upto=3), "x", "y", tools=[count], check_running=False
        )

        async def chunks(name):
            return [e.tool_use.id async for e in friday.stream(name) if e.type == "acting_chunk"]

        assert sorted(await asyncio.gather(chunks("1"), chunks("2"))) == [["a"] * 4, ["b"] * 4]

    run_virtual(main())


@pytest.mark.spec("W27", "R9")
def test_building_twice_shares_nothing():
    """Neither history, hooks nor tools; what was handed over is as it was."""
    hooks, toolkit = [hook(PreCallEvent)(lambda event: None)], Toolkit([weather])
    one, two = (agent("x", toolkit=toolkit, hooks=hooks, finish="text") for _ in range(2))
    run_virtual(one.call("hi"))
    one.toolkit.register(slow)
    assert said(two) == [] and two.toolkit.names == toolkit.names == ("weather",)
    assert len(hooks) == len(one.hooks.all) == len(two.hooks.all) == 1


@pytest.mark.spec("W29")
def test_an_agent_need_not_be_a_react_agent():
    """Events, hooks, memory and interruption are those of any agent."""

    class Parrot(Agent):
        def route(self, run):
            reply = run.final(Msg.assistant(f"{run.input.given[-1].text}!", self.name), GenerateReason.MODEL_STOP)
            return run.remember((reply,)).pipe(then(lambda: just(Done(reply))))

    seen: list[str] = []

    class All(Hook):
        def on_event(self, event: Event):
            seen.append(event.type)

    parrot = Parrot("Polly", InMemoryMemory(), hooks=[All()])
    assert run_virtual(parrot.call("hi")).text == "hi!"
    assert seen == ["pre_call", "post_call"] and said(parrot) == ["user hi", "Polly hi!"]


# --- 21.3 hooks and events ------------------------------------------------------------------------------------------


@pytest.mark.spec("R5", "W43")
@pytest.mark.parametrize(
    ("kind", "change"),
    [
        (PostCallEvent, lambda e: e.replace(message=Msg.assistant([use("z")], "Friday"))),
        (PostSummaryEvent, lambda e: e.replace(message=Msg.assistant([use("z")], "Friday"))),
        (PostCallEvent, lambda e: e.replace(message=e.message.replace(content=given("z")))),
        (PostReasoningEvent, lambda e: e.replace(message=e.message.replace(content=given("z")))),
        (
            PostActingEvent,
            lambda e: e.with_result(e.result.__class__(e.result.id, "weather", "?", ToolResultKind.SUSPENDED)),
        ),
        (PreCallEvent, lambda e: e.replace(input=(Msg.assistant([use("z")], "Friday"),))),
    ],
)
def test_no_hook_makes_calls_or_results_out_of_nothing(kind, change):
    """Every call in memory has one result, and every result a call, whatever hooks do."""
    friday = agent(use("a"), "x", "y", max_iters=1, hooks=[hook(kind)(change)])
    with pytest.raises((InvalidInputError, HookError)):
        run_virtual(friday.call("hi"))
    assert_good(friday)


@pytest.mark.spec("R5")
def test_a_result_that_was_stopped_at_stays():
    """PostCall of a run that stopped at a result may change its text, not take it from its call."""

    @hook(PostActingEvent)
    def stop(event):
        return event.stop()

    def run(change):
        friday = agent(use("a"), hooks=[stop, hook(PostCallEvent)(change)])
        return friday, friday.call("hi")

    friday, call = run(lambda e: e.replace(message=e.message.replace(content=given("a", "[redacted]"))))
    assert run_virtual(call).tool_results[0].text == "[redacted]" and said(friday)[2] == "a=[redacted]"
    friday, call = run(lambda e: e.replace(message=e.message.replace(content="[redacted]")))
    with pytest.raises(HookError, match="without a result"):
        run_virtual(call)
    assert_good(friday)


@pytest.mark.spec("W37")
def test_what_an_event_offers_has_an_effect():
    """No stop on a summary, no system message where none is sent."""
    offers = {kind: {name for name in ("stop", "goto_reasoning", "append_system_content", "with_hint", "with_result")
                     if hasattr(kind, name)} for kind in _KINDS.values()}  # fmt: skip
    assert {kind.type: found for kind, found in offers.items() if found} == {
        "pre_reasoning": {"append_system_content", "with_hint"},
        "pre_summary": {"append_system_content", "with_hint"},
        "post_reasoning": {"stop", "goto_reasoning"},
        "post_acting": {"stop", "with_result"},
    }


@pytest.mark.spec("W38")
@pytest.mark.parametrize("kind", [PreCallEvent, PreReasoningEvent, PostReasoningEvent, PostActingEvent, PostCallEvent])
def test_none_is_unchanged_and_nothing_is_an_error(kind):
    """None goes on; an Observable without an event is a `HookError` with the hook's name; no run ends silently."""
    assert run_virtual(agent(use("a"), "x", hooks=[hook(kind)(lambda event: None)]).call("hi")).text == "x"

    @hook(kind)
    def forgetful(event):
        return empty()

    with pytest.raises(HookError, match="forgetful"):
        run_virtual(agent(use("a"), "x", hooks=[forgetful]).call("hi"))


@pytest.mark.spec("W40", "R20")
def test_every_reason_and_every_kind_of_event_is_produced():
    """Nothing is declared that never comes."""
    reasons: set[GenerateReason] = set()
    kinds: set[str] = set()

    async def see(friday: ReActAgent, *args, act=None, **options):
        try:
            async for event in friday.stream(*args, **options):
                kinds.add(event.type)
                if event.type == act == "pre_acting":
                    friday.enqueue("and this")
                elif event.type == act:
                    friday.interrupt()
        except ModelConnectionError:
            pass
        reasons.update(message.generate_reason for message in remembered(friday))
        if isinstance(event, PostCallEvent):
            reasons.add(event.message.generate_reason)

    @tool(requires_approval=True)
    async def risky() -> str:
        """Needs approval."""
        return "x"

    @tool
    async def outside() -> str:
        """Suspends."""
        raise ToolSuspend

    @tool(return_direct=True)
    async def direct() -> str:
        """Is the reply."""
        return "x"

    @tool(background=True)
    async def later() -> str:
        """Goes on."""
        await asyncio.sleep(1)
        return "x"

    async def main():
        stop = [hook(PostReasoningEvent)(lambda e: e.stop())], [hook(PostActingEvent)(lambda e: e.stop())]
        tools = [weather, risky, outside, direct]
        await see(agent(use("a", "direct"), tools=tools), "hi")
        await see(agent(use("a"), "x", tools=tools, max_iters=1), "hi")
        await see(agent("x"), "hi")
        await see(agent(use("a"), "x"), "hi", act="pre_acting")
        await see(agent("x", hooks=stop[0]), "hi")
        await see(agent(use("a"), hooks=stop[1]), "hi")
        await see(agent(use("a", "risky"), tools=tools), "hi")
        await see(agent(use("a", "outside"), tools=tools), "hi")
        await see(agent(use("a", "later"), "x", "y", tools=[later]), "hi")
        await see(agent(use("g", "generate_response", response=1)), "hi", output=int)
        await see(agent(["x", HANG]), "hi", act="reasoning_chunk")
        await see(agent(use("a"), "x"), "hi", limits=UsageLimits(model_calls=1, on_limit="summary"))
        twice = agent(ModelConnectionError("x"), ["y", ModelConnectionError("z")])
        twice.model.execution_config = ExecutionConfig(max_attempts=2)
        await see(twice, "hi")
        await see(agent(use("a", "write_todos", todos=[{"content": "x"}]), "x", hooks=[TodoList()]), "hi")
        await see(agent(use("a"), "x", hooks=[Compacts(lambda request: summarized(request, 0), above=2)]), "hi")
        await see(agent("said [1]", knowledge=Told("x")), "hi")
        # (these two are in no run's stream)
        listening = agent(
            "x", hooks=[hook(kind)(lambda e: kinds.add(e.type)) for kind in (PreObserveEvent, PostObserveEvent)]
        )
        await listening.observe("hi")

    run_virtual(main())
    # (a hub is around several agents)
    assert reasons == set(GenerateReason) and kinds == set(_KINDS) - {"hub"}


@pytest.mark.spec("W41", "R20", "R21")
def test_what_is_the_default_is_what_is_said():
    """All is shown, the reply last, or what was chosen; plain input recovers from pending calls."""
    assert isinstance(run_virtual(events_of(agent("x"), "hi"))[-1], PostCallEvent)
    for kinds in ((), PreActingEvent):
        assert run_virtual(events_of(agent("x"), "hi", StreamOptions(kinds=kinds))) == []
    assert agent("x").pending_policy == "recover"


# --- 21.4 interruption ----------------------------------------------------------------------------------------------


# --- 21.5 accumulation and arguments --------------------------------------------------------------------------------


@pytest.mark.spec("W50", "R14")
def test_one_truth_about_arguments():
    """What a hook puts into the call is validated, run, and all that there is."""
    ran: list[str] = []

    @tool
    async def go(city: str) -> str:
        """Goes."""
        ran.append(city)
        return city

    for edited, result in (({"city": "Oslo"}, "a=Oslo"), ({"town": "Oslo"}, "a!invalid_arguments")):
        change = hook(PreActingEvent)(lambda e, edited=edited: e.replace(tool_use=e.tool_use.with_input(edited)))
        friday = agent([ToolUseDelta(0, "a", "go", '{"city":"Rome"}')], "done", tools=[go], hooks=[change])
        run_virtual(friday.call("hi"))
        assert said(friday)[2] == result
    assert ran == ["Oslo"]


@pytest.mark.spec("W51", "R6", "S11", "case 57", "case 58")
@pytest.mark.parametrize("raw", ['{"city": "Ro', "[1]", "Rome", '{"city": "Rome"} {"city"', "{'city': 'Rome'}", '"x"'])
def test_malformed_arguments_are_told_from_missing_ones(raw: str):
    """The model is told that its JSON was wrong; it is never replayed as arguments."""
    friday = agent([ToolUseDelta(0, "a", "weather", raw)], "done")
    run_virtual(friday.call("hi"))
    call, result = remembered(friday)[1].tool_calls[0], remembered(friday)[2].tool_results[0]
    assert (dict(call.input), call.raw) == ({}, raw) and call.input_error
    assert result.kind is ToolResultKind.INVALID_ARGUMENTS and "JSON" in result.text


@pytest.mark.spec("W52", "W53", "W56", "W57", "case 54", "case 55")
def test_whose_piece_it_is():
    """By index; an id that comes late, calls without ids, a tool named `__x`,
    an answer whose chunks all have other ids."""

    @tool(name="__x")
    async def dunder(n: int) -> str:
        """Legit."""
        return f"{n}"

    number = iter(range(99))

    def piece(*blocks):
        return ChatResponse(blocks, id=f"chunk-{next(number)}")

    friday = agent(
        [
            piece(ToolUseDelta(0, None, "__x", '{"n":')), piece(ToolUseDelta(1, None, "__x", '{"n":')),
            piece(ToolUseDelta(0, "late", None, "1}")), piece(ToolUseDelta(1, arguments="2}")),
        ],
        "done",
        tools=[dunder],
    )  # fmt: skip
    events = run_virtual(events_of(friday, "hi"))
    chunks = [event for event in events if isinstance(event, ReasoningChunkEvent)][:4]
    calls = remembered(friday)[1].tool_calls
    assert [dict(call.input) for call in calls] == [{"n": 1}, {"n": 2}]
    ids = [call.id for call in calls]
    assert len(set(ids)) == 2 and all(ids)
    assert [chunk.delta.id for chunk in chunks] == [*ids, *ids], "an id is fixed with the first piece"
    assert {chunk.message_id for chunk in chunks} == {remembered(friday)[1].id}
    assert [result.text for message in remembered(friday) for result in message.tool_results] == ["1", "2"]


@pytest.mark.spec("W54", "R15")
def test_pieces_are_read_once():
    """Arguments in 5,000 pieces are parsed once, text joined once."""
    raw = '{"city":"' + "x" * 5000 + '"}'
    friday = agent([ToolUseDelta(0, "a", "weather"), *(ToolUseDelta(0, arguments=each) for each in raw)], "done")
    parsed: list[str] = []
    original = accumulate.parse_arguments
    accumulate.parse_arguments = lambda text: (parsed.append(text), original(text))[1]
    try:
        run_virtual(friday.call("hi"))
    finally:
        accumulate.parse_arguments = original
    assert parsed == [raw]


@pytest.mark.spec("W55")
def test_blocks_keep_their_order_and_all_that_they_carry():
    """Interleaving, signatures, metadata, media."""
    image = ImageBlock(URLSource("https://example.org/a.png"))
    turn = [
        ThinkingBlock("a", metadata={"k": 1}), ThinkingBlock("", "sig"), "b", use("c"), "d", ThinkingBlock("e"), image,
    ]  # fmt: skip
    friday = agent(turn, "done")
    run_virtual(friday.call("hi"))
    assert remembered(friday)[1].content == (
        ThinkingBlock("a", "sig", {"k": 1}), TextBlock("bd"), use("c"), ThinkingBlock("e"), image,
    )  # fmt: skip


# --- 21.6 tools -----------------------------------------------------------------------------------------------------


@pytest.mark.spec(
    "W58", "W61", "W63", "W65", "W80", "case 80", "case 81", "case 98", "case 101", "case 102", "case 118"
)
def test_results_of_every_kind_in_one_batch():
    """Text as it is, schemas in order of registration,
    inherited tools, one spelling of errors with a kind, and every result with its call's id and name."""

    class Base:
        @tool
        def text(self) -> str:
            """Says."""
            return 'Hello "World"'

    class Tools(Base):
        @tool
        async def quiet(self) -> None:
            """Says nothing."""

    friday = agent(
        [use("a", "text"), use("b", "quiet"), use("c", "broken"), use("d", "nope"), use("e", "slow", seconds=9.0)],
        "done", toolkit=Toolkit([Tools(), slow, broken]), tool_execution_config=ExecutionConfig(timeout=1),
    )  # fmt: skip
    run_virtual(friday.call("hi"))
    results = [result for message in remembered(friday) for result in message.tool_results]
    assert [r.text for r in results[:2]] == ['Hello "World"', "Done."]
    assert [(r.id, r.name, r.kind) for r in results[2:]] == [
        ("c", "broken", "failed"), ("d", "nope", "not_found"), ("e", "slow", "timeout"),
    ]  # fmt: skip
    assert all(r.text.startswith("Error: ") and r.is_error for r in results[2:])
    assert [schema.name for schema in friday.model.requests[0].tools] == ["text", "quiet", "slow", "broken"]


# --- 21.7 state, shutdown -------------------------------------------------------------------------------------------


@pytest.mark.spec("W72", "W73")
def test_agents_of_one_name_are_told_apart():
    """Two agents of one name are both cut off and saved, in a later call too; new input is not lost."""

    async def main():
        session, shutdown = InMemorySession(), GracefulShutdown(timeout=5)
        pair = [agent("one", [HANG], shutdown=shutdown) for _ in range(2)]
        for number, friday in enumerate(pair):
            await friday.bind(session, f"s{number}")
            await friday.call("hi")
        tasks = [friday.call("go").as_task() for friday in pair]
        await asyncio.sleep(1)
        report = await shutdown.begin()
        assert len(report.cut_off) == 2
        for number, task in enumerate(tasks):
            with pytest.raises(AgentShuttingDownError) as caught:
                await task
            assert caught.value.saved == f"s{number}"
        after = agent("done")
        await after.bind(session, "s1")
        assert (await after.call("something else")).text == "done"
        assert said(after) == ["user hi", "Friday one", "user go", "user something else", "Friday done"]

    run_virtual(main())


@pytest.mark.spec("W77")
def test_media_and_metadata_survive_json_and_cannot_be_edited():
    """Pixel bounds by one spelling; metadata is no live dict."""
    source = Base64Source.of(b"x", "image/png")
    message = Msg.user(
        [ImageBlock(source, 1, 2), VideoBlock(URLSource("https://example.org/v"), 1.5, 2, 3, 4, 5)]
    ).replace(metadata={"a": {"b": [1]}})
    again = Msg.from_json(message.to_json())
    assert again == message and again.content == message.content
    for mapping in (message.metadata, message.metadata["a"]):
        with pytest.raises(TypeError):
            mapping["c"] = 1
    assert not isinstance(message.metadata, MappingProxyType) and ToolUseBlock("a", "b").input == {}


@pytest.mark.spec("W79")
def test_one_method_with_keywords():
    """`call` and `stream` take the same, by keyword; `call` is the last value of `stream`."""
    call, stream = (set(inspect.signature(method).parameters) for method in (Agent.call, Agent.stream))
    assert stream - call == {"options"}
    assert call == {"self", "msgs", "context", "memory", "limits", "output", "when_busy"}
    assert {name for name in vars(Agent) if name.startswith(("call", "stream"))} == {"call", "stream"}
    assert StatePersistence.memory_only() == StatePersistence(pending=False)
