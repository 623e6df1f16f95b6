"""`UserAgent`: a person as an agent, at a terminal or anywhere else (§16, §22.9 cases 158 and 159; W28, W78)."""

from __future__ import annotations

import asyncio
import datetime as dt
import enum
import io
import os
import pty
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping

import pytest
import reactivex as rx
from pydantic import BaseModel, Field, field_validator, model_validator
from reactivex.subject import Subject

from agentscope_rx import (
    ImageBlock,
    InMemoryMemory,
    Msg,
    MsgRole,
    ReActAgent,
    TextBlock,
    ThinkingBlock,
    ToolUseBlock,
    URLSource,
    UsageLimits,
    UserAgent,
    hook,
)
from agentscope_rx.agent import GracefulShutdown
from agentscope_rx.agent.user import Question, TerminalInput
from agentscope_rx.errors import (
    AgentBusyError,
    AgentShuttingDownError,
    ConfigurationError,
    DeadlineError,
    EndOfInputError,
    InvalidInputError,
    RunDeadlineError,
    StructuredOutputError,
    UserInputError,
)
from agentscope_rx.events import ErrorEvent, PostCallEvent, PreCallEvent
from agentscope_rx.messages import GenerateReason
from agentscope_rx.reactive import empty, just, never, timeout, timer
from agentscope_rx.session import InMemorySession
from agentscope_rx.testing import ScriptedModel, run_virtual
from tests.agent.parts import events_of, types
from tests.support.signals import child

PICTURE = ImageBlock(URLSource("https://example.org/a.png"))


class Trip(BaseModel):
    """A form with something of everything."""

    city: str = Field(description="where to")
    days: int = Field(ge=1, le=14)
    kind: str = "train"
    tags: list[str] = []

    @field_validator("city")
    @classmethod
    def _exists(cls, value: str) -> str:
        if value == "Atlantis":
            raise ValueError("there is no such city")
        return value

    @model_validator(mode="after")
    def _near(self) -> Trip:
        if self.city == "Sydney" and self.kind == "train":
            raise ValueError("no train goes there")
        return self


class Terminal:
    """A terminal with these lines typed ahead; `screen` is what was shown."""

    def __init__(self, *lines: str, prompt: str = "? ") -> None:
        self.screen = ""
        self.stream = io.StringIO("".join(f"{line}\n" for line in lines))
        self.input = TerminalInput(prompt, stream=self.stream, write=self._write)

    def _write(self, text: str) -> None:
        self.screen += text


def asked(question: str | Msg | None = None, *lines: str, output: object = None) -> tuple[Msg, str]:
    """Ann's reply to one question at a terminal where these lines are typed, and what she was shown."""
    terminal = Terminal(*lines)
    reply = UserAgent("Ann", terminal.input).call(question, output=output).run()
    return reply, terminal.screen


# --- a line at a terminal ----------------------------------------------------------------------------------------


def test_the_line_is_the_persons_reply():
    reply, screen = asked(Msg.assistant("Shall we go?", "Bob"), "Yes, let's.")
    assert (reply.name, reply.role, reply.text) == ("Ann", MsgRole.USER, "Yes, let's.")
    assert reply.generate_reason is GenerateReason.MODEL_STOP
    assert screen == "Bob: Shall we go?\n? "


@pytest.mark.spec("case 158")
def test_without_a_message_it_only_prompts():
    """§22.9 case 158, testCallWithNullMessage."""
    assert asked(None, "Hello.")[1] == "? "
    assert TerminalInput()._prompt == "User Input: "


@pytest.mark.spec("case 159")
def test_an_empty_line_is_an_answer_and_the_end_of_input_is_not():
    """§22.9 case 159, testNullInputText: in Java the end of the input is an empty text, for ever."""
    assert asked(None, "")[0].content == (TextBlock(""),)
    with pytest.raises(EndOfInputError, match="so there is no answer"):
        asked(None)
    assert issubclass(EndOfInputError, EOFError)


@pytest.mark.spec("case 158")
def test_the_run_has_its_events_and_hooks_as_any_agents():
    """§22.9 case 158, testPostCallHookModification."""
    terminal = Terminal("hello", "hello")
    seen: list[str] = []

    @hook(PreCallEvent)
    def ask(event: PreCallEvent):
        seen.append("pre")
        return event.replace(input=(Msg.assistant("And?", "Eve"),))

    @hook(PostCallEvent)
    def polite(event: PostCallEvent):
        return event.replace(message=event.message.replace(content=event.message.text.title()))

    ann = UserAgent("Ann", terminal.input, hooks=[ask, polite])
    events = run_virtual(events_of(ann, "unheard"))
    assert types(events) == ["pre_call", "post_call"]
    assert events[-1].message.text == "Hello" and terminal.screen == "Eve: And?\n? "
    assert ann.memory.messages[-1] == events[-1].message
    assert ann.call().run().text == "Hello" and seen == ["pre", "pre"]


def test_methods_of_a_subclass_are_hooks():
    class Shouting(UserAgent):
        def post_reply(self, event: PostCallEvent):
            return event.replace(message=event.message.replace(content=event.message.text.upper()))

    assert Shouting("Ann", Terminal("hi").input).call().run().text == "HI"


# --- what is shown -----------------------------------------------------------------------------------------------


def test_text_and_media_are_shown_with_control_codes_escaped():
    said = Msg.assistant([ThinkingBlock("hm"), TextBlock("One\nEve: two\x1b[2J\u202e"), PICTURE], "Bob")
    screen = asked([said, Msg.assistant([ToolUseBlock("c", "x")], "Eve")], "ok")[1]
    assert screen == "Bob: One\n  Eve: two\\u001b[2J\\u202e\n  [image]\nEve: (Eve waits for x.)\n? "


def test_what_came_since_the_person_last_spoke_is_shown_once():
    """Java's and Python's user agents observe nothing: what others say is lost to the person."""
    terminal = Terminal("first", "second", "third")
    ann = UserAgent("Ann", terminal.input)
    ann.observe([Msg.assistant("Hello, all.", "Bob"), Msg.assistant("Hi.", "Eve")]).run()
    ann.call().run()
    assert terminal.screen == "Bob: Hello, all.\nEve: Hi.\n? "
    said = Msg.assistant("What now?", "Eve")
    ann.observe([Msg.assistant("News.", "Bob"), said]).run()
    ann.call(said).run()
    assert terminal.screen.endswith("? Bob: News.\nEve: What now?\n? ")
    ann.call().run()
    assert terminal.screen.endswith("What now?\n? ? ")


def test_messages_during_a_question_are_shown_with_the_next_one():
    asked_: list[list[str]] = []

    async def think(question: Question) -> str:
        asked_.append([message.text for message in question.messages])
        await asyncio.sleep(10)
        return "hm"

    async def main() -> None:
        ann = UserAgent("Ann", think)
        first = ann.call("One?").as_task()
        await asyncio.sleep(5)
        await ann.observe(Msg.assistant("Meanwhile.", "Bob"))
        await first
        await ann.call("Two?")

    run_virtual(main())
    assert asked_ == [["One?"], ["Meanwhile.", "Two?"]]


def test_a_person_named_user_is_shown_messages_without_a_name():
    terminal = Terminal("Oslo", "Rome")
    user = UserAgent("user", terminal.input)
    for question in ("Where from?", "Where to?"):
        user.call(question).run()
    assert terminal.screen == "user: Where from?\n? user: Where to?\n? "


def test_the_conversation_is_remembered_and_can_be_another():
    mine = InMemoryMemory()
    ann = UserAgent("Ann", Terminal("yes", "no").input)
    ann.call("Well?").run()
    ann.call("Well?", memory=mine).run()
    assert [message.text for message in ann.memory.messages] == ["Well?", "yes"]
    assert [message.text for message in mine.messages] == ["Well?", "no"]


@pytest.mark.spec("W78")
def test_nothing_is_printed_but_by_the_terminal(capsys):
    """Java's user agent prints each reply to stdout, whatever its input."""
    UserAgent("Ann", lambda question: "yes").call("Well?").run()
    asked("Well?", "yes")
    assert capsys.readouterr() == ("", "")


@pytest.mark.spec("W28")
def test_two_user_agents_have_inputs_of_their_own():
    """Java keeps a static default input."""
    one, two = UserAgent("One", lambda question: "1"), UserAgent("Two", lambda question: "2")
    assert [agent.call().run().text for agent in (one, two)] == ["1", "2"]


# --- the default streams -----------------------------------------------------------------------------------------


def test_stdin_and_stdout_are_looked_up_when_asking(monkeypatch):
    ann = UserAgent("Ann")
    monkeypatch.setattr(sys, "stdin", io.StringIO("typed\n"))
    monkeypatch.setattr(sys, "stdout", screen := io.TextIOWrapper(io.BytesIO(), encoding="ascii"))
    assert ann.call(Msg.assistant("Né?", "Bob")).run().text == "typed"
    assert screen.buffer.getvalue() == b"Bob: N\\xe9?\nUser Input: "


def test_a_missing_stdin_or_a_broken_screen_is_a_clear_error(monkeypatch):
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(UserInputError, match="no standard input"):
        UserAgent("Ann").call().run()

    def broken(text: str) -> None:
        raise BrokenPipeError("gone")

    with pytest.raises(UserInputError, match="cannot be shown: gone"):
        UserAgent("Ann", TerminalInput(stream=io.StringIO("x\n"), write=broken)).call().run()


# --- any other input ---------------------------------------------------------------------------------------------


async def _async(question: Question) -> str:
    await asyncio.sleep(3)
    return "yes"


async def _flow_later(question: Question) -> object:
    return just("yes")


def _thread(question: Question) -> str:
    assert threading.current_thread() is not threading.main_thread()
    return "yes"


def _generator(question: Question):
    yield "yes"
    pytest.fail("asked for more")


class _Object:
    async def __call__(self, question: Question) -> Msg:
        return Msg.assistant("yes", "somebody")


@pytest.mark.parametrize(
    "input",
    [_async, _flow_later, _thread, _generator, _Object(), lambda q: just("yes", "no"), lambda q: rx.of("yes"),
     lambda q: timer(5).pipe(rx.operators.map(lambda _: "yes")), lambda q: TextBlock("yes"),
     lambda q: [TextBlock("yes")], lambda q: Msg.user("yes"), lambda q: _async(q)],
)  # fmt: skip
def test_an_input_may_answer_in_any_form(input):
    reply = run_virtual(UserAgent("Ann", input).call("Well?"))
    assert (reply.name, reply.role, reply.text) == ("Ann", MsgRole.USER, "yes")


def test_an_observable_that_goes_on_is_left_at_its_first_value():
    async def main() -> None:
        lines: Subject[str] = Subject()
        ann = UserAgent("Ann", lambda question: lines)
        reply = ann.call("Well?").as_task()
        while not lines.observers:  # noqa: ASYNC110
            await asyncio.sleep(0)
        lines.on_next("yes")
        assert (await reply).text == "yes"
        assert not lines.observers

    asyncio.run(main())


@pytest.mark.spec("case 158")
def test_a_message_keeps_its_blocks_id_and_metadata():
    """§22.9 case 158, testMessageWithMetadata."""
    said = Msg.user([TextBlock("look"), PICTURE]).replace(metadata={"from": "phone"})
    reply = UserAgent("Ann", lambda question: said).call().run()
    assert (reply.id, reply.content, reply.metadata["from"]) == (said.id, said.content, "phone")


def test_an_input_sees_the_question_and_its_run():
    seen: list[Question] = []

    async def note(question: Question) -> str:
        seen.append(question)
        return "yes"

    ann = UserAgent("Ann", note)
    run_virtual(ann.call(Msg.assistant("Well?", "Bob")))
    assert (seen[0].name, seen[0].output, seen[0].problems) == ("Ann", None, ())
    assert [message.text for message in seen[0].messages] == ["Well?"]
    assert seen[0].run.name == "Ann"


@pytest.mark.parametrize(
    ("input", "match"),
    [
        (lambda q: None, "answered with None"),
        (lambda q: 3, "neither text, blocks nor a Msg"),
        (lambda q: [3], "neither text, blocks nor a Msg"),
        (lambda q: empty(), "ended without an answer"),
    ],
)
def test_what_is_no_answer_is_a_typed_error(input, match):
    with pytest.raises(UserInputError, match=match):
        UserAgent("Ann", input).call().run()


@pytest.mark.parametrize("later", [False, True])
def test_after_a_failed_input_the_next_call_asks_again(later):
    answers = iter([ZeroDivisionError("no person"), "here"])

    def ask(question: Question) -> str:
        answer = next(answers)
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def ask_later(question: Question) -> str:
        return ask(question)

    ann = UserAgent("Ann", ask_later if later else ask)
    with pytest.raises(ZeroDivisionError):
        ann.call("Well?").run()
    assert ann.call().run().text == "here"


@pytest.mark.spec("§16")
@pytest.mark.parametrize(
    ("make", "match"),
    [
        (lambda: UserAgent("  "), "needs a name"),
        (lambda: UserAgent("Ann", "yes"), "function of a Question"),
        (lambda: UserAgent("Ann", attempts=0), "attempts"),
        (lambda: UserAgent("Ann", memory=[]), "memory"),
        (lambda: TerminalInput(prompt=3), "prompt"),
        (lambda: TerminalInput(stream=3), "readline"),
        (lambda: TerminalInput(write="stdout"), "write"),
    ],
)
def test_wrong_arguments_are_named(make, match):
    """Name required."""
    with pytest.raises(ConfigurationError, match=match):
        make()


def test_answers_to_tool_calls_are_not_for_a_person():
    from agentscope_rx import Approve

    with pytest.raises(InvalidInputError, match="no calls to approve"):
        UserAgent("Ann", lambda q: "x").call(Approve("c1")).run()


# --- interruption, disposal, deadlines ---------------------------------------------------------------------------


class Keyboard:
    """A stream on which nothing is typed until the test does."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._typed = threading.Condition()
        self.reads = 0

    def type(self, line: str) -> None:
        with self._typed:
            self._lines.append(f"{line}\n")
            self._typed.notify()

    def readline(self) -> str:
        with self._typed:
            self.reads += 1
            assert self._typed.wait_for(lambda: self._lines, 10)
            return self._lines.pop(0)

    async def until_read(self) -> None:
        while not self.reads:  # noqa: ASYNC110
            await asyncio.sleep(0)


def _hanging() -> tuple[object, object]:
    async def wait(question: Question) -> str:
        await asyncio.get_running_loop().create_future()
        return ""

    return wait, lambda question: never()


@pytest.mark.parametrize("input", [*_hanging(), None], ids=["async", "never", "terminal"])
@pytest.mark.parametrize(
    ("message", "text"),
    [(None, "Interrupted by user"), ("Come later.", "Come later."), (Msg.assistant("I stop.", "Sys"), "I stop.")],
)
def test_an_interruption_ends_the_waiting_at_once_with_a_reply(input, message, text):
    async def main() -> None:
        keyboard = Keyboard()
        screen: list[str] = []
        ann = UserAgent("Ann", input or TerminalInput(stream=keyboard, write=screen.append))
        reply = ann.call("Well?").as_task()
        await (keyboard.until_read() if input is None else asyncio.sleep(1))
        assert ann.interrupt(message)
        said = await reply
        assert (said.text, said.generate_reason) == (text, GenerateReason.INTERRUPTED)
        assert said.role is (MsgRole.ASSISTANT if isinstance(message, Msg) else MsgRole.USER)
        assert ann.memory.messages[-1] == said and not ann.running
        if input is None:
            assert screen[-1] == "\n"
            keyboard.type("late")
            assert (await ann.call("And now?")).text == "late"
            assert keyboard.reads == 1

    run_virtual(main())


def test_an_interruption_before_the_question_asks_nothing():
    async def main() -> None:
        @hook(PreCallEvent)
        def stop(event: PreCallEvent):
            ann.interrupt()

        ann = UserAgent("Ann", lambda question: pytest.fail("asked"), hooks=[stop])
        assert (await ann.call("Well?")).generate_reason is GenerateReason.INTERRUPTED

    run_virtual(main())


def test_the_deadline_gives_an_error_or_a_reply_that_names_it():
    slow = UserAgent("Ann", lambda question: never())
    with pytest.raises(RunDeadlineError):
        run_virtual(slow.call("Well?", limits=UsageLimits(deadline=5.0)))
    limits = UsageLimits(deadline=5.0, summary_reserve=1.0, on_limit="summary")
    reply = run_virtual(slow.call("Well?", limits=limits))
    assert (reply.text, reply.generate_reason) == ("(no answer in time)", GenerateReason.LIMIT_REACHED)


@pytest.mark.parametrize("again", [None, "Well?"])
def test_another_process_asks_a_question_open_at_a_shutdown(again):
    seen: list[list[str]] = []

    async def main() -> None:
        store, shutdown = InMemorySession(), GracefulShutdown(timeout=1)
        first = UserAgent("Ann", lambda question: never(), shutdown=shutdown)
        await first.bind(store, "s")
        waiting = first.call("Well?").as_task()
        await asyncio.sleep(0)
        await shutdown.begin()
        with pytest.raises(AgentShuttingDownError):
            await waiting

        async def answer(question: Question) -> str:
            seen.append([message.text for message in question.messages])
            return "yes"

        second = UserAgent("Ann", answer)
        await second.bind(store, "s")
        assert (await second.call(again)).text == "yes"
        await second.call("And?")
        assert [message.text for message in second.memory.messages] == ["Well?", "yes", "And?", "yes"]

    run_virtual(main())
    assert seen == [["Well?"], ["And?"]]


def test_handle_interrupt_may_be_overridden():
    class Polite(UserAgent):
        def handle_interrupt(self, run):
            return just(Msg.user("Excuse me.", self.name))

    async def main() -> None:
        ann = Polite("Ann", lambda question: never())
        reply = ann.call().as_task()
        await asyncio.sleep(1)
        ann.interrupt()
        assert (await reply).text == "Excuse me."

    run_virtual(main())


@pytest.mark.parametrize("end", ["dispose", "deadline"])
def test_a_call_that_is_left_waits_no_longer_and_steals_no_line(end):
    """One line is typed after the first call was left, one after that: the second and third call get them."""

    async def main() -> None:
        keyboard = Keyboard()
        ann = UserAgent("Ann", TerminalInput(stream=keyboard, write=lambda text: None))
        flow = ann.call("One?")
        left = (flow.pipe(timeout(total=5.0)) if end == "deadline" else flow).as_task()
        await keyboard.until_read()
        if end == "dispose":
            left.cancel()
        with pytest.raises((asyncio.CancelledError, DeadlineError)):
            await left
        await ann.idle()
        second = ann.call("Two?").as_task()
        await asyncio.sleep(0)
        keyboard.type("two")
        assert (await second).text == "two"
        keyboard.type("three")
        assert (await ann.call("Three?")).text == "three"
        assert [message.text for message in ann.memory.messages] == ["One?", "Two?", "two", "Three?", "three"]

    run_virtual(main())


def test_the_finally_blocks_of_an_async_input_run_at_disposal():
    ended: list[str] = []

    async def ask(question: Question) -> str:
        try:
            await asyncio.sleep(100)
        finally:
            ended.append("finally")
        return ""

    async def main() -> None:
        ann = UserAgent("Ann", ask)
        task = ann.call().as_task()
        await asyncio.sleep(1)
        task.cancel()
        await asyncio.wait([task])
        await ann.idle()

    run_virtual(main())
    assert ended == ["finally"]


def test_a_person_is_asked_one_thing_at_a_time():
    async def main() -> None:
        ann = UserAgent("Ann", _async)
        first = ann.call().as_task()
        await asyncio.sleep(1)
        with pytest.raises(AgentBusyError):
            await ann.call()
        await first

    run_virtual(main())


def test_two_people_at_one_terminal_answer_in_order_of_asking():
    terminal = Terminal("for Ann", "for Bob")

    async def main() -> list[str]:
        people = [UserAgent(name, terminal.input) for name in ("Ann", "Bob")]
        return [reply.text for reply in await asyncio.gather(*(each.call() for each in people))]

    assert run_virtual(main()) == ["for Ann", "for Bob"]


def test_the_loop_goes_on_while_the_terminal_waits():
    async def main() -> None:
        keyboard = Keyboard()
        ann = UserAgent("Ann", TerminalInput(stream=keyboard, write=lambda text: None))
        model = ReActAgent("Bob", ScriptedModel("Meanwhile."))
        reply = ann.call().as_task()
        await keyboard.until_read()
        assert (await model.call("hi")).text == "Meanwhile."
        keyboard.type("done")
        await reply

    run_virtual(main())


# --- structured input --------------------------------------------------------------------------------------------


@pytest.mark.spec("case 159")
def test_a_form_is_asked_by_field_and_again_for_invalid_values():
    """Python §3.9; §22.9 case 159, testMalformedStructuredInput: in Java what is malformed is passed over."""
    reply, screen = asked(
        Msg.assistant("Plan it.", "Bob"),
        "Atlantis", "", "Rome", "three", "99", "3", "", "a, b c",
        output=Trip,
    )  # fmt: skip
    assert reply.structured(Trip) == Trip(city="Rome", days=3, tags=["a", "b c"])
    assert reply.generate_reason is GenerateReason.STRUCTURED_OUTPUT
    assert reply.text == '{"city":"Rome","days":3,"tags":["a","b c"]}'
    city = "city - where to: "
    days = "days (whole number, at least 1, at most 14): "
    assert screen == (
        f'Bob: Plan it.\n{city}  city: there is no such city; given "Atlantis"\n'
        f'{city}  city: an answer is needed; "" is the empty text\n'
        f'{city}{days}  days: Input should be a valid integer; given "three"\n'
        f"{days}  days: Input should be less than or equal to 14; given 99\n"
        f'{days}kind (default "train"): tags (a list: a, b, default []): '
    )


def test_fields_that_do_not_fit_together_are_asked_again():
    reply, screen = asked(None, "Sydney", "7", "", "", "", "", "plane", "", output=Trip)
    assert reply.structured(Trip) == Trip(city="Sydney", days=7, kind="plane")
    assert "no train goes there" in screen and 'city - where to ["Sydney"]: ' in screen


class Colour(enum.StrEnum):
    """An enum."""

    RED = "red"
    BLUE = "blue"


class Inner(BaseModel):
    """Something nested."""

    x: int


class All(BaseModel):
    """Every kind of field."""

    text: str
    number: float
    truth: bool
    day: dt.date
    colour: Colour
    numbers: list[int]
    inner: Inner
    either: int | str
    perhaps: str | None
    extra: dict[str, int] = {}


@pytest.mark.spec("case 159")
def test_every_kind_of_field_can_be_typed():
    """§22.9 case 159, testStructuredInputWithEqualsInValue: any text is itself."""
    reply, screen = asked(
        None, "a=b, c=d", "2", "yes", "2024-02-30", "2024-02-29", "green", "red", "1, 2", '{"x": 1}', "7", "null",
        '{"a": 1}', output=All,
    )  # fmt: skip
    assert reply.structured(All) == All(
        text="a=b, c=d", number=2.0, truth=True, day=dt.date(2024, 2, 29), colour=Colour.RED, numbers=[1, 2],
        inner=Inner(x=1), either=7, perhaps=None, extra={"a": 1},
    )  # fmt: skip
    for part in ("truth (yes/no)", "colour (red | blue)", "inner (JSON)", "either (whole number or text)"):
        assert part in screen


@pytest.mark.parametrize(
    ("output", "line", "value"),
    [
        (int, "3", 3),
        (str, "3", "3"),
        (str, "yes", "yes"),
        (str, '""', ""),
        (bool, "No", False),
        (list[str], "Rome", ["Rome"]),
        (list[str], '["a, b"]', ["a, b"]),
        (list[int], "1", [1]),
        (Trip | int, '{"city": "Rome", "days": 1}', {"city": "Rome", "days": 1}),
        ({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}, "5", {"n": 5}),
        ({"type": "string", "enum": ["a", "b"]}, "b", "b"),
    ],
)
def test_types_and_schemas_of_every_kind_are_asked_for(output, line, value):
    reply, screen = asked(None, line, output=output)
    assert reply.structured() == value
    assert ("answer" in screen) is not (isinstance(output, Mapping) and "properties" in output)


@pytest.mark.parametrize(
    "answer",
    [
        {"city": "Rome", "days": 3},
        Trip(city="Rome", days=3),
        '{"city": "Rome", "days": 3}',
        TextBlock('{"city": "Rome", "days": 3}'),
        Msg.user('{"city": "Rome", "days": 3}'),
        Msg("x", "To Rome, three days.", metadata={"structured_output": {"city": "Rome", "days": 3}}),
    ],
)
def test_an_input_may_answer_with_the_value_or_its_json(answer):
    reply = UserAgent("Ann", lambda question: answer).call(output=Trip).run()
    assert reply.structured(Trip) == Trip(city="Rome", days=3)
    assert reply.name == "Ann" and reply.text


def test_an_invalid_value_is_asked_for_again_with_the_problem():
    answers = iter(["to Rome", {"city": "Rome", "days": 0}, {"city": "Rome", "days": 3}])
    problems: list[tuple[str, ...]] = []

    def ask(question: Question) -> object:
        problems.append(question.problems)
        return next(answers)

    reply = UserAgent("Ann", ask).call(output=Trip).run()
    assert reply.structured(Trip).days == 3
    assert problems[0] == () and "an object with city, days" in problems[1][0] and "days: " in problems[2][0]


def test_attempts_are_bounded():
    calls: list[Question] = []
    ann = UserAgent("Ann", lambda question: calls.append(question) or "nonsense", attempts=2)
    with pytest.raises(StructuredOutputError, match="Ann") as caught:
        ann.call(output=int).run()
    assert len(calls) == 2 and caught.value.attempts == 2


def test_a_form_that_is_left_half_way_leaves_the_lines_to_come():
    async def main() -> None:
        keyboard = Keyboard()
        ann = UserAgent("Ann", TerminalInput(stream=keyboard, write=lambda text: None))
        reply = ann.call(output=Trip).as_task()
        keyboard.type("Rome")
        while keyboard.reads < 2:  # noqa: ASYNC110
            await asyncio.sleep(0)
        ann.interrupt()
        assert (await reply).generate_reason is GenerateReason.INTERRUPTED
        keyboard.type("hello")
        assert (await ann.call()).text == "hello"

    run_virtual(main())


# --- a real terminal ---------------------------------------------------------------------------------------------

SCRIPT = """
from agentscope_rx import UserAgent
ann = UserAgent("Ann")
try:
    print("got", ann.call().run().text, flush=True)
    ann.call("Still there?").run()
except KeyboardInterrupt:
    print("interrupted", ann.running, flush=True)
except EOFError as error:
    print("end", error, flush=True)
"""


def _on_a_terminal(*, after: str) -> tuple[str, int]:
    """What the script says on a real terminal that gets one line, then Ctrl-C or Ctrl-D; and its status."""
    controller, terminal = pty.openpty()
    with child(
        [sys.executable, "-X", "faulthandler", "-c", SCRIPT],
        stdin=terminal, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    ) as script:  # fmt: skip
        os.close(terminal)
        assert script.stdout is not None
        os.write(controller, b"hello\n")
        assert script.stdout.readline() == "User Input: got hello\n"
        text = ""
        while not text.endswith("User Input: "):
            more = script.stdout.read(1)
            assert more, f"the script has ended after {text!r}"
            text += more
        if after == "ctrl-c":
            script.send_signal(signal.SIGINT)
        else:
            os.write(controller, b"\x04")
        rest = script.stdout.read()
        status = script.wait(20)
    os.close(controller)
    return text + rest, status


def test_ctrl_c_at_the_prompt_leaves_at_once_and_cleanly():
    """The reader's thread is still blocked in its read when the program ends."""
    said, status = _on_a_terminal(after="ctrl-c")
    assert said == "user: Still there?\nUser Input: \ninterrupted False\n"
    assert status == 0


def test_ctrl_d_at_the_prompt_is_a_clear_end():
    said, status = _on_a_terminal(after="ctrl-d")
    assert said == "user: Still there?\nUser Input: end The input has ended, so there is no answer.\n"
    assert status == 0


def test_the_end_of_the_input_is_an_error_event_of_the_stream():
    seen: list[object] = []
    ann = UserAgent("Ann", Terminal().input, hooks=[hook(ErrorEvent)(lambda event: seen.append(event.error_type))])
    with pytest.raises(EndOfInputError):
        ann.stream().run()
    assert seen == ["EndOfInputError"]
