"""What a hook raises keeps its type and names the hook, the event and the agent; what a hook may not put in, too."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
import reactivex as rx
from hypothesis import given
from hypothesis import strategies as st
from reactivex import operators as ops

from agentscope_rx import Approve, Hook, InMemoryMemory, Msg, MsgRole, ReActAgent, hook
from agentscope_rx.errors import AgentScopeError, HookError
from agentscope_rx.events import (
    ActingChunkEvent,
    ErrorEvent,
    Event,
    PostActingEvent,
    PostCallEvent,
    PostReasoningEvent,
    PostSummaryEvent,
    PreActingEvent,
    PreCallEvent,
    PreReasoningEvent,
    PreSummaryEvent,
    ReasoningChunkEvent,
    SummaryChunkEvent,
)
from agentscope_rx.hooks import Hooks, hook_operator
from agentscope_rx.reactive import just, throw
from agentscope_rx.testing import ScriptedModel, call, run_virtual
from tests.agent.parts import remembered, weather

PHASES = [PreCallEvent, PreReasoningEvent, PostReasoningEvent, PreActingEvent, PostActingEvent, PreSummaryEvent,
          PostSummaryEvent, PostCallEvent]  # fmt: skip
CHUNKS = [ReasoningChunkEvent, ActingChunkEvent, SummaryChunkEvent]


class OwnError(Exception):
    """A handler looks for this very class."""


def made(*hooks: Hook, **options) -> ReActAgent:
    model = ScriptedModel(call("weather", city="Rome"), "Sunny.")
    return ReActAgent("Friday", model, "Be.", tools=[weather], hooks=hooks, max_iters=1, **options)


def raised_in_order(event: Event):
    raise OwnError(event.type)


async def raised_later(event: Event):
    raise OwnError(event.type)


def failed_flow(event: Event):
    return throw(OwnError(event.type))


def failed_stock(event: Event):
    return rx.throw(OwnError(event.type))


@pytest.mark.spec("§22.10")
@pytest.mark.parametrize("kind", [*PHASES, *CHUNKS])
@pytest.mark.parametrize("failing", [raised_in_order, raised_later, failed_flow, failed_stock])
def test_an_error_keeps_its_type_and_names_hook_event_and_agent(kind, failing):
    """java-core.md §22.10: a hook raising in each phase. It is caught by its own class, and says where it is from."""
    with pytest.raises(OwnError, match=kind.type) as caught:
        run_virtual(made(hook(kind)(failing)).call("hi"))
    assert caught.value.__notes__ == [f"Raised by hook {failing.__name__} on {kind.type} of agent Friday."]


@pytest.mark.parametrize(
    "operator",
    [
        ops.map(lambda event: 1 / 0),
        lambda chunks: 1 / 0,
        lambda chunks: rx.throw(ZeroDivisionError()),
        lambda chunks: chunks.pipe(ops.to_list(), ops.map(lambda found: 1 / 0)),
    ],
)
@pytest.mark.parametrize("kind", CHUNKS)
def test_an_operators_error_names_it_though_others_come_behind(kind, operator):
    behind = hook_operator(kind, ops.map(lambda event: event), priority=900)
    watching = hook(kind, priority=901)(lambda event: None)
    with pytest.raises(ZeroDivisionError) as caught:
        run_virtual(made(hook_operator(kind, operator), behind, watching).call("hi"))
    assert caught.value.__notes__ == [f"Raised by hook operator on {kind.__name__} on {kind.type} of agent Friday."]


def test_one_error_object_tells_of_the_last_hook_only():
    same = OwnError("again")

    def first(event: Event):
        raise same

    def second(event: Event):
        raise same

    for failing in (first, first, second):
        with pytest.raises(OwnError):
            run_virtual(made(hook(PreCallEvent)(failing)).call("hi"))
        assert same.__notes__ == [f"Raised by hook {failing.__name__} on pre_call of agent Friday."]


def test_the_context_of_the_error_stays():
    def chained(event: Event):
        try:
            raise KeyError("inner")
        except KeyError:
            raise OwnError("outer")  # noqa: B904

    with pytest.raises(OwnError) as caught:
        run_virtual(made(hook(PreCallEvent)(chained)).call("hi"))
    assert isinstance(caught.value.__context__, KeyError) and not caught.value.__suppress_context__


def test_an_exception_that_takes_no_note_goes_without():
    @dataclass(frozen=True)
    class Stiff(Exception):
        code: int

        def add_note(self, note: str) -> None:
            raise TypeError("no notes here")

    def stiff(event: Event):
        raise Stiff(3)

    with pytest.raises(Stiff) as caught:
        run_virtual(made(hook(PreCallEvent)(stiff)).call("hi"))
    assert caught.value.code == 3


def test_the_error_event_says_what_the_error_says():
    seen: list[Event] = []
    agent = made(hook(PreCallEvent)(raised_in_order), hook(ErrorEvent)(seen.append))
    with pytest.raises(OwnError):
        run_virtual(agent.call("hi"))
    assert [(event.error_type, event.error_text) for event in seen] == [("OwnError", "pre_call")]


def test_a_methods_error_names_its_class():
    class Careful(ReActAgent):
        def pre_call(self, event: PreCallEvent):
            return event.append_system_content("there is no such method here")

    with pytest.raises(AttributeError) as caught:
        run_virtual(Careful("Friday", ScriptedModel("x")).call("hi"))
    assert caught.value.__notes__ == ["Raised by hook Careful.pre_call on pre_call of agent Friday."]


# --- one rule for SYSTEM messages --------------------------------------------------------------------------------

OBEY = Msg.system("Obey.")
PLACES = {
    PreCallEvent: {"input": [OBEY]},
    PreReasoningEvent: {"messages": [Msg.user("hi"), OBEY]},
    PreSummaryEvent: {"hints": (OBEY,)},
    PostReasoningEvent: {"message": OBEY},
    PostActingEvent: {"message": OBEY},
    PostSummaryEvent: {"message": OBEY},
    PostCallEvent: {"message": OBEY},
}


@pytest.mark.spec("W34")
def test_a_system_message_is_refused_wherever_a_hook_puts_it():
    """Java refuses one in PreCall's input, and takes it in PreReasoning's list: one rule for all places."""
    places = [(kind, field) for kind in PLACES for field in PLACES[kind]]
    places += [(PreReasoningEvent, "hints"), (PreSummaryEvent, "messages"), (PostReasoningEvent, "goto_messages")]
    for kind, field in places:
        value = PLACES[kind].get(field, (OBEY,))

        @hook(kind)
        def insert(event: Event, field=field, value=value):
            return event.replace(**{field: value})

        agent = made(insert)
        with pytest.raises(HookError, match=f"`{field}` must not hold a SYSTEM message.*system_message") as caught:
            run_virtual(agent.call("hi"))
        assert (caught.value.hook, caught.value.event) == ("insert", kind.type)
        assert all(message.role is not MsgRole.SYSTEM for message in remembered(agent))


@pytest.mark.spec("W34", "case 44")
def test_what_the_caller_gives_is_refused_where_it_is_given():
    """java-core.md §22.3 case 44 and W34: the caller's own SYSTEM message is not a hook's fault."""
    with pytest.raises(AgentScopeError, match="cannot be part of the input") as caught:
        made().call([OBEY])
    assert not isinstance(caught.value, HookError)


def test_a_hook_may_pass_on_what_a_memory_holds():
    memory = InMemoryMemory([Msg.system("From before."), Msg.user("Hello")])
    last_two = hook(PreReasoningEvent)(lambda event: event.replace(messages=tuple(event.messages)[-2:]))
    clean = hook(PreReasoningEvent)(
        lambda event: event.replace(messages=[m.replace(content="[cut]") for m in event.messages])
    )
    for each in (last_two, clean):
        run_virtual(made(each, memory=memory).call("hi"))


@pytest.mark.parametrize(
    ("change", "wanted"),
    [
        ({"system_message": Msg.user("Be brief.")}, r"`system_message` must be a SYSTEM Msg"),
        ({"system_message": "Be brief."}, r"`system_message` must be a SYSTEM Msg"),
        ({"answers": ("yes",)}, "`answers` must be a tuple of Approve and Reject"),
        ({"answers": None}, "`answers` must be a tuple of Approve and Reject"),
    ],
)
def test_other_fields_of_the_first_event_are_looked_at_too(change, wanted):
    with pytest.raises(HookError, match=wanted):
        run_virtual(made(hook(PreCallEvent)(lambda event: event.replace(**change))).call("hi"))


def test_a_list_of_answers_is_made_a_tuple():
    event = run_virtual(_fire(hook(PreCallEvent)(lambda event: event.replace(answers=[Approve("c")]))))
    assert event.answers == (Approve("c"),)


async def _fire(given_hook: Hook) -> PreCallEvent:
    return await Hooks([given_hook]).fire(PreCallEvent())


@given(st.lists(st.sampled_from(["user", "system"]), max_size=5), st.lists(st.booleans(), min_size=5, max_size=5))
def test_only_what_a_hook_adds_is_refused(roles: list[str], kept: list[bool]):
    """Any part of what is there may stay, in any order; one SYSTEM message more may not."""
    there = tuple(Msg.system("s") if role == "system" else Msg.user("u") for role in roles)
    part = tuple(message for message, keep in zip(there, kept, strict=False) if keep)[::-1]
    event = PreReasoningEvent(messages=there, history=there)

    async def main(answer: PreReasoningEvent) -> PreReasoningEvent:
        return await Hooks([hook(PreReasoningEvent)(lambda event: just(answer))]).fire(event)

    assert run_virtual(main(event.replace(messages=part))).messages == part
    with pytest.raises(HookError, match="SYSTEM"):
        run_virtual(main(event.replace(messages=(*part, OBEY))))
