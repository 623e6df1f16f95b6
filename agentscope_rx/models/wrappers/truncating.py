"""`TruncatingModel`: keeps the input of a model within a token limit by leaving out the oldest messages."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, cast

from agentscope_rx.errors import ConfigurationError, PromptTooLongError
from agentscope_rx.messages import Msg, MsgRole
from agentscope_rx.models.chat_model import ChatModel
from agentscope_rx.models.options import GenerateOptions, ToolSchema
from agentscope_rx.models.tokens import COSTS_OF, EstimatedTokens, MessageCounts, TextCounter, TokenCounter
from agentscope_rx.models.tokens.cuts import Cut, steady
from agentscope_rx.models.wire.json_codec import encode_json
from agentscope_rx.models.wire.speaker_names import AS_IT_IS, PINNED
from agentscope_rx.models.wrappers.base import PromptTransformModel, WrapperModel
from agentscope_rx.models.wrappers.fallback import FallbackModel

NOTICE = "(The conversation is long: {count} earlier messages are left out here.)"
_CONVERSATIONS = 256


class TruncatingModel(PromptTransformModel):
    """Sends at most `max_tokens` of input to a model: messages, tools and the output schema together.

        system messages | notice | last user message, if it is older | the newest messages

    The system messages at the beginning, the last user message and the newest message are always sent; a call is kept
    with its results. If these do not fit, the call fails with `PromptTooLongError` before anything is sent, and hooks
    that compact are asked once more. Leave room for the answer yourself: the default limit is nine tenths of the
    model's context window less its longest answer, if these are known.

    `counter` counts the tokens (default: an estimate by the costs of the model's vendor). `notice` is the text in place
    of the messages left out, with their number as `{count}`; None for no text. Messages are left out in large steps,
    because prompt caches need an unchanged beginning: at least the fraction `keep` of the limit stays in use, as far as
    messages allow.

    Memory is unchanged. Compaction changes the memory, and goes first. The result depends on the messages alone, so it
    is the same after a restart. Only messages that are sent are examined, each once: the ten-thousandth turn costs as
    much as the first. With several speakers count first: `TruncatingModel(MultiAgentModel(model))`. The function
    `truncated(messages, max_tokens, counter)` of `agentscope_rx.models.wrappers.truncating` does the same for a list.
    """

    def __init__(
        self,
        model: ChatModel | str,
        max_tokens: int | None = None,
        *,
        counter: TokenCounter | None = None,
        keep: float = 0.7,
        notice: str | None = NOTICE,
    ) -> None:
        super().__init__(model)
        max_tokens = _known_limit(self.model) if max_tokens is None else max_tokens
        if type(max_tokens) is not int or max_tokens < 1:
            raise ConfigurationError(f"max_tokens must be a whole number >= 1, not {max_tokens!r}.")
        if not 0 <= keep < 1:
            raise ConfigurationError(f"keep is a fraction of max_tokens: 0 <= keep < 1, not {keep!r}.")
        self.max_tokens = max_tokens
        self.counter: TokenCounter | EstimatedTokens = counter or EstimatedTokens(COSTS_OF.get(self.model.provider))
        self.keep = keep
        self.notice = notice
        self._measure = _measure_of(self.counter)
        self._users = _LastUsers()

    def rewrite(self, messages: Sequence[Msg], tools: Sequence[ToolSchema], options: GenerateOptions) -> Sequence[Msg]:
        """The messages that fit, with the notice; `PromptTooLongError` if the least request does not fit."""
        fixed = self.counter.count((), tools)
        if options.response_format is not None:
            fixed += self.counter.count((Msg.system(encode_json(options.response_format)),))
        rule = _Rule(self.max_tokens - fixed, self._measure, self.keep, self.notice)
        try:
            return _cut(messages, rule, self._users.find)
        except _TooLongError as error:
            raise PromptTooLongError(
                tokens=fixed + error.tokens, max_tokens=self.max_tokens, model=self.model_name
            ) from None


def truncated(
    messages: Sequence[Msg], max_tokens: int, counter: TokenCounter, *, keep: float = 0.7, notice: str | None = NOTICE
) -> Sequence[Msg]:
    """The messages, or the newest that fit into `max_tokens`; `PromptTooLongError` if the required ones do not fit."""
    fixed = counter.count(())
    try:
        return _cut(messages, _Rule(max_tokens - fixed, _measure_of(counter), keep, notice), last_user)
    except _TooLongError as error:
        raise PromptTooLongError(tokens=fixed + error.tokens, max_tokens=max_tokens) from None


def _known_limit(model: ChatModel) -> int:
    known = _documented(model, model.options)
    if known is None:
        raise ConfigurationError(
            f"The context window of {model!r} is unknown: set the limit by TruncatingModel(model, max_tokens=...)."
        )
    return known


def _documented(model: ChatModel, options: GenerateOptions) -> int | None:
    known = model.capabilities
    windows = (None if known is None else known.context_window, _set_window(options))
    window = min((each for each in windows if each is not None), default=None)
    if window is None:
        return None
    longest = None if known is None else known.max_output
    answer = options.max_completion_tokens or options.max_tokens or longest or 0
    # one tenth is the margin for the error of an estimate
    return int(0.9 * max(window - answer, window // 2))


def _set_window(options: GenerateOptions) -> int | None:
    """The window that a request sets: Ollama's `num_ctx`, beyond which the server cuts a conversation in silence."""
    body = options.additional_body_params
    inner = body.get("options")
    size = cast("Mapping[str, object]", inner).get("num_ctx") if isinstance(inner, Mapping) else None
    size = body.get("num_ctx", size)
    return size if type(size) is int and size > 0 else None


def max_input(model: ChatModel, options: GenerateOptions | None = None) -> int | None:
    """The tokens of input that a request with these options may have; None if no limit is known.

    That is nine tenths of the model's context window (or the `num_ctx` of the options) less its longest answer, or the
    limit of a `TruncatingModel` around it, if it is lower: a shorter request is sent as it is. Of several models it is
    the lowest limit.
    """
    if isinstance(model, FallbackModel):
        limits = [max_input(each, options) for each in model.models]
        known = [each for each in limits if each is not None]
        return min(known) if len(known) == len(limits) else None
    if isinstance(model, WrapperModel):
        inner = max_input(model.model, options)
        if not isinstance(model, TruncatingModel):
            return inner
        return model.max_tokens if inner is None else min(inner, model.max_tokens)
    return _documented(model, (options or model.options).over(model.options))


def _measure_of(counter: TokenCounter) -> Callable[[Msg], int]:
    if isinstance(counter, TextCounter):
        return counter.message
    return MessageCounts(lambda message: counter.count((message,)))


class _TooLongError(Exception):
    """The required messages have `tokens`, which is too many."""

    def __init__(self, tokens: int) -> None:
        super().__init__(tokens)
        self.tokens = tokens


class _Rule(NamedTuple):
    """The limit for all messages, the count of one message, and the options of `TruncatingModel`."""

    limit: int
    measure: Callable[[Msg], int]
    keep: float
    notice: str | None


def _cut(messages: Sequence[Msg], rule: _Rule, find_user: Callable[[Sequence[Msg], int], int | None]) -> Sequence[Msg]:
    """The messages to send: the same sequence if all fit."""
    head = _head(messages)
    system = sum(rule.measure(messages[index]) for index in range(head))
    left = rule.limit - system
    cuts, whole = _cuts(messages, head, left, rule.measure)
    if whole:
        return messages
    user = find_user(messages, head)
    # the messages sent in addition to the newest
    user_tokens = 0 if user is None else rule.measure(messages[user])
    notice_tokens = 0 if rule.notice is None else rule.measure(_notice(rule.notice, len(messages), messages))
    totals = [
        Cut(at, notice_tokens + tokens + (user_tokens if user is not None and at > user else 0)) for at, tokens in cuts
    ]
    fitting = [cut for cut in totals if cut.tokens <= left]
    if not fitting:
        raise _TooLongError(system + (totals[0].tokens if totals else notice_tokens + user_tokens))
    return _sent(messages, head, user, steady(fitting, rule.keep * left), rule.notice)


def _head(messages: Sequence[Msg]) -> int:
    """The number of system and pinned messages at the beginning."""
    return next((i for i, message in enumerate(messages) if not _is_fixed(message)), len(messages))


def _is_fixed(message: Msg) -> bool:
    return message.role is MsgRole.SYSTEM or message.metadata.get(PINNED) is True


def _cuts(messages: Sequence[Msg], head: int, left: int, measure: Callable[[Msg], int]) -> tuple[list[Cut], bool]:
    """The cuts that separate no result from its call, newest first; and True if no cut is needed.

    It examines no more messages than fit, except to find the first cut, which may be too long.
    """
    cuts: list[Cut] = []
    tokens = 0
    waiting: set[str] = set()
    for at in range(len(messages) - 1, head - 1, -1):
        message = messages[at]
        tokens += measure(message)
        if tokens > left and cuts:
            return cuts, False
        waiting.update(result.id for result in message.tool_results)
        waiting.difference_update(call.id for call in message.tool_calls)
        if not waiting:
            cuts.append(Cut(at, tokens))
    return cuts, tokens <= left


def _sent(messages: Sequence[Msg], head: int, user: int | None, at: int, notice: str | None) -> list[Msg]:
    kept = [messages[user]] if user is not None and user < at else []
    system = [messages[index] for index in range(head)]
    rest = [messages[index] for index in range(at, len(messages))]
    left_out = at - head - len(kept)
    replaced = [] if notice is None or left_out == 0 else [_notice(notice, left_out, messages)]
    return [*system, *replaced, *kept, *rest]


def _notice(text: str, count: int, messages: Sequence[Msg]) -> Msg:
    # fixed id and time: the result is a function of the messages alone
    content = text.replace("{count}", str(count))
    moment = messages[0].timestamp
    return Msg("user", content, id=f"left-out-{count}", timestamp=moment, metadata={AS_IT_IS: True})


def last_user(messages: Sequence[Msg], head: int) -> int | None:
    """The index of the last user message after the first `head`; None if there is none."""
    return next((i for i in range(len(messages) - 1, head - 1, -1) if _is_users(messages[i])), None)


def _is_users(message: Msg) -> bool:
    return message.role is MsgRole.USER and not message.metadata.get(AS_IT_IS)


class _LastUsers:
    """`last_user` for growing conversations: only the messages added since the last call are examined."""

    __slots__ = ("_known",)

    def __init__(self) -> None:
        self._known: OrderedDict[str, tuple[int, Msg, int]] = OrderedDict()

    def find(self, messages: Sequence[Msg], head: int) -> int | None:
        length = len(messages)
        if head >= length:
            return None
        key = messages[head].id
        index, message, seen = self._known.get(key, (-1, None, head))
        if not (0 <= index < seen <= length and messages[index] is message):
            seen = head
        found = next((i for i in range(length - 1, seen - 1, -1) if _is_users(messages[i])), None)
        found = index if found is None and seen > head else found
        if found is not None:
            self._known[key] = (found, messages[found], length)
            self._known.move_to_end(key)
            while len(self._known) > _CONVERSATIONS:
                self._known.popitem(last=False)
        return found
