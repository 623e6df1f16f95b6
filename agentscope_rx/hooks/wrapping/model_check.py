"""`ModelCheck`: one hook's operator around the responses of a model call; what comes out is the answer.

The operator may change, drop and add responses, and may answer without asking the model. Content of a failed attempt
is never part of the answer: a further attempt begins with a `RetryNotice`, and so does what an operator emits in place
of an attempt that has failed with content. A notice comes out even if the operator drops it or holds it back.
"""

from __future__ import annotations

from collections.abc import Iterable

from agentscope_rx.errors import HookError
from agentscope_rx.hooks.wrapping.around_hook import Step
from agentscope_rx.hooks.wrapping.checked import Checked
from agentscope_rx.hooks.wrapping.requests import ModelRequest
from agentscope_rx.models.response import ChatResponse, RetryNotice
from agentscope_rx.reactive.kernel.observer import Sink
from agentscope_rx.reactive.kernel.scope import Scope


class ModelCheck(Checked[ChatResponse, ModelRequest]):
    """See above."""

    __slots__ = ("_noticed", "_shown", "_void")

    def __init__(self, step: Step, request: ModelRequest, sink: Sink[ChatResponse], scope: Scope) -> None:
        super().__init__(step, request, sink, scope)
        # content has come out since the latest notice
        self._shown = False
        # the error of an attempt whose content must be discarded before other content comes out
        self._void: Exception | None = None
        # the operator itself has announced that the latest attempt has ended
        self._noticed = False

    def begins(self) -> HookError | Iterable[ChatResponse]:
        noticed, self._noticed = self._noticed, False
        if self.attempts == 1 or self.active or noticed:
            # beside a running attempt the operator chooses what comes out
            return ()
        return (_notice(self.attempts - 1, self.error or self.problem("has ended the attempt"), self._shown),)

    def failed(self, error: Exception) -> None:
        super().failed(error)
        if self._shown and not self.active:
            self._void = error

    def stop(self) -> None:
        super().stop()
        self._void = None

    def entered(self, item: ChatResponse, sink: Sink[ChatResponse]) -> None:
        if item.retry is None:
            sink.on_next(item)
        else:
            # without it the answer would hold the content of both attempts
            self.announce(item, sink)

    def announced(self, item: ChatResponse) -> None:
        self._shown, self._void = False, None

    def on_next(self, item: ChatResponse) -> None:
        if self.disposed:
            return
        if not isinstance(item, ChatResponse):  # pyright: ignore[reportUnnecessaryIsInstance]
            self.fail(self.problem(f"must emit ChatResponses, not {type(item).__name__}: {item!r:.60}"))
            return
        if item.retry is not None:
            if self.is_repeated(item) and not self._shown:
                return
            # (held back with content of its attempt, which has come out meanwhile: discard that, too)
            self.announced(item)
            self._noticed = not self.active
        elif item.content:
            if self._void is not None:
                notice, self._void = _notice(self.attempts, self._void, True), None
                self._sink.on_next(notice)
                if self.disposed:
                    return
            self._shown = True
        self._sink.on_next(item)


def _notice(attempt: int, error: Exception, discarded: bool) -> ChatResponse:
    return ChatResponse(retry=RetryNotice(attempt, 0.0, error, discarded=discarded))
