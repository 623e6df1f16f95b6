"""`checked_output`: a model call whose text is held back until it is judged; what comes out is shown and remembered.

    the model   --Hello.--my key--is 1234.--|
    windows     --[Hello.]--------[my key is 1234.]|
    result      ----Hello.-----------my key is [removed].|

The end of a window, as many characters as the checks reach, stays held and is judged with the next one: what is that
long is never cut in two. No character is held longer than `max_delay`, apart from the time that checks take.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from agentscope_rx.events.base import EventSource
from agentscope_rx.guardrails.check_request import CheckRequest
from agentscope_rx.guardrails.judging import Outcome, judge
from agentscope_rx.guardrails.port import Guardrail
from agentscope_rx.guardrails.verdict import Finding
from agentscope_rx.guardrails.windows import EPSILON, Channel, Mark, Window, WindowOptions, Windows, marks_from_end
from agentscope_rx.messages import ThinkingBlock
from agentscope_rx.models.response import ChatResponse
from agentscope_rx.reactive import Flow, Scope, concat_map, empty, from_iterable
from agentscope_rx.reactive.kernel.observer import Sink, attach
from agentscope_rx.reactive.kernel.operator import OperatorFlow

WAITING = 1
"""The number of windows that may wait for a check before the model is read no further."""


class StoppedError(Exception):
    """Ends a model call whose answer was stopped; `shown`: a part of it has come out."""

    def __init__(self, outcome: Outcome, *, shown: bool) -> None:
        super().__init__("stopped")
        self.outcome = outcome
        self.shown = shown


def checked_output(
    source: Flow[ChatResponse],
    checks: Sequence[Guardrail],
    options: WindowOptions,
    where: EventSource,
    found: Callable[[Sequence[Finding]], None],
) -> Flow[ChatResponse]:
    """Judge the text of an answer before it comes out. `found` gets the findings of each window.

    Signals: the responses as the checks have left them; `StoppedError`; the error of the model.
    Cancels: the model call and the checks in progress; what is held is dropped.
    """

    def connect(sink: Sink[ChatResponse], scope: Scope) -> None:
        release = _Release(checks, options, where, found, scope)
        windows: Flow[ChatResponse | Window] = OperatorFlow(release.windows, source)
        attach(windows.pipe(concat_map(release.judge, prefetch=WAITING)), sink, scope)

    return Flow(connect)


class _Release:
    """Judges windows one after the other, and lets their text out. One object for each subscription."""

    def __init__(
        self,
        checks: Sequence[Guardrail],
        options: WindowOptions,
        where: EventSource,
        found: Callable[[Sequence[Finding]], None],
        scope: Scope,
    ) -> None:
        self._checks = checks
        self._options = options
        self._where = where
        self._found = found
        self._scope = scope
        self._windows: Windows
        self._channel: Channel | None = None
        self._tail = ""
        self._marks: list[Mark] = []
        self._before = ""
        self._replaced = False
        self._shown = False
        self._seen: set[Finding] = set()

    def windows(self, sink: Sink[ChatResponse | Window], scope: Scope) -> Windows:
        """The sink of the model call."""
        self._windows = Windows(self._options, sink, scope)
        return self._windows

    def judge(self, item: ChatResponse | Window) -> ChatResponse | Flow[ChatResponse]:
        """The responses that come out for the next item."""
        if isinstance(item, ChatResponse):
            if item.retry is not None:
                self._forget()
            elif item.content:
                self._shown = True
            return item
        if item.generation != self._windows.generation:
            return empty()
        if item.channel != self._channel:
            self._channel, self._tail, self._marks, self._before, self._replaced = item.channel, "", [], "", False
        text = self._tail + item.text
        self._marks += item.marks
        if not text:
            return _flow(self._closing(item))
        request = CheckRequest(
            kind="output",
            text=text,
            source=self._where,
            before=self._before,
            thinking=item.channel.kind == "thinking",
            is_last=item.final,
        )
        outcome = judge(self._checks, request)
        if isinstance(outcome, Outcome):
            return _flow(self._settle(item, text, outcome))
        return outcome.pipe(concat_map(lambda found: _flow(self._settle(item, text, found))))

    def _forget(self) -> None:
        self._channel, self._shown = None, False
        self._seen.clear()

    def _settle(self, window: Window, text: str, outcome: Outcome) -> list[ChatResponse]:
        if window.generation != self._windows.generation:
            return []
        new = [finding for finding in outcome.findings if finding not in self._seen]
        if new:
            # text at the end of a window is judged again with the next one
            self._seen.update(new)
            self._found(new)
        if outcome.stop is not None:
            raise StoppedError(outcome, shown=self._shown)
        if outcome.content is not None:
            text = str(outcome.content)
            self._replaced = True
        kept = 0 if window.final else self._kept(text)
        out, self._tail = text[: len(text) - kept], text[len(text) - kept :]
        self._marks = marks_from_end(self._marks, kept)
        since = (self._marks[0].time if self._marks else self._scope.loop.time()) if kept else None
        if not window.final:
            self._windows.held(window.channel, since)
        self._before = (self._before + out)[-self._options.max_chars :]
        responses = self._pieces(window.channel, out)
        return responses + self._closing(window)

    def _pieces(self, channel: Channel, out: str) -> list[ChatResponse]:
        if not out:
            return []
        self._shown = True
        return [channel.piece(out)]

    def _kept(self, text: str) -> int:
        """The number of characters at the end that stay held: they may be the beginning of something."""
        reach = self._options.reach
        if not reach:
            return 0
        late = self._scope.loop.time() - self._options.max_delay + EPSILON
        young = sum(mark.length for mark in self._marks if mark.time > late)
        end = len(text) - reach
        if end > 0:
            # at the beginning of a word, if there is one near
            for cut in range(end, max(end - reach, 0), -1):
                if text[cut - 1].isspace():
                    end = cut
                    break
        return max(0, min(len(text) - max(end, 0), young, len(text)))

    def _closing(self, window: Window) -> list[ChatResponse]:
        if not window.final:
            return []
        replaced, self._channel = self._replaced and self._channel == window.channel, None
        close: ThinkingBlock | None = window.close
        if close is None or replaced:
            # a signature proves what the model has written, and not what has taken its place
            return []
        return [ChatResponse((close,), block=window.channel.number)]


def _flow(responses: list[ChatResponse]) -> ChatResponse | Flow[ChatResponse]:
    """The responses; one is returned as it is, which costs nothing."""
    return responses[0] if len(responses) == 1 else from_iterable(responses) if responses else empty()
