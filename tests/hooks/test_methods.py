"""Methods of an agent's class as hooks, by their names (R25: AgentScope Python's and our own)."""

from __future__ import annotations

import asyncio

import pytest
import reactivex as rx

from agentscope_rx import Hook, Msg, ReActAgent, hook
from agentscope_rx.errors import ConfigurationError, HookError
from agentscope_rx.events import (
    ActingChunkEvent,
    ChunkEvent,
    ErrorEvent,
    Event,
    PostActingEvent,
    PostCallEvent,
    PostReasoningEvent,
    PreActingEvent,
    PreCallEvent,
    PreReasoningEvent,
    PreSummaryEvent,
)
from agentscope_rx.hooks import DROP
from agentscope_rx.messages import ToolResultBlock
from agentscope_rx.reactive import just
from agentscope_rx.testing import ScriptedModel, call, run_virtual
from tests.agent.parts import broken, events_of, remembered, types, weather


def made(cls: type[ReActAgent], *turns, **options) -> ReActAgent:
    return cls("Friday", ScriptedModel(*turns), tools=[weather, broken], **options)


class Seeing(ReActAgent):
    """Notes under which name it saw what."""

    def __init__(self, *args, **options) -> None:
        super().__init__(*args, **options)
        self.seen: list[str] = []


def _noting(name: str):
    def method(self, event: Event):
        self.seen.append(f"{name} {event.type}")

    return method


ALL = [
    "pre_call", "pre_reply", "post_call", "post_reply", "pre_reasoning", "post_reasoning", "pre_acting", "post_acting",
    "pre_summary", "post_summary", "reasoning_chunk", "acting_chunk", "summary_chunk", "pre_print", "post_print",
    "on_error",
]  # fmt: skip


@pytest.mark.spec("R25")
def test_every_name_sees_its_events():
    seeing = type("Everything", (Seeing,), {name: _noting(name) for name in ALL})
    agent = made(seeing, call("weather", city="Rome"), "Sunny.", max_iters=1)
    run_virtual(agent.call("hi"))
    assert agent.seen == [
        "pre_call pre_call", "pre_reply pre_call",
        "pre_reasoning pre_reasoning",
        "reasoning_chunk reasoning_chunk", "pre_print reasoning_chunk", "post_print reasoning_chunk",
        "post_reasoning post_reasoning",
        "pre_acting pre_acting",
        "acting_chunk acting_chunk", "pre_print acting_chunk", "post_print acting_chunk",
        "post_acting post_acting",
        "pre_summary pre_summary",
        "summary_chunk summary_chunk", "pre_print summary_chunk", "post_print summary_chunk",
        "post_summary post_summary",
        "post_reply post_call", "post_call post_call",
    ]  # fmt: skip


def test_on_error_sees_why_a_run_failed():
    agent = made(type("Failing", (Seeing,), {"on_error": _noting("on_error")}), RuntimeError("broken"))
    with pytest.raises(RuntimeError, match="broken"):
        run_virtual(agent.call("hi"))
    assert agent.seen == ["on_error error"]


async def _later(event: PostActingEvent) -> PostActingEvent:
    await asyncio.sleep(1)
    return event


@pytest.mark.spec("W31")
@pytest.mark.parametrize("answer", [lambda e: e, _later, just, rx.of], ids=["sync", "async", "flow", "stock"])
def test_a_result_changed_in_post_acting_is_remembered_and_sent(answer):
    """D-like difference to AgentScope Python, whose post_acting comes after memory was written (§2, S9); W31."""

    class Redacting(ReActAgent):
        def post_acting(self, event: PostActingEvent):
            return answer(event.with_result(ToolResultBlock.of(event.tool_use, "[redacted]")))

    agent = made(Redacting, call("weather", city="Rome"), "Done.")
    run_virtual(agent.call("hi"))
    assert [message.tool_results[0].text for message in remembered(agent) if message.tool_results] == ["[redacted]"]


def test_a_coroutine_method_is_awaited():
    class Slow(ReActAgent):
        async def pre_reasoning(self, event: PreReasoningEvent):
            await asyncio.sleep(1)
            return event.with_hint("Be brief.")

    agent = made(Slow, "Yes.")
    run_virtual(agent.call("hi"))
    assert agent.model.requests[0].messages[-1].text == "Be brief."


def test_a_chunk_method_drops_a_chunk_and_not_the_message():
    class Silent(ReActAgent):
        def pre_print(self, event: ChunkEvent | ActingChunkEvent):
            return DROP

        def post_print(self, event: ChunkEvent | ActingChunkEvent):
            pytest.fail("called")

    agent = made(Silent, call("weather", city="Rome"), ["Sun", "ny."])
    events = run_virtual(events_of(agent, "hi"))
    assert not [each for each in types(events) if each.endswith("chunk")]
    assert events[-1].message.text == "Sunny."


def test_a_method_may_stop_the_run():
    class Careful(ReActAgent):
        def post_reasoning(self, event: PostReasoningEvent):
            return event.stop() if event.message.tool_calls else None

    agent = made(Careful, call("weather", city="Rome"))
    assert run_virtual(agent.call("hi")).tool_calls[0].name == "weather"


# --- inheritance -------------------------------------------------------------------------------------------------


class Base(ReActAgent):
    def pre_reasoning(self, event: PreReasoningEvent):
        return event.with_hint("base")


class Derived(Base):
    def pre_reasoning(self, event: PreReasoningEvent):
        return super().pre_reasoning(event).with_hint("derived")


class Plain(Base):
    pass


@pytest.mark.spec("D10")
@pytest.mark.parametrize(("cls", "hints"), [(Base, ["base"]), (Plain, ["base"]), (Derived, ["base", "derived"])])
def test_a_method_is_inherited_overridden_and_called_once(cls, hints):
    """D10 and the double wrapping of §2: a method that a subclass overrides is not called beside it."""
    agent = made(cls, "Yes.")
    run_virtual(agent.call("hi"))
    assert [message.text for message in agent.model.requests[0].messages[1:]] == hints


@pytest.mark.spec("case 38", "case 53")
def test_methods_come_before_given_hooks_of_equal_priority():
    """Order."""

    class Ordered(ReActAgent):
        def pre_call(self, event: PreCallEvent):
            order.append("method")

        @hook(PreCallEvent, priority=500)
        def late(self, event: PreCallEvent):
            order.append("declared method")

    order: list[str] = []
    agent = made(
        Ordered,
        "Yes.",
        hooks=[
            hook(PreCallEvent)(lambda event: order.append("given")),
            hook(PreCallEvent, priority=99)(lambda event: order.append("urgent")),
            hook(PreCallEvent, priority=501)(lambda event: order.append("last")),
        ],
    )
    run_virtual(agent.call("hi"))
    assert order == ["urgent", "method", "given", "declared method", "last"]


def test_two_agents_of_one_class_have_methods_of_their_own():
    agents = [made(type("Counting", (Seeing,), {"pre_call": _noting("x")}), "Yes.") for _ in range(2)]
    run_virtual(agents[0].call("hi"))
    assert [len(agent.seen) for agent in agents] == [1, 0]


# --- errors ------------------------------------------------------------------------------------------------------


def test_a_wrong_answer_names_class_and_method():
    class Sloppy(ReActAgent):
        def post_acting(self, event: PostActingEvent):
            return event.message

        @hook(PostCallEvent)
        def odd(self, event: PostCallEvent):
            return "text"

    with pytest.raises(HookError, match=r"Hook Sloppy.post_acting on post_acting: must return a PostActingEvent"):
        run_virtual(made(Sloppy, call("weather", city="Rome"), "Done.").call("hi"))
    with pytest.raises(HookError, match=r"Hook Sloppy.odd on post_call"):
        run_virtual(made(Sloppy, "Done.").call("hi"))


def test_the_class_that_defines_the_method_is_named():
    class Bad(Base):
        def pre_reasoning(self, event: PreReasoningEvent):
            return 1

    class Worse(Bad):
        pass

    with pytest.raises(HookError, match=r"Bad\.pre_reasoning"):
        run_virtual(made(Worse, "x").call("hi"))


def test_what_a_method_raises_fails_the_run():
    class Angry(ReActAgent):
        def pre_acting(self, event: PreActingEvent):
            raise ZeroDivisionError("angry")

    agent = made(Angry, call("weather", city="Rome"), "Done.")
    with pytest.raises(ZeroDivisionError, match="angry"):
        run_virtual(agent.call("hi"))
    assert not agent.running


@pytest.mark.parametrize(
    ("name", "method", "match"),
    [
        ("post_acting", lambda self, kwargs, output: None, r"Odd.post_acting is called with the event alone"),
        ("pre_reply", lambda self: None, r"Odd.pre_reply is called with the event alone"),
        ("on_error", lambda self, *, event: None, r"Odd.on_error is called with the event alone"),
        ("pre_call", "text", r"Odd.pre_call is the name of a hook"),
        ("post_observe", lambda self, kwargs, output: None, r"Odd.post_observe is called with the event alone"),
    ],
)
def test_an_invalid_hook_method_is_an_error_at_construction(name, method, match):
    with pytest.raises(ConfigurationError, match=match):
        made(type("Odd", (ReActAgent,), {name: method}), "x")


def _plain(self, event):
    return None


def _typed(self, event: PreReasoningEvent):
    return None


async def _coroutine(self, event: Event):
    return None


@pytest.mark.parametrize("method", [_plain, _typed, _coroutine])
@pytest.mark.parametrize(
    ("typo", "meant"),
    [
        ("pre_resoning", "pre_reasoning"), ("pre_reasonning", "pre_reasoning"), ("post_raesoning", "post_reasoning"),
        ("post_reasonin", "post_reasoning"), ("pre_atcing", "pre_acting"), ("post_actin", "post_acting"),
        ("post_sumary", "post_summary"), ("pre_replay", "pre_reply"), ("post_cal", "post_call"),
        ("pre_prnt", "pre_print"), ("post_reasoning_chunk", "reasoning_chunk"), ("pre_acting_chunk", "acting_chunk"),
        ("pre_pre_call", "pre_call"),
    ],
)  # fmt: skip
def test_a_slip_in_a_name_is_not_passed_over(typo, meant, method):
    with pytest.raises(ConfigurationError, match=rf"Sloppy\.{typo} is no hook. Did you mean {meant}\?"):
        made(type("Sloppy", (ReActAgent,), {typo: method}), "x")


@pytest.mark.parametrize(
    "name",
    ["pre_process", "post_process", "post_message", "pre_fetch", "post_init", "pre_flight", "post_all", "pre_fall",
     "post_paint", "pre_tokenize", "post_summon", "precall", "pre_", "post_x", "_pre_resoning", "pre_action"],
)  # fmt: skip
def test_other_words_are_left_alone(name):
    made(type("Fine", (ReActAgent,), {name: _plain}), "x")


def test_what_cannot_be_called_with_an_event_is_left_alone():
    class Fine(ReActAgent):
        post_replay = 3

        def pre_replay(self, path: str) -> None: ...
        def pre_resoning(self, one, two) -> None: ...
        def post_resoning(self) -> None: ...
        @staticmethod
        def post_sumary(event) -> None: ...
        @property
        def pre_cal(self) -> int:
            pytest.fail("looked at")

    made(Fine, "x")


def test_methods_of_a_tool_bringing_mixin_and_error_events():
    class Mixin:
        def on_error(self, event: ErrorEvent):
            seen.append(event.error_text)

    class Mixed(Mixin, ReActAgent):
        pass

    seen: list[str] = []
    with pytest.raises(ValueError):
        run_virtual(made(Mixed, ValueError("why")).call("hi"))
    assert seen == ["why"]


def test_a_hook_class_is_no_agent():
    # the names are those of agents: a Hook has on_event
    class Mine(Hook):
        def post_acting(self, event: PostActingEvent):
            pytest.fail("called")

    run_virtual(made(ReActAgent, call("weather", city="Rome"), "x", hooks=[Mine()]).call(Msg.user("hi")))


def test_pre_summary_is_not_pre_reasoning():
    class Both(Seeing):
        def pre_reasoning(self, event: PreReasoningEvent):
            self.seen.append(event.type)

        def pre_summary(self, event: PreSummaryEvent):
            self.seen.append(event.type)

    agent = made(Both, call("weather", city="Rome"), "x", max_iters=1)
    run_virtual(agent.call("hi"))
    assert agent.seen == ["pre_reasoning", "pre_summary"]


def test_a_class_that_changes_has_other_hooks():
    class Changing(ReActAgent):
        def helper(self) -> None: ...

    assert not made(Changing).hooks.all
    Changing.post_acting = lambda self, event: None  # type: ignore[attr-defined]
    assert [each.name for each in made(Changing).hooks] == ["Changing.post_acting"]
    del Changing.post_acting  # type: ignore[attr-defined]
    assert not made(Changing).hooks.all
    # in the place of another attribute
    Changing.helper = hook(PostActingEvent)(lambda self, event: None)  # type: ignore[assignment, method-assign]
    assert [each.name for each in made(Changing).hooks] == ["Changing.helper"]


def test_a_base_that_changes_is_noticed():
    class Base(ReActAgent): ...

    class Sub(Base): ...

    assert not made(Sub).hooks.all
    Base.pre_call = lambda self, event: None  # type: ignore[attr-defined]
    assert [each.name for each in made(Sub).hooks] == ["Base.pre_call"]
    del Base.pre_call  # type: ignore[attr-defined]
    Base.pre_reasonning = lambda self, event: None  # type: ignore[attr-defined]
    with pytest.raises(ConfigurationError, match="pre_reasoning"):
        made(Sub)
