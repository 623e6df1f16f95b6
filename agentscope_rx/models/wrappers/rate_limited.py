"""`RateLimitedModel`: limits concurrent requests, requests per minute and tokens per minute."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from agentscope_rx.errors import ConfigurationError, RateLimitError
from agentscope_rx.messages.msg import Msg
from agentscope_rx.models.chat_model import ChatModel
from agentscope_rx.models.checks import check_count
from agentscope_rx.models.logs import log_wait
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

MAX_COOLDOWN = 3600.0
"""The longest effect in seconds of a `Retry-After` if `max_retry_after` is None."""


class RateLimitedStatistics(NamedTuple):
    """The numbers of attempts in progress and waiting; the tokens of the last minute, None if those are not limited."""

    in_flight: int
    waiting: int
    tokens: float | None


class RateLimitedModel(AttemptWrapper):
    """Each attempt to ask `model` waits until all limits have room for it.

        RateLimitedModel(model, max_concurrency=8, rate=Rate(500, per=60), tokens_per_minute=200_000)
        RateLimitedModel(model)                      follows the rate limit headers of the provider's answers

        a   [=====]|
        b   w......r[==]|        w: it waits; r: it is admitted; both are chunks, emitted only if it must wait

    | limit | counts | is restored |
    |---|---|---|
    | `max_concurrency` | attempts in progress | when the answer has ended |
    | `rate` | attempts begun | `per` seconds later |
    | `tokens_per_minute` | the estimate of an attempt, then its reported usage | a minute after it began |
    | a `Retry-After` | all attempts, after the provider refused one | when that time has passed |
    | `headers` | the rest that the last answer reports, less later attempts | at the reset, or evenly until then |

    One object is one limit for all its users: runs, agents, threads and event loops, first come, first served. The wait
    uses up `total_timeout` only. A `Retry-After` or a reset beyond `max_retry_after` (`ExecutionConfig`, default a
    minute) is cut to that time; then the next attempt is sent, and the provider may refuse it again.

    `counter` counts the input tokens of an attempt (default: an estimate by the costs of the model's vendor);
    `max_tokens` of the answer is added. If an attempt reports no usage, the estimate stands. An attempt that costs more
    than a whole limit is sent alone. The time spent waiting is reported in a chunk with `wait`, in
    `PostReasoningEvent.queued`, and in `model_waiting` of `run.stats()`.

    Headers: a burst does not use outdated figures, because attempts that began after the answered request are
    subtracted. After a reset at most the limit begins until an answer reports again (a minute at most). Unreadable
    headers never fail a call. `headers=False` ignores them. They are used for a single model only: in a
    `FallbackModel`, wrap each model in its own `RateLimitedModel`. A `ChatModel` of your own takes part with
    `ChatResponse(rates=read_rates(headers, loop.time()))` of `agentscope_rx.models.rates`.
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
        self._provider_limits = ProviderLimits() if headers and len(self.model.model_names) == 1 else None
        if max_concurrency is None and rate is None and tokens_per_minute is None and self._provider_limits is None:
            raise ConfigurationError(
                "RateLimitedModel needs a limit: max_concurrency=, rate=Rate(500, per=60) or tokens_per_minute=. "
                "Around a single model headers=True is enough."
            )
        if max_concurrency is not None:
            check_count("max_concurrency", max_concurrency)
        if rate is not None and not isinstance(rate, Rate):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigurationError(f"rate must be Rate(n, per=seconds), not {rate!r:.60}.")
        if counter is not None and not isinstance(counter, TokenCounter):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigurationError(f"counter must be a TokenCounter, such as EstimatedTokens(), not {counter!r:.60}.")
        self._semaphore = Semaphore(sys.maxsize if max_concurrency is None else max_concurrency)
        self._budget = None if tokens_per_minute is None else TokenBudget(tokens_per_minute, 60.0)
        self._cooldown = Cooldown()
        self.counter: TokenCounter | EstimatedTokens = counter or EstimatedTokens(COSTS_OF.get(self.provider))
        limiters: list[Limiter] = [self._semaphore, self._cooldown]
        if rate is not None:
            limiters.append(rate.limiter())
        if self._budget is not None:
            limiters.append(self._budget)
        if self._provider_limits is not None:
            limiters.append(self._provider_limits)
        self._limiters = limiters

    def around(
        self, messages: Sequence[Msg], tools: Sequence[ToolSchema], options: GenerateOptions
    ) -> Operator[ChatResponse, ChatResponse]:
        """Sends the attempt when all limits have room for it.

        Signals: those of the attempt; if it must wait, a chunk with `wait` before the wait and one after it.
        Cancels: the wait or the attempt; its room is free again when its clean-up is done.
        """
        given = (options.execution_config or ExecutionConfig()).over(self.execution_config).over(MODEL_DEFAULTS)
        longest = MAX_COOLDOWN if given.longest_retry_after is None else given.longest_retry_after

        def begin(attempt: Flow[ChatResponse]) -> Flow[ChatResponse]:
            refused = catch(partial(self._refused, longest=longest))
            if self._budget is None and self._provider_limits is None:
                return self._admitted(attempt.pipe(refused), None)
            answer_tokens = options.max_completion_tokens or options.max_tokens or 0
            cost = RequestCost(self.counter.count(messages, tools), answer_tokens)
            meter = _Meter(self._budget, self._provider_limits, cost, longest)
            return self._admitted(attempt.pipe(flat_map_iterable(meter.take, meter.end), refused), cost)

        return lambda attempt: defer(lambda: begin(flow(attempt)))

    def rates(self) -> Mapping[str, RemainingLimit]:
        """The provider's remaining limits by their names in the headers (`requests`, `tokens`, `input-tokens`, ...).

            {"requests": RemainingLimit(left=12, limit=60, whole_in=48.0), ...}

        These are the numbers of the last answer, less the attempts begun since; empty before the first answer. Call it
        in a running event loop.
        """
        return {} if self._provider_limits is None else self._provider_limits.left(asyncio.get_running_loop())

    def statistics(self) -> RateLimitedStatistics:
        """The current numbers. Call it in a running event loop, whose clock measures the minute."""
        counts = self._semaphore.statistics()
        tokens = None if self._budget is None else self._budget.spent(asyncio.get_running_loop())
        return RateLimitedStatistics(counts.held, counts.waiting, tokens)

    def _admitted(self, attempt: Flow[ChatResponse], tokens: Tokens | None) -> Flow[ChatResponse]:
        waited: list[bool] = []

        def waiting() -> ChatResponse:
            waited.append(True)
            log_wait(self.model_name, None)
            return ChatResponse(wait=WaitNotice())

        def use(seconds: float) -> Flow[ChatResponse]:
            if not waited:
                return attempt
            log_wait(self.model_name, seconds)
            return concat(just(ChatResponse(wait=WaitNotice(seconds))), attempt)

        return admitted(self._limiters, use, tokens=tokens, waiting=waiting)

    def _refused(self, error: Exception, longest: float) -> Flow[ChatResponse]:
        delay = asked_wait(error) if isinstance(error, RateLimitError) else None
        if delay:
            # one refusal must not stop all runs: after `longest` the next attempt learns the current state
            self._cooldown.begin(min(delay, longest), asyncio.get_running_loop())
        return throw(error)


class _Meter:
    """Reads the limits and the usage that an attempt reports; the usage corrects the budget at the end."""

    def __init__(
        self, budget: TokenBudget | None, provider_limits: ProviderLimits | None, cost: RequestCost, longest: float
    ) -> None:
        self._budget = budget
        self._provider_limits = provider_limits
        self._cost = cost
        self._longest = longest
        self._tokens: int | None = None

    def take(self, chunk: ChatResponse) -> Iterable[ChatResponse]:
        if chunk.rates is not None and self._provider_limits is not None:
            self._provider_limits.update(self._cost, chunk.rates, self._longest, asyncio.get_running_loop())
        if chunk.usage is not None:
            self._tokens = chunk.usage.total_tokens
        return (chunk,)

    def end(self) -> Iterable[ChatResponse]:
        if self._tokens is not None and self._budget is not None:
            self._budget.correct(self._cost, self._tokens, asyncio.get_running_loop())
        return ()
