"""`Summarize`: the oldest rounds become a summary, on which the next one builds.

    previous summary + rounds --(part 1)--> summary --(part 2)--> ... --> text     the rounds are marked COMPRESSED

Several parts are needed only if the request for the summary would itself be too long. An answer that is empty, refused,
cut off, without the sections, or longer than what it replaces is an error, and nothing is changed.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Final

from agentscope_rx.context_policy.answers import fields_of_answer
from agentscope_rx.context_policy.prompts import NATIVE, RESPONSE_FORMAT, SECTIONS, TASK, question
from agentscope_rx.context_policy.rounds import visible
from agentscope_rx.context_policy.strategy import StrategyContext
from agentscope_rx.context_policy.summary import Summary
from agentscope_rx.context_policy.transcript import transcript
from agentscope_rx.errors import (
    CompactionError,
    ConfigurationError,
    ContextOverflowError,
    DeadlineError,
    ModelError,
    PromptTooLongError,
)
from agentscope_rx.memory.changes import compressed
from agentscope_rx.memory.views import summary_carrier, summary_message
from agentscope_rx.messages import COMPRESSED, ChatUsage, Msg
from agentscope_rx.models.accumulate import ResponseAccumulator, accumulated
from agentscope_rx.models.chat_model import ChatModel
from agentscope_rx.models.checks import check_count, check_seconds
from agentscope_rx.models.options import GenerateOptions, ToolChoice
from agentscope_rx.models.registry import get_model
from agentscope_rx.models.response import FinishReason
from agentscope_rx.models.wrappers.truncating import max_input
from agentscope_rx.reactive import Flow, catch, concat_map, defer, just, throw, timeout

_SMALLER: Final = 7
"""The number of sizes of parts that are tried, each half of the one before."""
_LEAST: Final = 200
"""The least size of a part, in tokens."""


class Summarize:
    """Replaces the oldest rounds by a summary, which a model writes: the agent's own, or `model`.

    - **It builds on the summary before.** The prompt has it, to be updated. Its facts are carried over word for word;
      the model adds new ones, and names those that are outdated.
    - **It is bounded**: at most `max_tokens`, and at most a quarter of the budget. Decisions and open ends are left out
      first, facts last, the oldest first.
    - **A failed summary changes nothing.** That is an error of the model, a refusal, an answer that is empty, cut off,
      without the sections, or longer than what it replaces, and one that takes longer than `timeout` seconds. The event
      has the `error`. It is tried again when the conversation has grown by a tenth.
    - **Answers are read leniently.** The model is asked by its structured output if that is native, else for text with
      headings. JSON may have a fence or words around it; headings may be marked, numbered, bullets or plain lines.
      Headings in another language are refused, because such an answer cannot be told from other text: use another
        `model` then.
    - **Long conversations are summarised in parts**, if the request for the summary would itself be too long.
    - **The conversation is data.** Results are cut to 2,000 characters, pictures are named, thinking is left out; the
      prompt says that instructions in them are not to be followed. A model can be misled all the same.
    - **It costs**: its tokens count for the run and its `limits`.
    """

    def __init__(
        self,
        *,
        model: ChatModel | str | None = None,
        max_tokens: int = 1_500,
        timeout: float = 120.0,
        name: str = "summarize",
    ) -> None:
        self.model: ChatModel | None = get_model(model) if isinstance(model, str) else model
        if self.model is not None and not isinstance(self.model, ChatModel):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigurationError(f"model must be a model or its name, not {model!r:.60}.")
        check_count("max_tokens", max_tokens, 100)
        check_seconds("timeout", timeout)
        self.max_tokens = max_tokens
        self.timeout = timeout
        self.name = name

    def apply(self, context: StrategyContext) -> Flow[Sequence[Msg]] | Sequence[Msg]:
        """The rounds that the summary replaces, and the message that carries it.

        Signals: the messages; `CompactionError` if the model gave no summary.
        Cancels: the model call.
        """
        bound = min(self.max_tokens, max(100, context.limit // 4))
        chosen = _chosen(context, bound)
        if not chosen:
            return ()
        work = _Work(self, context, chosen, bound)
        summary = defer(work.summary).pipe(timeout(total=self.timeout), catch(self._failed))
        return summary.pipe(concat_map(lambda text: just(_compressed(context, chosen, text))))

    def _failed(self, error: Exception) -> Flow[str]:
        if isinstance(error, (ModelError, DeadlineError)):
            failure = CompactionError(self.name, f"{type(error).__name__}: {error}")
            failure.__cause__ = error
            return throw(failure)
        return throw(error)

    def __repr__(self) -> str:
        return f"<Summarize by {self.model or 'the agent’s model'}, at most {self.max_tokens} tokens>"


# --- which rounds -----------------------------------------------------------------------------------------------------


def _chosen(context: StrategyContext, bound: int) -> list[Msg]:
    """The oldest messages that must go; a summary of at most `bound` tokens is there instead."""
    carrier = summary_carrier(context.history)
    old = 0 if carrier is None else context.measure(summary_message(carrier))
    # a summary grows little by little: to expect its longest form each time would take more rounds than need be
    tokens = context.tokens + (bound if carrier is None else min(bound - old, bound // 4))
    number = context.messages + (carrier is None)
    most = context.target_messages
    chosen: list[Msg] = []
    for each in context.free():
        if tokens <= context.target and (most is None or number <= most):
            break
        chosen += each.messages
        tokens -= sum(map(context.measure, each.messages))
        number -= len(each.messages)
    return chosen if chosen and _is_worth_it(context, tokens, number) else []


def _is_worth_it(context: StrategyContext, tokens: int, number: int) -> bool:
    """True if a summary makes the conversation smaller by more than its own longest form, or is needed."""
    if context.cause in ("tool", "manual"):
        return True
    if tokens <= context.limit < context.tokens:
        return True
    if context.target_messages is not None and context.messages > context.target_messages:
        return number < context.messages
    return tokens < context.tokens


def _compressed(context: StrategyContext, chosen: Sequence[Msg], text: str) -> Sequence[Msg]:
    """The messages that change, if the summary takes the place of the chosen ones."""
    own = {id(message) for message in chosen}
    # a mark without a summary has hidden nothing, and this summary does not tell of these messages
    stray = {id(message) for message in visible(context.history) if COMPRESSED in message.marks} - own
    history = [each.unmarked(COMPRESSED) if id(each) in stray else each for each in context.history]
    changed = {old.id: new for old, new in zip(context.history, history, strict=True) if old is not new}
    places = [number for number, message in enumerate(context.history) if id(message) in own]
    changed.update((new.id, new) for _, new in compressed(history, places, text))
    return list(changed.values())


# --- the summary ------------------------------------------------------------------------------------------------------


class _Work:
    """The making of one summary, in as many requests as it needs."""

    def __init__(self, options: Summarize, context: StrategyContext, chosen: Sequence[Msg], bound: int) -> None:
        self._options = options
        self._context = context
        self._chosen = chosen
        self._bound = bound
        self._model = options.model or context.model
        native = "native" in self._model.output_modes
        form = NATIVE if native else SECTIONS
        # a token is about three quarters of a word, and the headings need some
        self._task = Msg.system(TASK.format(words=max(50, bound // 2), form=form))
        choice = None if self._model.options.tool_choice is None else ToolChoice("auto")
        self._request = GenerateOptions(tool_choice=choice, response_format=RESPONSE_FORMAT if native else None)

    def summary(self) -> Flow[str]:
        """The text of the summary.

        Signals: one text; a `ModelError`, or `CompactionError` for an answer that cannot be used.
        Cancels: the model call.
        """
        context = self._context
        previous = Summary.read(context.summary) if context.summary else Summary()
        limit = context.limit if self._options.model is None else max_input(self._options.model) or sys.maxsize
        room = int(0.9 * limit) - context.measure(self._task) - self._bound
        return self._in_parts(previous, max(_LEAST, room), _SMALLER)

    def _in_parts(self, previous: Summary, room: int, left: int) -> Flow[str]:
        parts = transcript(self._chosen, self._size, room) or ["(messages without text)"]

        def smaller(error: Exception) -> Flow[str]:
            largest = max(map(self._size, parts))
            if left <= 1 or largest <= _LEAST or not isinstance(error, (ContextOverflowError, PromptTooLongError)):
                return throw(error)
            return self._in_parts(previous, max(_LEAST, largest // 2), left - 1)

        return self._from(previous, parts, 0).pipe(catch(smaller))

    def _from(self, previous: Summary, parts: Sequence[str], at: int) -> Flow[str]:
        """The summary of the parts from this one on."""

        def go_on(answer: Summary) -> Flow[str]:
            summary = answer.after(previous).within(lambda text: self._size(text) <= self._bound)
            return just(summary.text()) if at + 1 == len(parts) else self._from(summary, parts, at + 1)

        return self._ask(previous, parts[at]).pipe(concat_map(go_on))

    def _ask(self, previous: Summary, part: str) -> Flow[Summary]:
        prompt = question("" if previous.is_empty else previous.text(), part)
        answered = accumulated(self._model.stream((self._task, Msg.user(prompt)), (), self._request))
        return answered.pipe(concat_map(lambda answer: just(self._read(answer))))

    def _read(self, answer: ResponseAccumulator) -> Summary:
        """The summary of an answer; `CompactionError` if there is none in it."""
        self._context.spend(answer.model or self._model.model_name, answer.usage or ChatUsage())
        text = Msg.assistant(answer.blocks(complete=True)).text
        if answer.finish_reason is FinishReason.LENGTH:
            raise self._failure("the model's answer was cut off at its length")
        if answer.finish_reason is FinishReason.CONTENT_FILTER:
            raise self._failure("the provider withheld the answer")
        if not text.strip():
            raise self._failure("the model gave no text")
        summary = Summary.of(fields_of_answer(text))
        if not (summary.state or summary.goal):
            raise self._failure(
                f"the answer has no goal and no state under the names that were asked for: {text!r:.200}"
            )
        return summary

    def _failure(self, reason: str) -> CompactionError:
        return CompactionError(self._options.name, reason)

    def _size(self, text: str) -> int:
        return self._context.measure(Msg.user(text))
