"""`RateLimitedModel`: at most so many requests at once, so many a minute, so many tokens a minute.

    RateLimitedModel(model, max_concurrency=8, rate=Rate(500, per=60), tokens_per_minute=200_000)

    a   [=====]|
    b   w......r[==]|        w: it waits; r: it is let through; a request that need not wait says neither

| limit               | counts                                                      | is given back                    |
|---------------------|-------------------------------------------------------------|----------------------------------|
| `max_concurrency`   | attempts whose answer has not ended                         | when it has ended or was closed  |
| `rate`              | attempts begun                                              | `per` seconds later              |
| `tokens_per_minute` | what an attempt is estimated at, then the usage it tells    | a minute after it began          |
| a `Retry-After`     | of an attempt that the provider has refused: nobody asks    | when that time has passed        |

A `Retry-After` of more than `max_retry_after` (`ExecutionConfig`, a minute unless given) holds all for that long.
One object is one limit, for all runs, threads and event loops; attempts go first come, first served.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterable, Sequence
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
from agentscope_rx.reactive import (
    Flow,
    Permits,
    Rate,
    admitted,
    catch,
    concat,
    defer,
    flat_map_iterable,
    flow,
    just,
    throw,
)
from agentscope_rx.reactive.budget import Budget, Pause
from agentscope_rx.reactive.kernel.flow import Operator
from agentscope_rx.reactive.limiter import Charge, Gate

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
    """

    def __init__(
        self,
        model: ChatModel | str,
        *,
        max_concurrency: int | None = None,
        rate: Rate | None = None,
        tokens_per_minute: float | None = None,
        counter: TokenCounter | None = None,
    ) -> None:
        super().__init__(model)
        if max_concurrency is None and rate is None and tokens_per_minute is None:
            raise ConfigurationError(
                "RateLimitedModel needs a limit: max_concurrency=, rate=Rate(500, per=60) or tokens_per_minute=."
            )
        if max_concurrency is not None and (type(max_concurrency) is not int or max_concurrency < 1):
            raise ConfigurationError(
                f"max_concurrency must be a whole number of at least 1, not {max_concurrency!r:.60}."
            )
        if rate is not None and not isinstance(rate, Rate):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigurationError(f"rate must be Rate(n, per=seconds), not {rate!r:.60}.")
        if counter is not None and not isinstance(counter, TokenCounter):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigurationError(f"counter must be a TokenCounter, such as EstimatedTokens(), not {counter!r:.60}.")
        self._permits = Permits(sys.maxsize if max_concurrency is None else max_concurrency)
        self._budget = None if tokens_per_minute is None else Budget(tokens_per_minute, 60.0)
        self._pause = Pause()
        self.counter = counter or EstimatedTokens(COSTS_OF.get(self.provider))
        gates: list[Gate] = [self._permits, self._pause]
        if rate is not None:
            gates.append(rate.gate())
        if self._budget is not None:
            gates.append(self._budget)
        self._gates = gates

    def around(
        self, messages: Sequence[Msg], tools: Sequence[ToolSchema], options: GenerateOptions
    ) -> Operator[ChatResponse, ChatResponse]:
        """Waits for the turn, then asks.

        Signals: those of the attempt; a chunk with `wait` before and one behind the wait, if there is one.
        Cancels: the wait or the attempt; its place is free when its clean-up has run.
        """
        budget = self._budget
        given = (options.execution_config or ExecutionConfig()).over(self.execution_config).over(MODEL_DEFAULTS)
        refused = partial(self._refused, longest=given.longest_retry_after)

        def begin(attempt: Flow[ChatResponse]) -> Flow[ChatResponse]:
            if budget is None:
                return _admitted(self._gates, attempt.pipe(catch(refused)), None)
            written = options.max_completion_tokens or options.max_tokens or 0
            charge = Charge(self.counter.count(messages, tools) + written)
            account = _Account(budget, charge)
            counted = attempt.pipe(flat_map_iterable(account.take, account.end))
            return _admitted(self._gates, counted.pipe(catch(refused)), charge)

        return lambda attempt: defer(lambda: begin(flow(attempt)))

    def statistics(self) -> RateLimitedStatistics:
        """The numbers of this moment; on any loop (its clock says what a minute is)."""
        held = self._permits.statistics()
        tokens = None if self._budget is None else self._budget.spent(asyncio.get_running_loop())
        return RateLimitedStatistics(held.held, held.waiting, tokens)

    def _refused(self, error: Exception, longest: float | None) -> Flow[ChatResponse]:
        asked = asked_wait(error) if isinstance(error, RateLimitError) else None
        if asked:
            # one refusal must not park all runs: after so long somebody asks again, and is told again
            asked = min(asked, LONGEST_PAUSE if longest is None else longest)
            self._pause.begin(asked, asyncio.get_running_loop())
        return throw(error)


class _Account:
    """What an attempt says of its usage; it has cost that once it is over."""

    def __init__(self, budget: Budget, charge: Charge) -> None:
        self._budget = budget
        self._charge = charge
        self._tokens: int | None = None

    def take(self, chunk: ChatResponse) -> Iterable[ChatResponse]:
        if chunk.usage is not None:
            self._tokens = chunk.usage.total_tokens
        return (chunk,)

    def end(self) -> Iterable[ChatResponse]:
        if self._tokens is not None:
            self._budget.correct(self._charge, self._tokens, asyncio.get_running_loop())
        return ()


def _admitted(gates: Sequence[Gate], attempt: Flow[ChatResponse], charge: Charge | None) -> Flow[ChatResponse]:
    waited: list[bool] = []

    def waiting() -> ChatResponse:
        waited.append(True)
        return ChatResponse(wait=WaitNotice())

    def use(seconds: float) -> Flow[ChatResponse]:
        return concat(just(ChatResponse(wait=WaitNotice(seconds))), attempt) if waited else attempt

    return admitted(gates, use, charge=charge, waiting=waiting)
