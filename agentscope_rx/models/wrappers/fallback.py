"""`FallbackModel`: asks one model and, if it fails, the next."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Literal

from agentscope_rx.errors import (
    BadAnswerError,
    ConfigurationError,
    EmptyResponseError,
    ModelError,
    ModelTimeoutError,
)
from agentscope_rx.messages import ThinkingBlock
from agentscope_rx.messages.msg import Msg, MsgRole
from agentscope_rx.models.accumulate import ResponseAccumulator
from agentscope_rx.models.attempts import overall_deadline
from agentscope_rx.models.capabilities import Capabilities, common
from agentscope_rx.models.chat_model import ChatModel, OutputSupport
from agentscope_rx.models.logs import log_fallback
from agentscope_rx.models.options import GenerateOptions, ToolSchema, check_after_content
from agentscope_rx.models.response import ChatResponse, RetryNotice
from agentscope_rx.models.retryable import ErrorKinds, check_error_kinds, error_predicate, is_retryable
from agentscope_rx.models.wrappers.base import as_model
from agentscope_rx.reactive import Flow, catch, concat, defer, flat_map_iterable, just, throw
from agentscope_rx.reactive.kernel.flow import Operator

Check = Callable[[Msg], str | None]
"""Returns what is wrong with an answer; None if it is good."""


def any_trouble(error: BaseException) -> bool:
    """True for errors of the model or the connection; False for arguments that no model accepts."""
    return isinstance(error, ModelError) or is_retryable(error)


class FallbackModel(ChatModel):
    """Asks models in turn until one answers. Its name is that of the first; `output_modes` are those of all models.

        first.stream     --n--X                           (after its own deadlines and retries)
        second.stream          --a--b|
        result           --n--r--a--b|                    r: a `RetryNotice` that names the second

    | an answer                | `after_content="error"` (default)        | `after_content="restart"`                 |
    |--------------------------|------------------------------------------|-------------------------------------------|
    | fails before any content | the next model                           | the next model                            |
    | fails afterwards         | the error is final                       | the content is void; the next model       |
    | fails the `check`        | the next model; the answer was held back | the shown content is void; the next model |
    | is empty                 | `EmptyResponseError`: the next model     | the same                                  |

    So "error" never withdraws content, and "restart" shows all content without delay (`RetryEvent.discarded`).

    Each model keeps its own options, deadlines and attempts; the options of a call override them, and their
    `total_timeout` bounds all models together. `when` selects the errors that lead to the next model: a type, a tuple,
    or a predicate (default: each `ModelError`, but not errors in arguments). `check(message)` returns an error text for
    a bad answer, or None.

    `RetryEvent.model_name` is the next model, `PostReasoningEvent.model_name` the one that answered. Failed attempts
    count in usage and cost at their model's price. If all models fail, the error is the last one's, with a note on the
    others, or `BadAnswerError` if the check failed.
    """

    def __init__(
        self,
        *models: ChatModel | str,
        when: ErrorKinds = any_trouble,
        check: Check | None = None,
        after_content: Literal["error", "restart"] = "error",
    ) -> None:
        self.models: tuple[ChatModel, ...] = tuple(as_model("FallbackModel", model) for model in models)
        if len(models) < 2:
            raise ConfigurationError("FallbackModel needs at least two models.")
        check_error_kinds("when", when)
        check_after_content(after_content)
        if check is not None and not callable(check):  # pyright: ignore[reportUnnecessaryComparison]
            raise ConfigurationError(f"check must be a function of the answer, not {check!r:.60}.")
        first = self.models[0]
        super().__init__(first.model_name, options=first.options, execution_config=first.execution_config)
        self.provider: str = first.provider
        self.output_modes: frozenset[OutputSupport] = frozenset(
            mode for mode in first.output_modes if all(mode in model.output_modes for model in self.models)
        )
        self._when = error_predicate(when)
        self._check = check
        self._restarts = after_content == "restart"

    @property
    def model_names(self) -> Sequence[str]:
        """The names of all models that may answer."""
        return tuple(name for model in self.models for name in model.model_names)

    @property
    def capabilities(self) -> Capabilities | None:
        """The capabilities that all models share."""
        return common(model.capabilities for model in self.models)

    def stream(
        self,
        messages: Sequence[Msg],
        tools: Sequence[ToolSchema] = (),
        options: GenerateOptions | None = None,
        *,
        around: Operator[ChatResponse, ChatResponse] | None = None,
    ) -> Flow[ChatResponse]:
        """Ask the models in turn, never two at the same time: a cold Flow.

        Signals: the increments of the attempts, and a chunk with `retry` before each further one; then completion, or
        the last model's error, with a note that lists the errors before it, which are its context.
        Cancels: the attempt in progress, or the wait before the next one.
        """

        def ask(model: ChatModel) -> Flow[ChatResponse]:
            return model.stream(messages, tools, options, around=around)

        return self._in_turn(ask, options)

    def do_stream(
        self, messages: Sequence[Msg], tools: Sequence[ToolSchema], options: GenerateOptions
    ) -> Flow[ChatResponse]:
        """One attempt of each model in turn.

        Signals: as `stream`.
        Cancels: the attempt in progress.
        """
        return self._in_turn(lambda model: model.do_stream(messages, tools, options), None)

    def __repr__(self) -> str:
        return f"FallbackModel({', '.join(map(repr, self.models))})"

    def _in_turn(
        self, ask: Callable[[ChatModel], Flow[ChatResponse]], options: GenerateOptions | None
    ) -> Flow[ChatResponse]:
        config = None if options is None else options.execution_config
        whole = None if config is None else config.limit("total_timeout")

        def attempt(index: int, before: tuple[str, ...], last: Exception | None = None) -> Flow[ChatResponse]:
            model = self.models[index]
            answer = _Answer(model, self._check, held=self._check is not None and not self._restarts)

            def failed(error: Exception) -> Flow[ChatResponse]:
                out_of_time = isinstance(error, ModelTimeoutError) and error.which == "overall" and whole is not None
                if last is not None and last is not error and error.__cause__ is None and error.__context__ is None:
                    # as if it were raised while the other one was handled: no error of a model is lost
                    error.__context__ = last
                over = index + 1 == len(self.models) or out_of_time or (answer.shown and not self._restarts)
                if over or not self._when(error):
                    return throw(_noted(error, before))
                failures = (*before, f"{model.model_name}: {type(error).__name__}: {error}")
                following = self.models[index + 1].model_name
                log_fallback(model.model_name, following, error)
                notice = RetryNotice(index + 1, 0.0, error, answer.shown, following)
                return concat(
                    just(ChatResponse(retry=notice, usage=answer.usage)),
                    defer(lambda: attempt(index + 1, failures, error)),
                )

            return ask(model).pipe(flat_map_iterable(answer.take, answer.end), catch(failed))

        flow = defer(lambda: attempt(0, ()))
        return flow if whole is None else flow.pipe(overall_deadline(whole, self.model_name, self.provider))


class _Answer:
    """One model's answer as it arrives: emitted or held back, and checked when it is complete."""

    __slots__ = ("_accumulator", "_check", "_has_content", "_held", "_model", "shown", "usage")

    def __init__(self, model: ChatModel, check: Check | None, *, held: bool) -> None:
        self._model = model
        self._check = check
        self._accumulator = None if check is None else ResponseAccumulator()
        self._held: list[ChatResponse] | None = [] if held else None
        self._has_content = False
        self.shown = False
        """True if content was emitted and not discarded."""
        self.usage = None
        """The usage, if the answer was held back."""

    def take(self, chunk: ChatResponse) -> Sequence[ChatResponse]:
        """Take an increment; returns the chunks to emit now."""
        if self._accumulator is not None:
            self._accumulator.feed(chunk)
        if chunk.retry is not None:
            return self._again(chunk, chunk.retry)
        if not self._has_content:
            self._has_content = any(type(block) is not ThinkingBlock for block in chunk.content)
        if self._held is not None and chunk.wait is None:
            self._held.append(chunk)
            self.usage = chunk.usage or self.usage
            return ()
        if chunk.content:
            self.shown = True
        return (chunk,)

    def end(self) -> Sequence[ChatResponse]:
        """The answer is complete: returns the chunks held back, or raises the error of the check."""
        if not self._has_content:
            raise EmptyResponseError(model=self._model.model_name)
        if self._check is not None and self._accumulator is not None:
            name = self._accumulator.model or self._model.model_name
            answer = Msg(name, self._accumulator.blocks(), MsgRole.ASSISTANT, usage=self._accumulator.usage)
            problem = self._check(answer)
            if problem is not None:
                raise BadAnswerError(str(problem), model=name, provider=self._model.provider)
        held, self._held = self._held, None
        return held or ()

    def _again(self, chunk: ChatResponse, notice: RetryNotice) -> Sequence[ChatResponse]:
        """The model retries by itself."""
        self._has_content = self.shown = False
        if self._held is None:
            return (chunk,)
        self._held.clear()
        usage, self.usage = chunk.usage or self.usage, None
        return (replace(chunk, usage=usage, retry=replace(notice, discarded=False)),)


class _FallbackNote(str):
    """The note on an error that lists the models asked before."""

    __slots__ = ()


def _noted(error: Exception, before: Sequence[str]) -> Exception:
    notes: list[str] = getattr(error, "__notes__", [])
    # one exception object may end many calls: keep only the note of the last one
    notes[:] = [note for note in notes if not isinstance(note, _FallbackNote)]
    if before:
        error.add_note(_FallbackNote(f"Asked before, without success: {'; '.join(before)}"))
    return error
