"""`Transcript`: turns events into styled text. It knows no terminal and writes nothing.

| what happens            | what is written                                                |
|-------------------------|----------------------------------------------------------------|
| thinking                | `~ The user wants ...`                                         |
| text                    | the text as it comes                                           |
| a tool call             | `-> read_file(path="README.md")`                               |
| its progress            | `.. 200 files searched`                                        |
| its result              | `<- # agentscope-rx` and a few more lines                      |
| a sub-agent's run       | the same, with its name before each line: `Researcher: -> ...` |
| several calls at once   | the same with `[1]`, `[2]`, ... behind the sign                |
| input to the run        | `++ Only direct flights, please.`                              |
| a change of the plan    | `## Trip: 1 of 3 done, now Pack the bags`                      |
| another attempt         | `!! attempt 1 failed, the next in 2.0 s: HTTP 429: slow down`  |
| the end                 | `-- 2 turns, 1 tool call, 812 tokens in, 40 out, 3.2 s`        |

Counts and results come from post events, text from chunks: if hooks change a chunk, the changed text is shown.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import NamedTuple

from agentscope_rx.console.wording import (
    arguments,
    background_line,
    citation_line,
    clean,
    context_line,
    counted,
    hub_line,
    one_line,
    plan_line,
    result_text,
    retrieval_line,
    seconds,
)
from agentscope_rx.events import (
    ActingChunkEvent,
    BackgroundEvent,
    ChunkEvent,
    CitationEvent,
    ContextEvent,
    ErrorEvent,
    Event,
    HubEvent,
    InputEvent,
    OutputChunkEvent,
    PlanEvent,
    PostActingEvent,
    PostCallEvent,
    PostReasoningEvent,
    PostSummaryEvent,
    PreActingEvent,
    PreSummaryEvent,
    RetrievalEvent,
    RetryEvent,
)
from agentscope_rx.messages import ChatUsage, GenerateReason, Msg, TextBlock, ThinkingBlock


class TextStyle(Enum):
    """The role of a piece of text."""

    TEXT = auto()
    """The answer, without labels."""
    LABELLED = auto()
    """An answer with the name of the agent before each line."""
    THINKING = auto()
    CALL = auto()
    PROGRESS = auto()
    RESULT = auto()
    FAILURE = auto()
    NOTE = auto()
    ERROR = auto()
    SUMMARY = auto()


class Piece(NamedTuple):
    """A piece of text, with its line ends."""

    style: TextStyle
    text: str


@dataclass(slots=True)
class _ShownRun:
    """The state of a run, from its events."""

    agent: str
    began: float
    ended: float
    turns: int = 0
    usage: ChatUsage = field(default_factory=ChatUsage)
    calls: set[str] = field(default_factory=set[str])
    failed: int = 0
    batch: int = 0
    tags: dict[str, int] = field(default_factory=dict[str, int])
    texts: dict[str, str | None] = field(default_factory=dict[str, str | None])
    """The ids of messages that were shown, with their whole text once it is known."""
    so_far: str = ""
    sub_agent_calls: set[str] = field(default_factory=set[str])
    """The calls that run a sub-agent."""
    sub_agent_label: str = ""
    """The label before each line of a sub-agent."""

    def tag(self, call_id: str) -> str:
        """The number of a call in its batch, if there is more than one."""
        number = self.tags.get(call_id, 0)
        return f"[{number}] " if number and (self.batch > 1 or number > 1) else ""

    def answered(self, message: Msg, usage: ChatUsage | None) -> None:
        """Count a model round that has ended."""
        self.turns += 1
        self.usage += usage or ChatUsage()
        self.batch = len(message.tool_calls)
        self.tags = {}
        if message.id in self.texts:
            self.texts[message.id] = message.text


class Transcript:
    """The text of any number of runs. Only one line is incomplete at a time, and it belongs to one message."""

    def __init__(self, *, thinking: bool = True, errors: bool = True, result_lines: int = 6) -> None:
        self._thinking = thinking
        self._errors = errors
        self._result_lines = max(1, result_lines)
        self._runs: dict[str, _ShownRun] = {}
        self._voice: object = None
        self._at_start = True
        self._shown_error: Exception | None = None

    def feed(self, event: Event) -> Iterator[Piece]:
        """The text for this event."""
        run = self._runs.get(event.run_id)
        if run is None:
            run = self._runs[event.run_id] = _ShownRun(event.agent, event.timestamp, event.timestamp)
            if event.depth:
                self._begin_sub_agent(event, run)
        run.ended = event.timestamp
        match event:
            case OutputChunkEvent():
                # the chunk before it has the same text
                pass
            case ChunkEvent():
                yield from self._chunk(event, run)
            case PostReasoningEvent() | PostSummaryEvent():
                run.answered(event.message, event.usage)
            case PreActingEvent():
                run.calls.add(event.tool_use.id)
                run.tags[event.tool_use.id] = len(run.tags) + 1
                head = f"-> {run.tag(event.tool_use.id)}{clean(event.tool_use.name)}({arguments(event.tool_use)})"
                yield from self._lines(TextStyle.CALL, self._label(run), head)
            case ActingChunkEvent():
                yield from self._progress(event, run)
            case PostActingEvent():
                yield from self._result(event, run)
            case InputEvent():
                for message in event.input:
                    yield from self._lines(TextStyle.NOTE, self._label(run), f"++ {one_line(message.text)}")
            case ContextEvent():
                yield from self._lines(TextStyle.NOTE, self._label(run), f"## {context_line(event)}")
            case BackgroundEvent():
                yield from self._lines(TextStyle.NOTE, self._label(run), f"## {background_line(event)}")
            case HubEvent():
                yield from self._lines(TextStyle.NOTE, self._label(run), f"## {hub_line(event)}")
            case RetrievalEvent():
                yield from self._lines(TextStyle.NOTE, self._label(run), f"## {retrieval_line(event)}")
            case CitationEvent():
                yield from self._lines(TextStyle.NOTE, self._label(run), f"## {citation_line(event)}")
            case PlanEvent():
                yield from self._lines(TextStyle.NOTE, self._label(run), f"## {plan_line(event)}")
            case RetryEvent():
                yield from self._retry(event, run)
            case PreSummaryEvent():
                note = f"!! no answer in {counted(event.max_iterations, 'round')}: asking for a summary"
                yield from self._lines(TextStyle.NOTE, self._label(run), note)
            case PostCallEvent():
                yield from self._reply(event, run)
            case ErrorEvent():
                self._shown_error = event.error
                yield from self._error(event.error_type, event.error_text)
                yield from self._summary(event.run_id, "failed")
            case _:
                pass

    def _progress(self, event: ActingChunkEvent, run: _ShownRun) -> Iterator[Piece]:
        # a sub-agent's events are shown under its own name
        if not event.is_last and event.tool_use.id not in run.sub_agent_calls:
            head = f"{self._label(run)}.. {run.tag(event.tool_use.id)}"
            yield from self._lines(TextStyle.PROGRESS, head, result_text(event.chunk, self._result_lines), head)

    def _begin_sub_agent(self, event: Event, run: _ShownRun) -> None:
        """Note that a sub-agent's run begins; its path ends with the caller's run, the call and its own id."""
        caller, call_id = self._runs.get(event.path[-3]), event.path[-2]
        tag = ""
        if caller is not None:
            caller.sub_agent_calls.add(call_id)
            tag = f" {caller.tag(call_id)}".rstrip()
        run.sub_agent_label = f"{clean(event.agent)}{tag}: "

    def failed(self, error: Exception) -> Iterator[Piece]:
        """The text for the error of a stream, unless an event has shown it."""
        if self._shown_error is not error:
            yield from self._error(type(error).__name__, str(error))
        self._shown_error = None
        for run_id in tuple(self._runs):
            yield from self._summary(run_id, "failed")
        yield from self.over()

    def over(self) -> Iterator[Piece]:
        """The text for the end of all runs: the end of the line that is incomplete."""
        self._runs.clear()
        yield from self._end_line()

    # --- text of the model --------------------------------------------------------------------------------------

    def _chunk(self, event: ChunkEvent, run: _ShownRun) -> Iterator[Piece]:
        piece = event.delta if event.delta is not None else event.snapshot
        if isinstance(piece, ThinkingBlock):
            style, text, prefix = TextStyle.THINKING, piece.thinking, "~ "
        elif isinstance(piece, TextBlock):
            style, text, prefix = TextStyle.TEXT, piece.text, ""
        else:
            return
        voice = (event.run_id, event.message_id, style)
        if event.delta is None:
            # accumulated content: show only the new part
            known = run.so_far if self._voice == voice and text.startswith(run.so_far) else ""
            run.so_far, text = text, text[len(known) :]
        if not text or (style is TextStyle.THINKING and not self._thinking):
            return
        if style is TextStyle.TEXT:
            run.texts.setdefault(event.message_id, None)
        yield from self._switch(voice)
        yield from self._flow(style, self._label(run) + prefix, clean(text))

    def _reply(self, event: PostCallEvent, run: _ShownRun) -> Iterator[Piece]:
        """The reply, unless it was shown already: it was not streamed, or a hook has changed it."""
        message = event.message
        if message.text and run.texts.get(message.id) != message.text:
            yield from self._end_line()
            yield from self._lines(TextStyle.TEXT, self._label(run), clean(message.text), self._label(run))
        if event.usage is not None and event.usage != ChatUsage():
            run.usage = event.usage
        reason = message.generate_reason
        yield from self._summary(
            event.run_id, None if reason is GenerateReason.MODEL_STOP else reason.replace("_", " ")
        )

    # --- tools and errors ---------------------------------------------------------------------------------------

    def _result(self, event: PostActingEvent, run: _ShownRun) -> Iterator[Piece]:
        result = event.result
        run.failed += result.is_error
        head = f"{self._label(run)}<- {run.tag(event.tool_use.id)}"
        style = TextStyle.FAILURE if result.is_error else TextStyle.RESULT
        yield from self._lines(style, head, result_text(result, self._result_lines), " " * len(head))

    def _retry(self, event: RetryEvent, run: _ShownRun) -> Iterator[Piece]:
        void = " (its text is void)" if event.discarded else ""
        what = f"attempt {event.attempt} failed{void}, the next in {seconds(event.delay)}"
        tag = run.tag(event.tool_use_id or "")
        yield from self._lines(
            TextStyle.NOTE, self._label(run), f"!! {tag}{what}: {one_line(event.error_text or event.error_type)}"
        )

    def _error(self, kind: str, text: str) -> Iterator[Piece]:
        if self._errors:
            yield from self._lines(TextStyle.ERROR, "", f"error: {one_line(text) or kind}")

    def _summary(self, run_id: str, note: str | None) -> Iterator[Piece]:
        run = self._runs.pop(run_id)
        if note == "failed" and not (run.turns or run.calls):
            return
        parts = [note] if note else []
        parts += [counted(run.turns, "turn"), counted(len(run.calls), "tool call")]
        if run.failed:
            parts[-1] += f" ({run.failed} failed)"
        if run.usage.total_tokens:
            parts += [f"{run.usage.input_tokens:,} tokens in", f"{run.usage.output_tokens:,} out"]
        parts.append(seconds(max(0.0, run.ended - run.began)))
        yield from self._lines(TextStyle.SUMMARY, self._label(run), f"-- {', '.join(parts)}")

    # --- lines ----------------------------------------------------------------------------------------------------

    def _end_line(self) -> Iterator[Piece]:
        self._voice = None
        if not self._at_start:
            self._at_start = True
            yield Piece(TextStyle.TEXT, "\n")

    def _label(self, run: _ShownRun) -> str:
        """The name of the agent, while several runs are shown at once."""
        if run.sub_agent_label:
            return run.sub_agent_label
        return f"{clean(run.agent)}: " if sum(not each.sub_agent_label for each in self._runs.values()) > 1 else ""

    def _switch(self, voice: object) -> Iterator[Piece]:
        if self._voice != voice:
            yield from self._end_line()
            self._voice = voice

    def _lines(self, style: TextStyle, first: str, text: str, later: str = "") -> Iterator[Piece]:
        """Complete lines; `first` stands before the first of them, `later` before the others."""
        yield from self._end_line()
        lines = text.removesuffix("\n").split("\n")
        if style is TextStyle.TEXT and first:
            style = TextStyle.LABELLED
        yield Piece(style, "".join(f"{first if n == 0 else later}{line}\n" for n, line in enumerate(lines)))

    def _flow(self, style: TextStyle, prefix: str, text: str) -> Iterator[Piece]:
        """Text that continues the last line; `prefix` stands before each new line."""
        if prefix:
            lines = text.split("\n")
            lines = [prefix + line if line and (n or self._at_start) else line for n, line in enumerate(lines)]
            yield Piece(TextStyle.LABELLED if style is TextStyle.TEXT else style, "\n".join(lines))
        else:
            yield Piece(style, text)
        self._at_start = text.endswith("\n")
