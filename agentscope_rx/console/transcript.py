"""Events in, styled text out: what is written for each event. Knows no terminal and writes nothing.

| what happens            | what is written                                                |
|-------------------------|----------------------------------------------------------------|
| thinking                | `~ The user wants ...`                                         |
| text                    | the text as it comes                                           |
| a tool call             | `-> read_file(path="README.md")`                               |
| its progress            | `.. 200 files searched`                                        |
| its result              | `<- # agentscope-rx` and a few more lines                      |
| a sub-agent's run       | the same, with its name before each line: `Researcher: -> ...` |
| several calls at once   | the same with `[1]`, `[2]`, ... behind the sign                |
| another attempt         | `!! attempt 1 failed, the next in 2.0 s: HTTP 429: slow down`  |
| the end                 | `-- 2 turns, 1 tool call, 812 tokens in, 40 out, 3.2 s`        |

Post events tell counts and results, chunks tell text: what hooks leave of a chunk is all that is shown of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import NamedTuple

from agentscope_rx.console.wording import arguments, clean, counted, one_line, result_text, seconds
from agentscope_rx.events import (
    ActingChunkEvent,
    ChunkEvent,
    ErrorEvent,
    Event,
    OutputChunkEvent,
    PostActingEvent,
    PostCallEvent,
    PostReasoningEvent,
    PostSummaryEvent,
    PreActingEvent,
    PreSummaryEvent,
    RetryEvent,
)
from agentscope_rx.messages import ChatUsage, GenerateReason, Msg, TextBlock, ThinkingBlock


class Style(Enum):
    """What a piece of text is."""

    TEXT = auto()
    """Of the answer, and nothing but it."""
    LABELLED = auto()
    """Of an answer, with who says it before each line."""
    THINKING = auto()
    CALL = auto()
    PROGRESS = auto()
    RESULT = auto()
    FAILURE = auto()
    NOTE = auto()
    ERROR = auto()
    SUMMARY = auto()


class Piece(NamedTuple):
    """Some text, line ends included."""

    style: Style
    text: str


@dataclass(slots=True)
class _RunState:
    """What is known of a run from its events alone."""

    agent: str
    began: float
    ended: float
    turns: int = 0
    usage: ChatUsage = field(default_factory=ChatUsage)
    calls: set[str] = field(default_factory=set[str])
    failed: int = 0
    batch: int = 0
    tags: dict[str, int] = field(default_factory=dict[str, int])
    said: dict[str, str | None] = field(default_factory=dict[str, str | None])
    """The messages of which text was shown; their whole text, once it is known."""
    so_far: str = ""
    asked: set[str] = field(default_factory=set[str])
    """The calls that sub-agents' runs were seen of."""
    inside: str = ""
    """What a sub-agent's lines begin with."""

    def tag(self, call_id: str) -> str:
        """The number of a call in its batch, if there is more than one."""
        number = self.tags.get(call_id, 0)
        return f"[{number}] " if number and (self.batch > 1 or number > 1) else ""

    def answered(self, message: Msg, usage: ChatUsage | None) -> None:
        """A model round is over."""
        self.turns += 1
        self.usage += usage or ChatUsage()
        self.batch = len(message.tool_calls)
        self.tags = {}
        if message.id in self.said:
            self.said[message.id] = message.text


class Transcript:
    """The text of any number of runs. Only one line is open at a time, and it has one voice."""

    def __init__(self, *, thinking: bool = True, errors: bool = True, result_lines: int = 6) -> None:
        self._thinking = thinking
        self._errors = errors
        self._result_lines = max(1, result_lines)
        self._runs: dict[str, _RunState] = {}
        self._voice: object = None
        self._at_start = True
        self._told: Exception | None = None

    def feed(self, event: Event) -> Iterator[Piece]:
        """What is to be written for this event."""
        run = self._runs.get(event.run_id)
        if run is None:
            run = self._runs[event.run_id] = _RunState(event.agent, event.timestamp, event.timestamp)
            if event.depth:
                self._begun_inside(event, run)
        run.ended = event.timestamp
        match event:
            case OutputChunkEvent():
                # its piece has been written: the chunk before has brought it
                pass
            case ChunkEvent():
                yield from self._chunk(event, run)
            case PostReasoningEvent() | PostSummaryEvent():
                run.answered(event.message, event.usage)
            case PreActingEvent():
                run.calls.add(event.tool_use.id)
                run.tags[event.tool_use.id] = len(run.tags) + 1
                head = f"-> {run.tag(event.tool_use.id)}{clean(event.tool_use.name)}({arguments(event.tool_use)})"
                yield from self._lines(Style.CALL, self._label(run), head)
            case ActingChunkEvent():
                # what a sub-agent says is shown as its own
                if not event.is_last and event.tool_use.id not in run.asked:
                    head = f"{self._label(run)}.. {run.tag(event.tool_use.id)}"
                    yield from self._lines(Style.PROGRESS, head, result_text(event.chunk, self._result_lines), head)
            case PostActingEvent():
                yield from self._result(event, run)
            case RetryEvent():
                yield from self._retry(event, run)
            case PreSummaryEvent():
                note = f"!! no answer in {counted(event.max_iterations, 'round')}: asking for a last word"
                yield from self._lines(Style.NOTE, self._label(run), note)
            case PostCallEvent():
                yield from self._reply(event, run)
            case ErrorEvent():
                self._told = event.error
                yield from self._error(event.error_type, event.error_text)
                yield from self._summary(event.run_id, "failed")
            case _:
                pass

    def _begun_inside(self, event: Event, run: _RunState) -> None:
        """A sub-agent's run begins; its path ends with the run that has called it, the call and itself."""
        caller, call_id = self._runs.get(event.path[-3]), event.path[-2]
        tag = ""
        if caller is not None:
            caller.asked.add(call_id)
            tag = f" {caller.tag(call_id)}".rstrip()
        run.inside = f"{clean(event.agent)}{tag}: "

    def failed(self, error: Exception) -> Iterator[Piece]:
        """What is to be written for the error that ended a stream, if no event has told it."""
        if self._told is not error:
            yield from self._error(type(error).__name__, str(error))
        self._told = None
        for run_id in tuple(self._runs):
            yield from self._summary(run_id, "failed")
        yield from self.over()

    def over(self) -> Iterator[Piece]:
        """What is to be written when nothing follows: the end of the line that is open."""
        self._runs.clear()
        yield from self._end_line()

    # --- what the model says --------------------------------------------------------------------------------------

    def _chunk(self, event: ChunkEvent, run: _RunState) -> Iterator[Piece]:
        piece = event.delta if event.delta is not None else event.snapshot
        if isinstance(piece, ThinkingBlock):
            style, text, prefix = Style.THINKING, piece.thinking, "~ "
        elif isinstance(piece, TextBlock):
            style, text, prefix = Style.TEXT, piece.text, ""
        else:
            return
        voice = (event.run_id, event.message_id, style)
        if event.delta is None:
            # a stream of accumulated content: only what is new in it
            known = run.so_far if self._voice == voice and text.startswith(run.so_far) else ""
            run.so_far, text = text, text[len(known) :]
        if not text or (style is Style.THINKING and not self._thinking):
            return
        if style is Style.TEXT:
            run.said.setdefault(event.message_id, None)
        yield from self._switch(voice)
        yield from self._flow(style, self._label(run) + prefix, clean(text))

    def _reply(self, event: PostCallEvent, run: _RunState) -> Iterator[Piece]:
        """The reply, if it is not what was shown already: nobody streamed it, or a hook has changed it."""
        message = event.message
        if message.text and run.said.get(message.id) != message.text:
            yield from self._end_line()
            yield from self._lines(Style.TEXT, self._label(run), clean(message.text), self._label(run))
        if event.usage is not None and event.usage != ChatUsage():
            run.usage = event.usage
        reason = message.generate_reason
        yield from self._summary(
            event.run_id, None if reason is GenerateReason.MODEL_STOP else reason.replace("_", " ")
        )

    # --- what tools do, and what goes wrong -----------------------------------------------------------------------

    def _result(self, event: PostActingEvent, run: _RunState) -> Iterator[Piece]:
        result = event.result
        run.failed += result.is_error
        head = f"{self._label(run)}<- {run.tag(event.tool_use.id)}"
        style = Style.FAILURE if result.is_error else Style.RESULT
        yield from self._lines(style, head, result_text(result, self._result_lines), " " * len(head))

    def _retry(self, event: RetryEvent, run: _RunState) -> Iterator[Piece]:
        void = " (what it said is void)" if event.discarded else ""
        what = f"attempt {event.attempt} failed{void}, the next in {seconds(event.delay)}"
        tag = run.tag(event.tool_use_id or "")
        yield from self._lines(
            Style.NOTE, self._label(run), f"!! {tag}{what}: {one_line(event.error_text or event.error_type)}"
        )

    def _error(self, kind: str, text: str) -> Iterator[Piece]:
        if self._errors:
            yield from self._lines(Style.ERROR, "", f"error: {one_line(text) or kind}")

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
        yield from self._lines(Style.SUMMARY, self._label(run), f"-- {', '.join(parts)}")

    # --- lines ----------------------------------------------------------------------------------------------------

    def _end_line(self) -> Iterator[Piece]:
        self._voice = None
        if not self._at_start:
            self._at_start = True
            yield Piece(Style.TEXT, "\n")

    def _label(self, run: _RunState) -> str:
        """Who speaks, while several runs are shown at once."""
        if run.inside:
            return run.inside
        return f"{clean(run.agent)}: " if sum(not each.inside for each in self._runs.values()) > 1 else ""

    def _switch(self, voice: object) -> Iterator[Piece]:
        if self._voice != voice:
            yield from self._end_line()
            self._voice = voice

    def _lines(self, style: Style, first: str, text: str, later: str = "") -> Iterator[Piece]:
        """Whole lines of their own: `first` stands before the first of them, `later` before the others."""
        yield from self._end_line()
        lines = text.removesuffix("\n").split("\n")
        if style is Style.TEXT and first:
            style = Style.LABELLED
        yield Piece(style, "".join(f"{first if n == 0 else later}{line}\n" for n, line in enumerate(lines)))

    def _flow(self, style: Style, prefix: str, text: str) -> Iterator[Piece]:
        """Text that goes on where the last one ended; `prefix` stands before each line."""
        if prefix:
            lines = text.split("\n")
            lines = [prefix + line if line and (n or self._at_start) else line for n, line in enumerate(lines)]
            yield Piece(Style.LABELLED if style is Style.TEXT else style, "\n".join(lines))
        else:
            yield Piece(style, text)
        self._at_start = text.endswith("\n")
