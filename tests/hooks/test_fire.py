"""Hooks of Pre and Post events: their order, every form of answer, and what they may not answer."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable

import pytest
import reactivex as rx
from hypothesis import given
from hypothesis import strategies as st
from reactivex import operators as ops

from agentscope_rx import Hook, Msg, hook
from agentscope_rx.errors import ConfigurationError, HookError
from agentscope_rx.events import (
    Event,
    PostActingEvent,
    PostCallEvent,
    PostReasoningEvent,
    PreActingEvent,
    PreCallEvent,
    PreReasoningEvent,
    PreSummaryEvent,
)
from agentscope_rx.hooks import DROP, Hooks
from agentscope_rx.messages import ToolResultBlock, ToolUseBlock
from agentscope_rx.reactive import empty, from_callable, just, never, throw, timer
from agentscope_rx.testing import run_virtual

CALL = ToolUseBlock("c1", "weather", {"city": "Rome"})
PRE = PreReasoningEvent(messages=(Msg.user("hi"),))
ACTED = PostActingEvent(tool_use=CALL, message=Msg.tool(ToolResultBlock.of(CALL, "sunny")))
REFUSAL = Msg.assistant("I will not.")
ASKED = PostReasoningEvent(message=Msg.assistant([CALL], "Friday"))


def later(value: object) -> object:
    async def wait() -> object:
        await asyncio.sleep(1)
        return value

    return wait()


FORMS: dict[str, Callable[[object], object]] = {
    "sync": lambda value: value,
    "coroutine": later,
    "future": lambda value: asyncio.ensure_future(later(value)),
    "flow": just,
    "late flow": lambda value: timer(1).pipe(ops.map(lambda _: value)),
    "stock observable": rx.of,
    "coroutine of a flow": lambda value: later(just(value)),
    "flow of a coroutine": lambda value: just(later(value)),
}


class Noting(Hook):
    """Adds its label as a hint, in one of the forms."""

    def __init__(self, label: str, priority: int = 100, form: str = "sync") -> None:
        self.label = label
        self.priority = priority
        self.form = form

    def on_event(self, event: Event):
        assert isinstance(event, PreReasoningEvent)
        return FORMS[self.form](event.with_hint(self.label))


def fired(event: Event, *hooks: Hook) -> Event:
    async def main() -> Event:
        return await Hooks(hooks).fire(event)

    return run_virtual(main())


def labels(event: Event) -> list[str]:
    assert isinstance(event, PreReasoningEvent)
    return [hint.text for hint in event.hints]


# --- order -------------------------------------------------------------------------------------------------------


def test_without_hooks_the_event_is_passed_as_it_is():
    assert fired(PRE) is PRE
    assert fired(PRE, hook(PreCallEvent)(lambda event: 1 / 0)) is PRE


@given(st.lists(st.tuples(st.integers(-3, 3), st.sampled_from(sorted(FORMS))), max_size=6))
def test_order_is_by_priority_then_registration_for_every_form(given_hooks: list[tuple[int, str]]):
    hooks = [Noting(str(index), priority, form) for index, (priority, form) in enumerate(given_hooks)]
    expected = sorted(range(len(hooks)), key=lambda index: hooks[index].priority)
    assert labels(fired(PRE, *hooks)) == [str(index) for index in expected]


def test_hooks_are_sorted_once_and_listed():
    first, last = Noting("a", 900), Noting("b", 1)
    assert Hooks([first, last]).all == (last, first)


def test_the_default_priority_is_100():
    assert (
        labels(fired(PRE, Noting("late", 101), hook(PreReasoningEvent)(lambda e: e.with_hint("f")), Noting("x", 99)))[1]
        == "f"
    )


def test_a_hook_sees_the_kinds_it_asked_for_subclasses_included():
    seen: list[str] = []

    class Two(Hook):
        kinds = (PreReasoningEvent, PostCallEvent)

        def on_event(self, event: Event):
            seen.append(event.type)

    for event in (PRE, PreSummaryEvent(), PostCallEvent(), PreCallEvent(), ASKED):
        fired(event, Two())
    assert seen == ["pre_reasoning", "pre_summary", "post_call"]


def test_events_are_fired_at_subscription_and_each_time():
    calls: list[Event] = []
    flow = Hooks([hook(PreReasoningEvent)(calls.append)]).fire(PRE)
    assert calls == []
    for count in (1, 2):
        assert flow.run() is PRE and len(calls) == count


# --- answers -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", FORMS)
def test_none_is_unchanged_in_every_form(form: str):
    assert fired(PRE, hook(PreReasoningEvent)(lambda event: FORMS[form](None))) is PRE


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("answer", ["text", 3, PostCallEvent(), PreSummaryEvent(), Msg.user("x"), object()])
def test_a_wrong_class_is_an_error_that_names_hook_and_event(form: str, answer: object):
    def forgetful(event: PreReasoningEvent):
        return FORMS[form](answer)

    with pytest.raises(HookError, match=r"forgetful on pre_reasoning.*PreReasoningEvent") as caught:
        fired(PRE, hook(PreReasoningEvent)(forgetful))
    assert (caught.value.hook, caught.value.event) == ("forgetful", "pre_reasoning")
    assert type(answer).__name__ in str(caught.value)


@pytest.mark.parametrize(
    ("answer", "found"),
    [(empty, 0), (lambda: just(PRE, PRE), 2), (rx.empty, 0), (lambda: rx.of(PRE, None), 2), (lambda: DROP, 0),
     (lambda: later(DROP), 0), (lambda: just(DROP), 0)],
)  # fmt: skip
def test_an_empty_or_doubled_answer_is_an_error(answer, found):
    class Odd(Hook):
        def on_event(self, event: Event):
            return answer()

    with pytest.raises(HookError, match=f"Odd on pre_reasoning: returned {found} events"):
        fired(PRE, Odd())


def test_an_endless_answer_is_given_up_at_its_second_event():
    stopped: list[bool] = []
    endless = rx.of(PRE, PRE).pipe(ops.concat(never()), ops.finally_action(lambda: stopped.append(True)))
    with pytest.raises(HookError, match="2 events"):
        fired(PRE, hook(PreReasoningEvent)(lambda event: endless))
    assert stopped == [True]


@pytest.mark.parametrize(
    "failing", [lambda e: 1 / 0, lambda e: throw(ZeroDivisionError("x")), lambda e: later_fail()],
)  # fmt: skip
def test_a_hooks_exception_is_the_error_and_ends_the_chain(failing):
    later_hook = Noting("never", 200)
    later_hook.on_event = lambda event: pytest.fail("called")
    with pytest.raises(ZeroDivisionError):
        fired(PRE, hook(PreReasoningEvent)(failing), later_hook)


async def later_fail():
    await asyncio.sleep(1)
    raise ZeroDivisionError("later")


def test_an_answer_from_another_thread_is_waited_for():
    def from_thread(event: PreReasoningEvent):
        answer: rx.subject.ReplaySubject[Event] = rx.subject.ReplaySubject()

        def tell() -> None:
            answer.on_next(event.with_hint("thread"))
            answer.on_completed()

        threading.Timer(0, tell).start()
        return answer

    async def main() -> Event:
        with asyncio.get_running_loop().hold():
            return await Hooks([hook(PreReasoningEvent)(from_thread), Noting("after")]).fire(PRE)

    assert labels(run_virtual(main())) == ["thread", "after"]


def test_disposal_stops_the_current_hook_and_calls_no_other():
    ended: list[str] = []

    async def slow(event: PreReasoningEvent):
        try:
            await asyncio.sleep(100)
        finally:
            ended.append("slow")

    async def main() -> None:
        after = hook(PreReasoningEvent, priority=200)(lambda event: ended.append("never"))
        subscription = Hooks([hook(PreReasoningEvent)(slow), after]).fire(PRE).subscribe()
        await asyncio.sleep(1)
        subscription.dispose()
        await asyncio.sleep(1)

    run_virtual(main())
    assert ended == ["slow"]


def test_many_hooks_of_every_form_do_not_deepen_the_stack():
    assert len(labels(fired(PRE, *(Noting("s") for _ in range(5000))))) == 5000
    assert len(labels(fired(PRE, *(Noting("f", form="coroutine") for _ in range(500))))) == 500


# --- what must hold ----------------------------------------------------------------------------------------------


def answering(kind: type[Event], change: Callable[[Event], object]) -> Hook:
    def changing(event: Event):
        return change(event)

    return hook(kind)(changing)


@pytest.mark.parametrize(
    ("event", "change", "match"),
    [
        (PreActingEvent(tool_use=CALL), lambda e: e.replace(tool_use=ToolUseBlock("c2", "weather")), "'c1', not 'c2'"),
        (ACTED, lambda e: e.replace(tool_use=ToolUseBlock("c2", "weather")), "'c1', not 'c2'"),
        (ACTED, lambda e: e.with_result(ToolResultBlock("c2", "weather", "x")), "exactly one result.*'c1'"),
        (ACTED, lambda e: e.replace(message=Msg.tool(())), "exactly one result"),
        (ACTED, lambda e: e.replace(message=Msg.tool((e.result, e.result))), "exactly one result"),
        (ACTED, lambda e: e.replace(message=Msg.user("sunny")), "exactly one result"),
        (ACTED, lambda e: e.replace(message="sunny"), "`message` must be a Msg, not str"),
        (ASKED, lambda e: e.replace(message=e.message.replace(content=(CALL, CALL))), "different ids"),
        (ASKED, lambda e: e.replace(message=Msg.assistant([CALL], "Peer")), "name and role"),
        (ASKED, lambda e: e.replace(message=Msg.user([CALL], "Friday")), "name and role"),
        (ASKED, lambda e: e.replace(goto_messages=(Msg.user("x"),)), "no tool result.*'c1'"),
        (ASKED, lambda e: e.replace(goto_messages=("x",)), "`goto_messages`"),
        (PreCallEvent(), lambda e: e.replace(input="hi"), "`input` must be a tuple of Msg, not str"),
        (PreCallEvent(), lambda e: e.replace(input=(None,)), "`input`"),
        (PreCallEvent(), lambda e: e.replace(system_message="be kind"), "`system_message`"),
        (PRE, lambda e: e.replace(messages=None), "`messages`"),
        (PRE, lambda e: e.replace(hints=["x"]), "`hints`"),
        (PRE, lambda e: e.replace(options={"temperature": 1}), "`options`"),
        (PreActingEvent(tool_use=CALL), lambda e: e.replace(tool_use={"name": "x"}), "`tool_use`"),
        (PostCallEvent(), lambda e: e.replace(message=None), "`message` must be a Msg, not NoneType"),
    ],
)
@pytest.mark.parametrize("form", ["sync", "coroutine", "flow"])
def test_an_invalid_answer_is_an_error_naming_hook_and_event(event, change, match, form):
    with pytest.raises(HookError, match=match) as caught:
        fired(event, answering(type(event), lambda e: FORMS[form](change(e))))
    assert (caught.value.hook, caught.value.event) == ("changing", event.type)


@pytest.mark.parametrize(
    ("event", "change"),
    [
        (PreActingEvent(tool_use=CALL), lambda e: e.replace(tool_use=e.tool_use.with_input({"city": "Oslo"}))),
        (ACTED, lambda e: e.with_result(ToolResultBlock.of(CALL, "[redacted]"))),
        (ASKED, lambda e: e.replace(message=REFUSAL)),
        (ASKED, lambda e: e.goto_reasoning(ACTED.message)),
        (PRE, lambda e: e.replace(messages=[REFUSAL])),
        (PreCallEvent(system_message=Msg.system("x")), lambda e: e.replace(system_message=None)),
    ],
)
def test_what_may_be_changed_is_changed(event, change):
    assert fired(event, answering(type(event), change)) == change(event)


def test_a_list_where_a_tuple_belongs_becomes_one():
    message = Msg.user("x")
    assert fired(PreCallEvent(), answering(PreCallEvent, lambda e: e.replace(input=[message]))).input == (message,)


@pytest.mark.parametrize("event", [ASKED, ACTED])
@pytest.mark.parametrize("form", ["sync", "coroutine"])
def test_a_stop_is_not_taken_back_by_a_later_hook(event, form):
    stop = answering(type(event), lambda e: e.stop())
    undo = answering(type(event), lambda e: FORMS[form](e.replace(stop_requested=False)))
    assert fired(event, stop, undo).stop_requested
    assert fired(event, undo, stop).stop_requested
    assert not fired(event, undo).stop_requested


# --- forms of hooks ----------------------------------------------------------------------------------------------


def test_a_decorated_function_stays_callable():
    @hook(PreReasoningEvent, priority=7)
    def remind(event: PreReasoningEvent):
        """Reminds."""
        return event.with_hint("x")

    assert (remind.name, remind.priority, remind.kinds, remind.__doc__) == (
        "remind", 7, (PreReasoningEvent,), "Reminds.",
    )  # fmt: skip
    assert labels(remind(PRE)) == ["x"]


def test_a_decorated_method_is_bound_to_its_object():
    class Guard:
        def __init__(self, word: str) -> None:
            self.word = word

        @hook(PreReasoningEvent, priority=7)
        def remind(self, event: PreReasoningEvent):
            return event.with_hint(self.word)

        @hook(PreReasoningEvent)
        async def again(self, event: PreReasoningEvent):
            return event.with_hint(self.word + self.word)

    one, two = Guard("a"), Guard("b")
    assert labels(fired(PRE, one.again, two.remind, one.remind)) == ["b", "a", "aa"]
    assert one.remind.priority == 7 and one.remind.name == "remind"


@pytest.mark.parametrize("wrong", [lambda event: None, Hook, None, "remind", PreReasoningEvent])
def test_hooks_must_be_hook_objects(wrong):
    with pytest.raises(ConfigurationError, match="@hook"):
        Hooks([wrong])


@pytest.mark.parametrize("kind", [None, "pre_call", Msg, lambda event: None, PreCallEvent()])
def test_a_kind_must_be_a_class_of_events(kind):
    with pytest.raises(ConfigurationError, match="class of events"):
        hook(kind)


def test_a_flow_without_a_value_of_interest_counts_as_unchanged():
    posted: list[str] = []

    async def post() -> None:
        await asyncio.sleep(1)
        posted.append("x")

    assert fired(PRE, hook(PreReasoningEvent)(lambda event: from_callable(post))) is PRE
    assert posted == ["x"]
