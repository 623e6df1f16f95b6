"""`RateLimitedModel`: at most so many requests at once, so many a minute, so many tokens a minute.

    RateLimitedModel(model, max_concurrency=8, rate=Rate(500, per=60), tokens_per_minute=200_000)
    RateLimitedModel(model)                      what the provider itself tells in the headers of its answers

    a   [=====]|
    b   w......r[==]|        w: it waits; r: it is let through; a request that need not wait says neither

| limit               | counts                                                      | is given back                    |
|---------------------|-------------------------------------------------------------|----------------------------------|
| `max_concurrency`   | attempts whose answer has not ended                         | when it has ended or was closed  |
| `rate`              | attempts begun                                              | `per` seconds later              |
| `tokens_per_minute` | what an attempt is estimated at, then the usage it tells    | a minute after it began          |
| a `Retry-After`     | of an attempt that the provider has refused: nobody asks    | when that time has passed        |
| `headers`           | what the rate headers of the last answer say is left, less  | at the reset that they tell, or  |
|                     | what has begun since                                        | evenly until then: see `rates()` |

A `Retry-After` or a reset of more than `max_retry_after` (`ExecutionConfig`, a minute unless given) from now holds all
for that long, and then they ask again.
One object is one limit, for all runs, threads and event loops; attempts go first come, first served.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from agentscope_rx.errors import ConfigurationError, RateLimitError
from agentscope_rx.messages.msg import Msg
from agentscope_rx.models.chat_model import ChatModel
from agentscope_rx.models.options import MODEL_DEFAULTS, ExecutionConfig, GenerateOptions, ToolSchema
from agentscope_rx.models.response import ChatResponse, WaitNotice
from agentscope_rx.models.retryable import asked_wait
from agentscope_rx.models.tokens import COSTS_OF, EstimatedTokens, TokenCounter
from agentscope_rx.models.wrappers.base import AttemptWrapper
from agentscope_rx.models.wrappers.provider_limits import ProviderLimits, RemainingLimit, RequestCost
from agentscope_rx.reactive import (
    Flow,
    Rate,
    Semaphore,
    admitted,
    catch,
    concat,
    defer,
    flat_map_iterable,
    flow,
    just,
    throw,
)
from agentscope_rx.reactive.budget import Cooldown, TokenBudget
from agentscope_rx.reactive.kernel.flow import Operator
from agentscope_rx.reactive.limiter import Limiter, Tokens

LONGEST_PAUSE = 3600.0
"""Seconds that a `Retry-After` keeps others waiting where `max_retry_after` is None."""


class RateLimitedStatistics(NamedTuple):
    """How many attempts are under way and how many wait; the tokens of the last minute, if those are limited."""

    in_flight: int
    waiting: int
    tokens: float | None


class RateLimitedModel(AttemptWrapper):
    """Each attempt to ask `model` waits for its turn; the table above says what for.

    `counter` counts the tokens of a question, an estimate by the costs of the model's vendor unless given; what the
    answer may take (`max_tokens`) comes on top. An attempt that tells no usage has cost what was counted, and one of
    more than all goes alone. What it waited is a chunk with `wait`, `PostReasoningEvent.queued`, and `model_waiting` of
    `run.stats()`.

    `headers=False` leaves the rate headers of answers alone. They are heard of one model only: what one of those behind
    a `FallbackModel` has left says nothing of the others. Put each of these into a `RateLimitedModel` of its own.
    """

    def __init__(
        self,
        model: ChatModel | str,
        *,
        max_concurrency: int | None = None,
        rate: Rate | None = None,
        tokens_per_minute: float | None = None,
        counter: TokenCounter | None = None,
        headers: bool = True,
    ) -> None:
        super().__init__(model)
        if type(headers) is not bool:
            raise ConfigurationError(f"headers must be True or False, not {headers!r:.60}.")
        self._told = ProviderLimits() if headers and len(self.model.model_names) == 1 else None
        if max_concurrency is None and rate is None and tokens_per_minute is None and self._told is None:
            raise ConfigurationError(
                "RateLimitedModel needs a limit: max_concurrency=, rate=Rate(500, per=60) or tokens_per_minute=. "
                "Around a single model headers=True is enough."
            )
        if max_concurrency is not None and (type(max_concurrency) is not int or max_concurrency < 1):
            raise ConfigurationError(
                f"max_concurrency must be a whole number of at least 1, not {max_concurrency!r:.60}."
            )
        if rate is not None and not isinstance(rate, Rate):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigurationError(f"rate must be Rate(n, per=seconds), not {rate!r:.60}.")
        if counter is not None and not isinstance(counter, TokenCounter):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigurationError(f"counter must be a TokenCounter, such as EstimatedTokens(), not {counter!r:.60}.")
        self._permits = Semaphore(sys.maxsize if max_concurrency is None else max_concurrency)
        self._budget = None if tokens_per_minute is None else TokenBudget(tokens_per_minute, 60.0)
        self._pause = Cooldown()
        self.counter = counter or EstimatedTokens(COSTS_OF.get(self.provider))
        gates: list[Limiter] = [self._permits, self._pause]
        if rate is not None:
            gates.append(rate.limiter())
        if self._budget is not None:
            gates.append(self._budget)
        if self._told is not None:
            gates.append(self._told)
        self._gates = gates

    def around(
        self, messages: Sequence[Msg], tools: Sequence[ToolSchema], options: GenerateOptions
    ) -> Operator[ChatResponse, ChatResponse]:
        """Waits for the turn, then asks.

        Signals: those of the attempt; a chunk with `wait` before and one behind the wait, if there is one.
        Cancels: the wait or the attempt; its place is free when its clean-up has run.
        """
        given = (options.execution_config or ExecutionConfig()).over(self.execution_config).over(MODEL_DEFAULTS)
        longest = LONGEST_PAUSE if given.longest_retry_after is None else given.longest_retry_after

        def begin(attempt: Flow[ChatResponse]) -> Flow[ChatResponse]:
            refused = catch(partial(self._refused, longest=longest))
            if self._budget is None and self._told is None:
                return _admitted(self._gates, attempt.pipe(refused), None)
            written = options.max_completion_tokens or options.max_tokens or 0
            asked = RequestCost(self.counter.count(messages, tools), written)
            account = _Account(self._budget, self._told, asked, longest)
            return _admitted(self._gates, attempt.pipe(flat_map_iterable(account.take, account.end), refused), asked)

        return lambda attempt: defer(lambda: begin(flow(attempt)))

    def rates(self) -> Mapping[str, RemainingLimit]:
        """What the provider's headers have told last, less what has begun since, by the names that they give the limits
        (`requests`, `tokens`, `input-tokens`, ...); on any loop, as `statistics`. Empty before the first answer."""
        return {} if self._told is None else self._told.left(asyncio.get_running_loop())

    def statistics(self) -> RateLimitedStatistics:
        """The numbers of this moment; on any loop (its clock says what a minute is)."""
        held = self._permits.statistics()
        tokens = None if self._budget is None else self._budget.spent(asyncio.get_running_loop())
        return RateLimitedStatistics(held.held, held.waiting, tokens)

    def _refused(self, error: Exception, longest: float) -> Flow[ChatResponse]:
        asked = asked_wait(error) if isinstance(error, RateLimitError) else None
        if asked:
            # one refusal must not park all runs: after so long somebody asks again, and is told again
            self._pause.begin(min(asked, longest), asyncio.get_running_loop())
        return throw(error)


class _Account:
    """What an attempt says of limits, and of its usage; it has cost that once it is over."""

    def __init__(
        self, budget: TokenBudget | None, told: ProviderLimits | None, asked: RequestCost, longest: float
    ) -> None:
        self._budget = budget
        self._told = told
        self._asked = asked
        self._longest = longest
        self._tokens: int | None = None

    def take(self, chunk: ChatResponse) -> Iterable[ChatResponse]:
        if chunk.rates is not None and self._told is not None:
            self._told.hear(self._asked, chunk.rates, self._longest, asyncio.get_running_loop())
        if chunk.usage is not None:
            self._tokens = chunk.usage.total_tokens
        return (chunk,)

    def end(self) -> Iterable[ChatResponse]:
        if self._tokens is not None and self._budget is not None:
            self._budget.correct(self._asked, self._tokens, asyncio.get_running_loop())
        return ()


def _admitted(gates: Sequence[Limiter], attempt: Flow[ChatResponse], tokens: Tokens | None) -> Flow[ChatResponse]:
    waited: list[bool] = []

    def waiting() -> ChatResponse:
        waited.append(True)
        return ChatResponse(wait=WaitNotice())

    def use(seconds: float) -> Flow[ChatResponse]:
        return concat(just(ChatResponse(wait=WaitNotice(seconds))), attempt) if waited else attempt

    return admitted(gates, use, tokens=tokens, waiting=waiting)
