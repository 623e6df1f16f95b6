"""`TruncatingModel`: what a model is sent never counts more than it may; the oldest messages are left out first.

    system messages | notice | last user message, if it is older | the newest messages

Always sent are the system messages at the beginning, the last user message and what came last; a call goes with its
results. Memory is not touched, and what is sent is a function of the messages alone: the same after a restart.

Messages are left out in steps, for the sake of prompt caches: of all the places where the conversation may be cut so
that between `keep` and all of the limit is used, it is cut at the one that stays the longest. That is the roundest
number between the first and the last of them (the one with the most zeros in binary): as the conversation grows, the
window moves on, and the number is the same until the window has passed it.

It looks at no more messages than it sends, and each is counted once in its life: the ten-thousandth turn costs what the
first one does.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import NamedTuple

from agentscope_rx.errors import ConfigurationError, PromptTooLongError
from agentscope_rx.messages import Msg, MsgRole
from agentscope_rx.models.chat_model import ChatModel
from agentscope_rx.models.options import GenerateOptions, ToolSchema
from agentscope_rx.models.tokens import COSTS_OF, EstimatedTokens, MessageCounts, TextCounter, TokenCounter
from agentscope_rx.models.wire.json_codec import encode_json
from agentscope_rx.models.wire.speaker_names import AS_IT_IS
from agentscope_rx.models.wrappers.prompt_transform import PromptTransformModel

NOTICE = "(The conversation is long: {count} earlier messages are left out here.)"
_CONVERSATIONS = 256


class TruncatingModel(PromptTransformModel):
    """A model that is sent at most `max_tokens` of input: messages, tools and the schema of an output together.

    Unless given, that is nine tenths of what the longest answer leaves of the model's context window, where known.
    `counter` counts, an estimate by the costs of the model's vendor unless given. Where something must be left out, at
    least `keep` of the limit stays in use as far as messages allow. `notice` tells the model what is left out, with
    `{count}`; None tells it nothing.
    """

    def __init__(
        self,
        model: ChatModel,
        max_tokens: int | None = None,
        *,
        counter: TokenCounter | None = None,
        keep: float = 0.7,
        notice: str | None = NOTICE,
    ) -> None:
        super().__init__(model)
        max_tokens = _known_limit(model) if max_tokens is None else max_tokens
        if type(max_tokens) is not int or max_tokens < 1:
            raise ConfigurationError(
                f"max_tokens is what a request may count: a whole number >= 1, not {max_tokens!r}."
            )
        if not 0 <= keep < 1:
            raise ConfigurationError(f"keep is the part of max_tokens that stays in use: 0 <= keep < 1, not {keep!r}.")
        self.max_tokens = max_tokens
        self.counter = counter or EstimatedTokens(COSTS_OF.get(model.provider))
        self.keep = keep
        self.notice = notice
        self._measure = _measure_of(self.counter)
        self._users = _LastUsers()

    def rewrite(self, messages: Sequence[Msg], tools: Sequence[ToolSchema], options: GenerateOptions) -> Sequence[Msg]:
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
    """The messages, or as many of them as count at most `max_tokens`; `PromptTooLongError` if that would be too few."""
    fixed = counter.count(())
    try:
        return _cut(messages, _Rule(max_tokens - fixed, _measure_of(counter), keep, notice), last_user)
    except _TooLongError as error:
        raise PromptTooLongError(tokens=fixed + error.tokens, max_tokens=max_tokens) from None


def _known_limit(model: ChatModel) -> int:
    known = model.capabilities
    if known is None or known.context_window is None:
        raise ConfigurationError(
            f"How much fits into {model!r} is not known: say it, TruncatingModel(model, max_tokens=...)."
        )
    window, options = known.context_window, model.options
    answer = options.max_completion_tokens or options.max_tokens or known.max_output or 0
    # an estimate may be too small by as much
    return int(0.9 * max(window - answer, window // 2))


def _measure_of(counter: TokenCounter) -> Callable[[Msg], int]:
    if isinstance(counter, TextCounter):
        return counter.message
    return MessageCounts(lambda message: counter.count((message,)))


class _TooLongError(Exception):
    """The least that can be sent of the messages counts `tokens`."""

    def __init__(self, tokens: int) -> None:
        super().__init__(tokens)
        self.tokens = tokens


class _Rule(NamedTuple):
    """What the messages may count together, how one of them is counted, and what is to be done if they are too many."""

    limit: int
    measure: Callable[[Msg], int]
    keep: float
    notice: str | None


class _Cut(NamedTuple):
    """A place where the conversation may be cut, and what counts all from there on."""

    at: int
    tokens: int


def _cut(messages: Sequence[Msg], rule: _Rule, find_user: Callable[[Sequence[Msg], int], int | None]) -> Sequence[Msg]:
    """What is to be sent of the messages: they themselves, if all fit."""
    head = _head(messages)
    system = sum(rule.measure(messages[index]) for index in range(head))
    left = rule.limit - system
    cuts, whole = _cuts(messages, head, left, rule.measure)
    if whole:
        return messages
    user = find_user(messages, head)
    # what is sent beside the newest messages
    again = 0 if user is None else rule.measure(messages[user])
    told = 0 if rule.notice is None else rule.measure(_notice(rule.notice, len(messages), messages))
    totals = [_Cut(at, told + tokens + (again if user is not None and at > user else 0)) for at, tokens in cuts]
    fitting = [cut for cut in totals if cut.tokens <= left]
    if not fitting:
        raise _TooLongError(system + (totals[0].tokens if totals else told + again))
    return _sent(messages, head, user, _steady(fitting, rule.keep * left), rule.notice)


def _head(messages: Sequence[Msg]) -> int:
    """How many system messages it begins with."""
    return next((i for i, message in enumerate(messages) if message.role is not MsgRole.SYSTEM), len(messages))


def _cuts(messages: Sequence[Msg], head: int, left: int, measure: Callable[[Msg], int]) -> tuple[list[_Cut], bool]:
    """Where it may be cut so that no result loses its call, from the newest on; and whether it need not be cut.

    It looks no further back than what fits, but for the first place to cut, which may be too far.
    """
    cuts: list[_Cut] = []
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
            cuts.append(_Cut(at, tokens))
    return cuts, tokens <= left


def _steady(fitting: Sequence[_Cut], low: float) -> int:
    """Of the cuts that fit, from the newest on, one that leaves `low` in use and holds as long as may be."""
    places = [cut.at for cut in fitting]
    last = next((cut.at for cut in reversed(fitting) if cut.tokens <= low), places[0])
    window = [at for at in reversed(places) if at <= last]
    # the place itself, or the next behind it where one may cut
    return window[bisect_left(window, _roundest(window[0], last))]


def _sent(messages: Sequence[Msg], head: int, user: int | None, at: int, notice: str | None) -> list[Msg]:
    kept = [messages[user]] if user is not None and user < at else []
    system = [messages[index] for index in range(head)]
    rest = [messages[index] for index in range(at, len(messages))]
    left_out = at - head - len(kept)
    told = [] if notice is None or left_out == 0 else [_notice(notice, left_out, messages)]
    return [*system, *told, *kept, *rest]


def _notice(text: str, count: int, messages: Sequence[Msg]) -> Msg:
    # made twice, it is the same: what is sent is a function of the messages alone
    told = text.replace("{count}", str(count))
    moment = messages[0].timestamp
    return Msg("user", told, id=f"left-out-{count}", timestamp=moment, metadata={AS_IT_IS: True})


def last_user(messages: Sequence[Msg], head: int) -> int | None:
    """Where the last user message is, after the first `head`; None if there is none."""
    return next((i for i in range(len(messages) - 1, head - 1, -1) if _is_users(messages[i])), None)


def _is_users(message: Msg) -> bool:
    return message.role is MsgRole.USER and not message.metadata.get(AS_IT_IS)


def _roundest(low: int, high: int) -> int:
    """The number from `low` to `high` with the most zeros at its end."""
    while high & (high - 1) >= low and high:
        high &= high - 1
    return high


class _LastUsers:
    """`last_user` for conversations that grow: where a long run has gone on, only what is new is looked through."""

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
