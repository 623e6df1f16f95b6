"""`TTSHook`: speaks the model's text while it is being written.

    ReasoningChunk, SummaryChunk -- text --> sentences --> TTSModel.synthesize --> play(sound)
              |
              '--> on to the stream, at once

The run never waits for the voice: sentences go to a queue, and are spoken one after the other, each when the one before
has been played. If the voice is slower than the model, the queue of text grows.

| event                                                 | the voice                                              |
|-------------------------------------------------------|--------------------------------------------------------|
| a message is complete                                 | speaks the rest of it                                  |
| the run ends                                          | continues to the end of the text; see `idle()`         |
| the run is interrupted, or fails                      | stops at once, and drops the queue                     |
| an attempt of the model is discarded                  | stops, and speaks the new attempt                      |
| another call begins                                   | stops, unless `barge_in=False`                         |
| the voice or `play` fails                             | `on_error`, or a dropped error; silent until a call    |
| a run is disposed, which no hook observes             | continues, unless `hook.stop()` is called              |
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import AsyncGenerator, Awaitable, Callable
from functools import partial
from inspect import isawaitable
from typing import cast

from reactivex import Observable

from agentscope_rx.errors import ConfigurationError
from agentscope_rx.events import (
    ErrorEvent,
    Event,
    PostCallEvent,
    PostReasoningEvent,
    PostSummaryEvent,
    PreCallEvent,
    ReasoningChunkEvent,
    RetryEvent,
    SummaryChunkEvent,
)
from agentscope_rx.hooks.base import Hook
from agentscope_rx.messages import AudioBlock, GenerateReason
from agentscope_rx.models.speech import Sentences, TTSModel, without_marks
from agentscope_rx.reactive import Flow, concat, concat_map, flow, from_async_iterable, from_callable, just
from agentscope_rx.reactive.kernel.dropped import report_dropped

Play = Callable[[AudioBlock], Awaitable[object] | Observable[object] | object]
_RUNS = 64


class TTSHook(Hook):
    """Speaks by `model` and hands each chunk of sound to `play`: a plain or async function, or one with an Observable.

    The next chunk waits for the awaitable or Observable that `play` returns; a plain function must not block. `words`
    turns a sentence into the text to speak; by default it removes Markdown. One hook is one voice: conversations that
    may run at the same time need one each.

    The run never waits for the voice. If the voice is slower than the model, text waits, not sound. Sound is neither
    part of the reply nor remembered.

    | event | the voice |
    |---|---|
    | the run ends | goes on until all is spoken: `await hook.idle()`, in a script `hook.idle().run()` |
    | the run is interrupted, or fails | stops at once, and drops the queue |
    | an attempt of the model is discarded | stops, and speaks the new attempt |
    | another call begins | stops, unless `barge_in=False` |
    | the voice or `play` fails | is silent until the next call; `on_error(error)`, or `on_dropped`, gets the error |
    | a run is disposed, which no hook observes | speaks the text that it has; `hook.stop()` silences it |
    """

    kinds: tuple[type[Event], ...] | None = (
        PreCallEvent,
        ReasoningChunkEvent,
        PostReasoningEvent,
        SummaryChunkEvent,
        PostSummaryEvent,
        PostCallEvent,
        RetryEvent,
        ErrorEvent,
    )

    def __init__(
        self,
        model: TTSModel,
        play: Play,
        *,
        words: Callable[[str], str] = without_marks,
        barge_in: bool = True,
        on_error: Callable[[Exception], object] | None = None,
        priority: int = 900,
    ) -> None:
        if not isinstance(model, TTSModel) or not callable(play):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigurationError("TTSHook(model, play) takes a TTSModel and a function that plays an AudioBlock.")
        self.model = model
        self.play = play
        self.priority = priority
        self._words = words
        self._barge_in = barge_in
        self._on_error = on_error
        self._texts: OrderedDict[str, Sentences] = OrderedDict()
        self._queue: deque[str] = deque()
        self._speaking: asyncio.Task[object] | None = None
        self._silent = False

    def on_event(self, event: Event) -> None:
        match event:
            case PreCallEvent():
                self._silent = False
                if self._barge_in:
                    self.stop()
            case ReasoningChunkEvent() | SummaryChunkEvent():
                if event.text:
                    self._speak(self._text_of(event.run_id).take(event.text))
            case PostReasoningEvent() | PostSummaryEvent():
                self._end(event.run_id, cut_off=event.interrupted)
            case PostCallEvent():
                self._end(event.run_id, cut_off=event.message.generate_reason is GenerateReason.INTERRUPTED)
            case RetryEvent():
                if event.stage == "model" and event.discarded:
                    self._end(event.run_id, cut_off=True)
            case _:
                self._end(event.run_id, cut_off=True)

    @property
    def speaking(self) -> bool:
        """True while a sentence is spoken or queued."""
        return self._speaking is not None and not self._speaking.done()

    def stop(self) -> None:
        """Stop speaking at once, and drop the queue; from any thread."""
        self._queue.clear()
        self._texts.clear()
        speaking, self._speaking = self._speaking, None
        if speaking is not None and not speaking.done():
            speaking.get_loop().call_soon_threadsafe(speaking.cancel)

    def idle(self) -> Flow[None]:
        """Waits until the queue has been spoken, or stopped: `await hook.idle()`, or `hook.idle().run()` after `run()`.

        Signals: None and completion.
        Cancels: the waiting only.
        """
        return from_callable(self._idle)

    async def _idle(self) -> None:
        while (speaking := self._speaking) is not None and not speaking.done():
            await asyncio.wait((speaking,))
            # sentences that came meanwhile are spoken by another task
            await asyncio.sleep(0)

    def _text_of(self, run_id: str) -> Sentences:
        text = self._texts.setdefault(run_id, Sentences())
        # disposed runs send no last event
        while len(self._texts) > _RUNS:
            self._texts.popitem(last=False)
        return text

    def _end(self, run_id: str, *, cut_off: bool) -> None:
        text = self._texts.pop(run_id, None)
        if cut_off:
            self.stop()
        elif text is not None:
            self._speak(text.rest())

    def _speak(self, sentences: list[str]) -> None:
        if self._silent:
            return
        self._queue.extend(text for sentence in sentences if (text := self._words(sentence)).strip())
        self._speak_next()

    def _speak_next(self) -> None:
        if self._queue and not self.speaking:
            queued = from_async_iterable(partial(_drained, self._queue))
            spoken = queued.pipe(concat_map(self.model.synthesize), concat_map(self._played))
            self._speaking = concat(spoken, just(None)).as_task(name="agentscope-rx voice")
            self._speaking.add_done_callback(self._ended)

    def _played(self, sound: AudioBlock) -> Flow[object]:
        answer = self.play(sound)
        if isinstance(answer, Observable):
            return flow(cast("Observable[object]", answer))
        if isawaitable(answer):
            return from_callable(lambda: answer)
        return just(None)

    def _ended(self, task: asyncio.Task[object]) -> None:
        error = None if task.cancelled() else task.exception()
        if task is not self._speaking:
            return
        if not isinstance(error, Exception):
            # sentences that came while the last one was played
            self._speak_next()
            return
        self._queue.clear()
        self._silent = True
        if self._on_error is not None:
            self._on_error(error)
        else:
            report_dropped(error, f"the voice {self.model!r}")


async def _drained(queue: deque[str]) -> AsyncGenerator[str]:
    while queue:
        yield queue.popleft()
