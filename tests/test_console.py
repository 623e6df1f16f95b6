"""What a run looks like: compared as text, word by word."""

from __future__ import annotations

import asyncio
import builtins
import io
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TextIO

import pytest
from reactivex import Observable

from agentscope_rx import Msg, ReActAgent, StreamOptions, TextBlock, ThinkingBlock, ToolUseBlock, hook, tool
from agentscope_rx.console import Console, print_run
from agentscope_rx.errors import InvalidInputError, ModelConnectionError
from agentscope_rx.events import (
    ActingChunkEvent,
    ContextEvent,
    Event,
    EventSource,
    InputEvent,
    PlanEvent,
    PostActingEvent,
    PostCallEvent,
    PostReasoningEvent,
    PreActingEvent,
    PreCallEvent,
    ReasoningChunkEvent,
    RetryEvent,
)
from agentscope_rx.messages import ChatUsage, ToolResultBlock, ToolResultKind
from agentscope_rx.models import ChatResponse, ExecutionConfig
from agentscope_rx.plan import Plan, SubTask, Todo
from agentscope_rx.reactive import Flow, from_iterable
from agentscope_rx.testing import ScriptedModel, collect_dropped
from agentscope_rx.testing.scripted_model import Turn, call


@tool
def add(a: int, b: int) -> int:
    """Add."""
    return a + b


@tool
def fail(reason: str) -> str:
    """Fail."""
    raise ValueError(reason)


ONCE = ExecutionConfig(max_attempts=1)
SECONDS = re.compile(r"\d+\.\d s$", re.MULTILINE)


def shown(*turns: Turn, question: str = "?", options: StreamOptions | None = None, **console: object) -> str:
    """What a console writes of a run, with all seconds as 0.0."""
    file = io.StringIO()
    agent = ReActAgent("A", ScriptedModel(*turns), tools=[add, fail])
    print_run(agent.stream(question, options), Console(file, **console))
    return SECONDS.sub("0.0 s", file.getvalue())


def events_shown(events: Sequence[Event], **console: object) -> str:
    file = io.StringIO()
    screen = Console(file, **console)
    for event in events:
        screen.on_next(event)
    screen.on_completed()
    return file.getvalue()


def test_a_run_as_plain_text() -> None:
    text = shown(
        [ThinkingBlock("I must\nad"), ThinkingBlock("d."), "Let me ", "see.", call("add", a=1, b=2)],
        ["It is ", "3.\nOr so.", ChatResponse(usage=ChatUsage(1200, 34))],
    )
    assert text == (
        "~ I must\n~ add.\nLet me see.\n-> add(a=1, b=2)\n<- 3\nIt is 3.\nOr so.\n"
        "-- 2 turns, 1 tool call, 1,200 tokens in, 34 out, 0.0 s\n"
    )


def test_parallel_calls_are_numbered_and_failures_counted() -> None:
    text = shown([call("add", a=1, b=2), call("fail", reason="no\nway"), call("nope")], "Well.")
    assert text.startswith(
        '-> [1] add(a=1, b=2)\n-> [2] fail(reason="no\\nway")\n-> [3] nope()\n'
        "<- [1] 3\n<- [2] Error: ValueError: no\n       way\n<- [3] Error: There is no tool 'nope'."
    )
    assert text.endswith("\nWell.\n-- 2 turns, 3 tool calls (2 failed), 0.0 s\n")


def test_progress_of_parallel_calls_stays_readable() -> None:
    calls = [ToolUseBlock(f"c{n}", "walk", {"n": n}) for n in (1, 2)]
    said = Msg.assistant(calls)

    def chunk(call: ToolUseBlock, text: str, last: bool = False) -> Event:
        return ActingChunkEvent(tool_use=call, chunk=ToolResultBlock.of(call, text), is_last=last)

    text = events_shown(
        [
            ReasoningChunkEvent(message_id="m", delta=TextBlock("Off we go")),
            PostReasoningEvent(message=said),
            *(PreActingEvent(tool_use=call) for call in calls),
            chunk(calls[0], "step 1"),
            chunk(calls[1], "one\ntwo"),
            chunk(calls[1], "there", last=True),
            chunk(calls[0], "done", last=True),
            *(PostActingEvent(tool_use=call, message=Msg.tool(ToolResultBlock.of(call, "ok"))) for call in calls),
        ]
    )
    assert text == (
        "Off we go\n-> [1] walk(n=1)\n-> [2] walk(n=2)\n.. [1] step 1\n.. [2] one\n.. [2] two\n<- [1] ok\n<- [2] ok\n"
    )


def test_long_results_and_arguments_are_shortened() -> None:
    use = ToolUseBlock("c", "t", {"text": "x" * 500, "more": list(range(200))})
    result = ToolResultBlock.of(use, "\n".join(["y" * 500, *map(str, range(20))]))
    text = events_shown([PreActingEvent(tool_use=use), PostActingEvent(tool_use=use, message=Msg.tool(result))])
    lines = text.split("\n")
    assert len(lines[0]) < 300
    assert lines[1] == f"<- {'y' * 197}..."
    assert lines[2:] == ["   0", "   1", "   2", "   3", "   4", "   ... 15 more lines", ""]
    assert "... 19 more lines" in events_shown([PostActingEvent(message=Msg.tool(result))], result_lines=2)


def test_control_characters_are_shown_and_not_obeyed() -> None:
    text = shown(
        ["\x1b[2J\x1b]0;title\x07", "a\rb\u202ec\x9b1m", call("fail", reason="\x1b[31m")], "[red]ok[/red] :smile:"
    )
    assert "\x1b" not in text
    assert "\\x1b[2J\\x1b]0;title\\x07ab\\u202ec\\x9b1m\n" in text
    assert "[red]ok[/red] :smile:\n" in text


def test_retries_and_the_last_word() -> None:
    agent = ReActAgent(
        "A",
        ScriptedModel(ModelConnectionError("gone"), call("add", a=1, b=1), "Two."),
        tools=[add],
        max_iters=1,
        model_execution_config=ExecutionConfig(initial_backoff=0, max_attempts=2),
    )
    file = io.StringIO()
    print_run(agent.stream("?"), Console(file))
    assert SECONDS.sub("0.0 s", file.getvalue()) == (
        "!! attempt 1 failed, the next in 0.0 s: gone\n-> add(a=1, b=1)\n<- 2\n"
        "!! no answer in 1 round: asking for a summary\nTwo.\n-- max iterations, 2 turns, 1 tool call, 0.0 s\n"
    )


def test_input_to_the_run_is_shown_on_a_line_of_its_own() -> None:
    event = InputEvent(input=(Msg.user("Only direct\nflights, \x1b[2Jplease."), Msg.user("Now.")))
    text = events_shown([event])
    assert text.splitlines()[0].startswith("++ Only direct") and "\x1b" not in text
    assert text.splitlines()[1] == "++ Now."


def test_a_void_attempt_is_said_to_be_void() -> None:
    event = RetryEvent(attempt=2, delay=75.25, error_type="E", error_text="a\nb", discarded=True)
    assert events_shown([event]) == "!! attempt 2 failed (its text is void), the next in 75.2 s: a b\n"
    assert "the next in 2 min 05 s" in events_shown([RetryEvent(delay=125)])


def test_a_change_of_a_plan_is_one_line() -> None:
    plan = Plan("Trip\n", subtasks=(SubTask("Book", state="done"), SubTask("Pack\x1b", state="in_progress")))
    shown = [
        (
            ContextEvent(step="summarize", tokens_before=81_000, tokens_after=12_300),
            "## context: summarize 81,000 -> 12,300 tokens",
        ),
        (
            ContextEvent(step="summarize\x1b", error="the model\nis away"),
            "## context: summarize\\x1b failed: the model is away",
        ),
        (PlanEvent(plan=plan), "## Trip: 1 of 2 done, now Pack\\x1b"),
        (PlanEvent(change="finished", plan=replace(plan, state="done")), "## Trip: finished as done, 1 of 2 done"),
        (PlanEvent(change="todos", todos=(Todo("a"),)), "## todos: 0 of 1 done"),
        (PlanEvent(change="mode_on"), "## plan mode is on"),
        (PlanEvent(change="updated"), "## no plan: 0 of 0 done"),
    ]
    for event, line in shown:
        assert events_shown([event]) == f"{line}\n"


@pytest.mark.parametrize("told", [True, False])
def test_an_error_is_one_line(told: bool) -> None:
    file = io.StringIO()
    agent = ReActAgent("A", ScriptedModel(["Half an ", ModelConnectionError("gone\nfor good")], execution_config=ONCE))
    with pytest.raises(ModelConnectionError):
        agent.stream("?").pipe(Console(file, errors=told).show).run()
    assert file.getvalue() == "Half an \n" + ("error: gone for good\n" if told else "")


def test_a_failure_after_some_turns_has_a_summary() -> None:
    file = io.StringIO()
    agent = ReActAgent(
        "A", ScriptedModel(call("add", a=1, b=2), ModelConnectionError("gone"), execution_config=ONCE), tools=[add]
    )
    with pytest.raises(ModelConnectionError):
        print_run(agent.stream("?"), Console(file))
    assert SECONDS.sub("0.0 s", file.getvalue()).endswith("error: gone\n-- failed, 1 turn, 1 tool call, 0.0 s\n")


def test_an_error_that_no_event_tells_is_told_too() -> None:
    file = io.StringIO()
    console = Console(file)
    console.on_error(ValueError(""))
    assert file.getvalue() == "error: ValueError\n"


def test_a_reply_that_was_not_streamed_is_shown_once() -> None:
    only = StreamOptions(kinds=(PostCallEvent,))
    assert shown(["a", "b"], options=only) == "ab\n-- 0 turns, 0 tool calls, 0.0 s\n"
    accumulated = StreamOptions(incremental=False)
    turn = [ThinkingBlock("h"), ThinkingBlock("m"), "one ", "two ", "three"]
    assert shown(turn, options=accumulated) == "~ hm\none two three\n-- 1 turn, 0 tool calls, 0.0 s\n"


def test_a_reply_that_a_hook_changed_is_shown_as_it_is() -> None:
    @hook(PostCallEvent)
    def polite(event: PostCallEvent) -> PostCallEvent:
        return event.replace(message=event.message.replace(content="Please: 3."))

    file = io.StringIO()
    print_run(ReActAgent("A", ScriptedModel("3."), hooks=[polite]).stream("?"), Console(file))
    assert SECONDS.sub("0.0 s", file.getvalue()) == "3.\nPlease: 3.\n-- 1 turn, 0 tool calls, 0.0 s\n"


def test_an_interrupted_run_says_so() -> None:
    @tool
    def stop() -> str:
        """Stop."""
        agent.interrupt("Enough.")
        return "stopped"

    agent = ReActAgent("A", ScriptedModel(call("stop")), tools=[stop])
    file = io.StringIO()
    print_run(agent.stream("?"), Console(file))
    assert "\nEnough.\n-- interrupted, 1 turn, 1 tool call" in file.getvalue()


def test_thinking_can_be_left_out() -> None:
    assert shown([ThinkingBlock("hm"), "Yes."], thinking=False) == "Yes.\n-- 1 turn, 0 tool calls, 0.0 s\n"


def test_runs_at_once_are_told_apart() -> None:
    def of(agent: str, *events: Event) -> list[Event]:
        return [event.replace(source=EventSource(agent, agent, (agent,))) for event in events]

    def says(text: str) -> Event:
        return ReasoningChunkEvent(message_id="m", delta=TextBlock(text))

    both = [
        *of("a", PreCallEvent(), says("1")),
        *of("b", PreCallEvent(), says("2")),
        *of("a", says("3")),
        *of("b", says("4")),
    ]
    assert events_shown(both) == "1\nb: 2\na: 3\nb: 4\n"


def test_one_console_shows_run_after_run() -> None:
    file = io.StringIO()
    console = Console(file)
    agent = ReActAgent("A", ScriptedModel("one", "two"))
    for _ in range(2):
        print_run(agent.stream("?"), console)
    summary = "-- 1 turn, 0 tool calls, 0.0 s\n"
    assert SECONDS.sub("0.0 s", file.getvalue()) == f"one\n{summary}two\n{summary}"


def test_as_a_subscriber() -> None:
    file = io.StringIO()
    done: list[object] = []

    class Noting(Console):
        def on_completed(self) -> None:
            super().on_completed()
            done.append(None)

    agent = ReActAgent("A", ScriptedModel("hello"))
    stream: Flow[Event] = agent.stream("?")

    async def subscribe() -> None:
        stream.subscribe(Noting(file))
        await agent.idle()

    asyncio.run(subscribe())
    assert done == [None]
    assert file.getvalue().startswith("hello\n-- 1 turn")


# --- odd content and odd files ----------------------------------------------------------------------------------------


def test_what_cannot_be_shown_does_not_fail_the_run() -> None:
    class Odd:
        def __repr__(self) -> str:
            raise RuntimeError("no")

        __str__ = __repr__

    events = [
        PreActingEvent(tool_use=ToolUseBlock("c", "t", {"odd": Odd()})),
        PostReasoningEvent(message=Msg.assistant("x")),
    ]
    assert events_shown(events) == "\n!! PreActingEvent could not be shown: RuntimeError\n"


def test_media_malformed_arguments_and_odd_kinds_are_shown() -> None:
    use = ToolUseBlock("c", "t", raw='{"a": ', input_error="cut off")
    result = ToolResultBlock.error(use, ToolResultKind.INVALID_ARGUMENTS, "bad JSON")
    text = events_shown([PreActingEvent(tool_use=use), PostActingEvent(tool_use=use, message=Msg.tool(result))])
    assert text == '-> t({"a":)\n<- Error: bad JSON\n'


def test_what_an_encoding_lacks_is_escaped() -> None:
    raw = io.BytesIO()
    file = io.TextIOWrapper(raw, encoding="ascii", newline="\n")
    Console(file).on_next(ReasoningChunkEvent(message_id="m", delta=TextBlock("é☃")))
    assert raw.getvalue() == b"\\xe9\\u2603"
    file.detach()


class Closed(io.StringIO):
    def write(self, text: str) -> int:
        raise BrokenPipeError(32, "Broken pipe")


def test_a_closed_pipe_ends_the_run() -> None:
    agent = ReActAgent("A", ScriptedModel(["a", "b"], "never asked"))
    with pytest.raises(BrokenPipeError):
        print_run(agent.stream("?"), Console(Closed()))
    assert isinstance(agent.model, ScriptedModel)
    assert agent.model.unplayed == 1


def test_print_run_wants_a_whole_run() -> None:
    with pytest.raises(InvalidInputError, match="whole run"):
        print_run(from_iterable([PreCallEvent()]), Console(io.StringIO()))


def test_print_run_writes_to_stdout_and_returns_the_reply(capsys: pytest.CaptureFixture[str]) -> None:
    assert print_run(ReActAgent("A", ScriptedModel("hi")).stream("?")).text == "hi"
    assert capsys.readouterr().out.startswith("hi\n-- 1 turn")


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Callable[[], TextIO]:
    for name in ("NO_COLOR", "FORCE_COLOR", "COLORTERM"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    return Terminal


def _colored(file: TextIO, **console: object) -> str:
    model = ScriptedModel(
        [ThinkingBlock("[b]hm\n"), "See [link=x]http://a.b/c?d=1[/link]", call("add", a=1, b=2)], "3\n\n 4"
    )
    print_run(ReActAgent("A", model, tools=[add]).stream("?"), Console(file, **console))
    assert isinstance(file, io.StringIO)
    return file.getvalue()


def test_colours_change_no_word(terminal: Callable[[], TextIO]) -> None:
    colored = _colored(terminal())
    assert "\x1b[" in colored
    assert "\x1b[2;3m~ [b]hm" in colored
    assert SECONDS.sub("", re.sub(r"\x1b\[[\d;]*m", "", colored)) == SECONDS.sub("", _colored(io.StringIO()))


def test_no_colours_without_a_terminal_or_by_wish(
    terminal: Callable[[], TextIO], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "\x1b" not in _colored(io.StringIO())
    assert "\x1b" not in _colored(terminal(), color=False)
    assert "\x1b" in _colored(io.StringIO(), color=True)
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b" not in _colored(terminal())
    monkeypatch.delenv("NO_COLOR")
    monkeypatch.setenv("TERM", "dumb")
    assert "\x1b" not in _colored(terminal())


def test_without_rich_the_words_are_plain(terminal: Callable[[], TextIO], monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without(name: str, *arguments: object) -> object:
        if name.partition(".")[0] == "rich":
            raise ImportError(name)
        return real(name, *arguments)

    monkeypatch.setattr(builtins, "__import__", without)
    assert "\x1b" not in _colored(terminal(), color=True)


def test_show_passes_everything_on() -> None:
    console = Console(io.StringIO())
    events: Observable[Event] = ReActAgent("A", ScriptedModel("hi")).stream("?")
    seen: list[Event] = []

    async def collect() -> None:
        async for event in console.show(events):
            seen.append(event)

    asyncio.run(collect())
    assert [event.seq for event in seen] == list(range(len(seen)))
    assert isinstance(seen[-1], PostCallEvent)


def test_a_subscriber_whose_file_is_gone_disposes_the_run() -> None:
    agent = ReActAgent("A", ScriptedModel("a"))
    with collect_dropped() as dropped:
        subscribed = agent.stream("?")

        async def go() -> None:
            subscribed.subscribe(Console(Closed()))
            await agent.idle()

        asyncio.run(go())

    assert [type(error) for error in dropped] == [BrokenPipeError]


def test_a_sub_agents_lines_say_whose_they_are() -> None:
    """With its name, and the number of its call if there are several; its words are not shown a second time."""

    def boss() -> ReActAgent:
        helper = ReActAgent("Helper", ScriptedModel(["It is ", "so."], repeat=True))
        ask = call("call_helper", message="?")
        both = [call("call_helper", message="1"), call("call_helper", message="2")]
        return ReActAgent("Boss", ScriptedModel(["I ", "ask.", ask], both, "Done."), tools=[helper.as_tool()])

    def shown(options: StreamOptions | None = None) -> list[str]:
        file = io.StringIO()
        print_run(boss().stream("go", options), Console(file))
        return file.getvalue().splitlines()

    said = [line for line in shown() if "It is" in line and not line.startswith(" ")]
    assert sorted(said) == ["Helper [1]: It is so.", "Helper [2]: It is so.", "Helper: It is so."]
    assert [line for line in shown(StreamOptions(nested=False)) if line.startswith("..")][:2] == [".. It is ", ".. so."]
