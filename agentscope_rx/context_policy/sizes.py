"""`Sizes`: the tokens of one model request, by a counter, corrected by what the provider has counted.

request  =  fixed (system message, tools, output schema, what hooks add)  +  messages
tokens   =  factor * counted                 factor: of the latest request that the provider has counted
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Sequence
from math import ceil, inf
from typing import Final

from agentscope_rx.context_policy.strategy import Measure
from agentscope_rx.errors import ModelError, ModelHTTPError, PromptTooLongError
from agentscope_rx.hooks.compaction import CompactionRequest
from agentscope_rx.memory.short_forms import sent_form
from agentscope_rx.messages import Msg
from agentscope_rx.models.chat_model import ChatModel
from agentscope_rx.models.tokens import COSTS_OF, EstimatedTokens, MessageCounts, TextCounter, TokenCounter
from agentscope_rx.models.wire.json_codec import encode_json

_LOWEST, _HIGHEST = 0.25, 4.0
"""A provider's count beyond these factors is of another request, such as one that a wrapper has cut."""


class Counters:
    """The counter of each provider: the given one for all, or an estimate by the provider's costs."""

    def __init__(self, given: TokenCounter | None) -> None:
        self._given = given
        self._known: dict[str, tuple[TokenCounter, Measure]] = {}

    def of(self, model: ChatModel) -> tuple[TokenCounter, Measure]:
        """The counter, and the tokens of one message as it is sent; the counts are kept."""
        key = "" if self._given else model.provider
        known = self._known.get(key)
        if known is None:
            counter = self._given or EstimatedTokens(COSTS_OF.get(model.provider))
            known = self._known[key] = (counter, _measure_of(counter))
        return known


def _measure_of(counter: TokenCounter) -> Measure:
    count: Callable[[Msg], int]
    if isinstance(counter, TextCounter):
        count = counter.message
    else:
        count = MessageCounts(lambda message: counter.count((message,)))

    def measure(message: Msg) -> int:
        return count(sent_form(message)) if message.metadata else count(message)

    return measure


class Sizes:
    """The sizes of one request. `factor` is the one of an earlier request, if this run has none counted yet."""

    __slots__ = ("counted", "counter", "factor", "fixed", "measure", "messages")

    def __init__(self, request: CompactionRequest, counters: Counters, factor: float = 1.0) -> None:
        counter, measure = counters.of(request.model)
        self.counter: TokenCounter = counter
        self.measure: Measure = measure
        self.fixed: int = _fixed(request, self.counter) + self.sum(request.added)
        self.messages: int = self.sum(request.messages)
        """The tokens of the messages, as the counter counts them."""
        self.factor: float = factor
        provided = self._provided(request)
        self.counted: bool = provided or not isinstance(self.counter, EstimatedTokens)
        """True if the provider or a tokenizer has counted."""

    @property
    def total(self) -> int:
        """The tokens of the request."""
        return self.of(self.messages)

    def of(self, messages: int) -> int:
        """The tokens of a request with messages of this size."""
        return ceil(self.factor * (self.fixed + messages))

    def within(self, total: float) -> int:
        """The size of the messages of a request with so many tokens."""
        return sys.maxsize if total == inf else int(total / self.factor) - self.fixed

    def sum(self, messages: Sequence[Msg]) -> int:
        """The tokens of these messages, as the counter counts them."""
        return sum(map(self.measure, messages))

    def correct(self, tokens: int, *, counted: bool) -> None:
        """The request has so many tokens: the provider has counted it, or has refused so many."""
        self.counted = self.counted or counted
        factor = tokens / max(1, self.fixed + self.messages)
        self.factor = min(_HIGHEST, max(_LOWEST, factor))

    def _provided(self, request: CompactionRequest) -> bool:
        if request.last is None:
            return False
        number, tokens = request.last
        if not 0 < number <= len(request.messages) or tokens <= 0:
            return False
        rest = 0 if number == len(request.messages) else self.sum(request.messages[number:])
        factor = tokens / max(1, self.fixed + self.messages - rest)
        if not _LOWEST <= factor <= _HIGHEST:
            return False
        self.factor = factor
        return True


def _fixed(request: CompactionRequest, counter: TokenCounter) -> int:
    system = () if request.system_message is None else (request.system_message,)
    fixed = counter.count(system, request.tools)
    options = (request.options or request.model.options).over(request.model.options)
    if options.response_format is not None:
        fixed += counter.count((Msg.system(encode_json(options.response_format)),))
    return fixed


_NUMBER = r"(\d[\d,_]*)"
_LIMITS: Final = (
    # OpenAI and servers like it; Anthropic; Gemini; Model Studio; llama.cpp
    rf"maximum (?:context|input|prompt|model) length(?: is| of|:) (?:only )?{_NUMBER}",
    rf"> {_NUMBER} maximum",
    rf"maximum number of tokens allowed \(?{_NUMBER}",
    rf"range of input length should be \[\d+, ?{_NUMBER}\]",
    rf"available context size \(?{_NUMBER}",
    rf"n_ctx\W+{_NUMBER}",
    rf"context window (?:size )?(?:is|of) {_NUMBER}",
    # Mistral; SGLang and LM Studio; Vertex AI; Moonshot; Cerebras, Copilot; SiliconFlow; TGI; a limit of a minute
    rf"{_NUMBER} maximum context length",
    rf"context length (?:is |of )?(?:only )?\(?{_NUMBER}",
    rf"only supports up to {_NUMBER}",
    rf"model token limit: {_NUMBER}",
    rf"limit (?:is|of) {_NUMBER}",
    rf"max_seq_len \(?{_NUMBER}",
    rf"`inputs` must have less than {_NUMBER}",
    rf"Limit {_NUMBER}, Requested",
)
_SENT: Final = (
    rf"(?:resulted in|requested) (?:about )?{_NUMBER} tokens",
    rf"prompt is too long: {_NUMBER}",
    rf"input token count (?:is )?\(?{_NUMBER}",
    rf"request \({_NUMBER} tokens\)",
    rf"n_prompt_tokens\W+{_NUMBER}",
    # Mistral; vLLM, SGLang; xAI; Cerebras; Copilot; SiliconFlow; Moonshot
    rf"prompt contains {_NUMBER} tokens",
    rf"(?:passed|has) {_NUMBER} input tokens",
    rf"(?:prompt \(length |input \(){_NUMBER}",
    rf"the request contains {_NUMBER}",
    rf"current length is {_NUMBER}",
    rf"prompt token count of {_NUMBER}",
    rf"prompt_tokens \({_NUMBER}",
    rf"\(requested: {_NUMBER}\)",
)
_MOST, _SENDS, _ANSWER = rf"(?P<most>{_NUMBER})", rf"(?P<sent>{_NUMBER})", rf"(?P<answer>{_NUMBER})"
_WINDOWS: Final = (
    # OpenAI and servers like it; OpenRouter; SGLang; Anthropic; vLLM; Text Generation Inference
    rf"length (?:is|of) {_MOST}.*?\({_SENDS} in (?:the|your) (?:messages|prompt)[^()]*?{_ANSWER} (?:in|for) the comp",
    rf"length is {_MOST}.*?\({_SENDS} of text input[^()]*?{_ANSWER} in the output",
    rf"length of {_MOST}.*?: {_SENDS} tokens from the input messages and {_ANSWER} tokens for the completion",
    rf"context limit: {_SENDS} \+ {_ANSWER} > {_MOST}",
    rf"length is {_MOST}.*?\({_ANSWER} > \d+ - {_SENDS}\)",
    rf"must be <= {_MOST}\. Given: {_SENDS} `inputs` tokens and {_ANSWER}",
)
"""Refusals whose limit is that of the request and the answer together."""


def refused(error: ModelError | None) -> tuple[int | None, int | None]:
    """The limit that the refusal of a provider names, and the tokens of the refused request; None for neither."""
    if isinstance(error, PromptTooLongError):
        # its tokens are those of the least request
        return error.max_tokens, None
    if error is None:
        return None, None
    text = f"{error} {(error.body or '') if isinstance(error, ModelHTTPError) else ''}"
    for pattern in _WINDOWS:
        if found := re.search(pattern, text, re.IGNORECASE | re.DOTALL):
            left = _number(found["most"]) - _number(found["answer"])
            # (an answer as long as the window leaves no room for any request)
            return left if left > 0 else None, _number(found["sent"])
    return _first(_LIMITS, text), _first(_SENT, text)


def _first(patterns: Sequence[str], text: str) -> int | None:
    for pattern in patterns:
        if found := re.search(pattern, text, re.IGNORECASE):
            return _number(found[1]) or None
    return None


def _number(text: str) -> int:
    return int(text.replace(",", "").replace("_", ""))
