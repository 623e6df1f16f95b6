"""`Guardrail`: a check of what goes into a run, what comes out of it, or what passes between the model and its tools.

    @guardrail("input", parallel=True)
    async def on_topic(request): return Verdict.stop("off topic") if await is_off(request.text) else None

    class NoSundays(Guardrail):
        kinds = ("tool_call",)
        def check(self, request): ...

A check answers with a `Verdict`, None for "pass", or an awaitable or Observable of one.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Collection
from typing import Literal, Protocol, cast

from reactivex import abc

from agentscope_rx.errors import ConfigurationError
from agentscope_rx.guardrails.check_request import CheckRequest
from agentscope_rx.guardrails.verdict import KINDS, Kind, Verdict

Answer = Verdict | None | Awaitable[Verdict | None] | abc.ObservableBase[Verdict]
"""What a check may return."""

OnError = Literal["stop", "pass"]
TIMEOUT = 10.0
"""The seconds that a check has, unless it sets others."""


class Guardrail:
    """A check; a subclass sets `kinds` and writes `check`. `@guardrail` makes one of a function.

    - `kinds`: the content that it judges: `"input"`, `"output"`, `"tool_call"`, `"tool_result"`
    - `timeout`: its deadline in seconds (None: none)
    - `on_error`: a check that fails or is late counts as a stop (`"stop"`) or as a pass (`"pass"`)
    - `parallel`: input: it runs beside the model, whose answer is held back until the verdict
    - `whole`: output: it gets each block of text at once, which is held until then, without a bound
    - `reach`: output: the length of the longest thing that it looks for. So many characters stay held until more text
      follows
    - `tools`: calls and results: only of tools with these names

    With `reach=n`, a thing of `n` characters whose pieces come within `max_delay` is never cut in two.
    """

    kinds: tuple[Kind, ...] = ()
    timeout: float | None = TIMEOUT
    on_error: OnError = "stop"
    parallel: bool = False
    whole: bool = False
    reach: int = 0
    tools: frozenset[str] | None = None

    @property
    def name(self) -> str:
        """The name of the check in replies, findings and errors."""
        return type(self).__name__

    def check(self, request: CheckRequest) -> Answer:
        """The verdict on the content of the request. A check that blocks or computes for long must use a worker."""
        raise NotImplementedError

    @property
    def is_async(self) -> bool:
        """True if `check` is a coroutine function: it is not called before its turn."""
        return inspect.iscoroutinefunction(self.check)

    def judges(self, request: CheckRequest) -> bool:
        """True if the request is of a kind, and of a tool, that the check is for."""
        if request.kind not in self.kinds:
            return False
        part = request.call or request.result
        return self.tools is None or part is None or part.name in self.tools

    def __repr__(self) -> str:
        return f"<guardrail {self.name} on {' and '.join(self.kinds)}>"


class FunctionGuardrail(Guardrail):
    """One function as a check; made by `@guardrail`."""

    def __init__(self, function: Callable[[CheckRequest], Answer], name: str) -> None:
        self.function = function
        self._name = name
        self.__doc__ = function.__doc__

    @property
    def name(self) -> str:
        return self._name

    @property
    def is_async(self) -> bool:
        return inspect.iscoroutinefunction(self.function)

    def check(self, request: CheckRequest) -> Answer:
        return self.function(request)

    def __call__(self, request: CheckRequest) -> Answer:
        return self.function(request)


class GuardrailDecorator(Protocol):
    """The decorator that `guardrail(...)` returns."""

    def __call__(self, function: Callable[[CheckRequest], Answer], /) -> FunctionGuardrail: ...


def guardrail(
    *kinds: Kind,
    name: str | None = None,
    timeout: float | None = TIMEOUT,
    on_error: OnError = "stop",
    parallel: bool = False,
    whole: bool = False,
    reach: int = 0,
    tools: Collection[str] | None = None,
) -> GuardrailDecorator:
    """Make a function a check of these kinds: `"input"`, `"output"`, `"tool_call"`, `"tool_result"`.

        @guardrail("input", parallel=True)
        async def on_topic(request):
            return Verdict.stop("off topic") if await is_off(request.text) else None

    The options are those of `Guardrail`. The function returns a `Verdict`, None for "pass", or an awaitable or
    Observable of one. Plain functions that check calls are asked before approvals.
    """
    if not kinds or callable(kinds[0]):
        raise ConfigurationError("Name the kinds of the check, as in @guardrail('input') or @guardrail('tool_call').")

    def decorate(function: Callable[[CheckRequest], Answer]) -> FunctionGuardrail:
        made = FunctionGuardrail(function, name or getattr(function, "__name__", "guardrail"))
        made.kinds = kinds
        made.timeout = timeout
        made.on_error = on_error
        made.parallel = parallel
        made.whole = whole
        made.reach = reach
        if isinstance(tools, str):
            raise ConfigurationError(f"tools takes a list of names, such as [{tools!r}].")
        made.tools = None if tools is None else frozenset(tools)
        check_guardrail(made)
        return made

    return decorate


def check_guardrail(check: object) -> Guardrail:
    """The check; `ConfigurationError` for anything else, and for settings that cannot work."""
    if not isinstance(check, Guardrail):
        raise ConfigurationError(
            f"A check is an object of a Guardrail class, or a function with @guardrail('input'), not {check!r:.60}."
        )
    kinds = cast("tuple[object, ...]", check.kinds)
    if not kinds or not all(kind in KINDS for kind in kinds):
        raise ConfigurationError(f"{check.name}: kinds must be some of {', '.join(KINDS)}, not {kinds!r:.80}.")
    limit = cast("object", check.timeout)
    if limit is not None and (isinstance(limit, bool) or not isinstance(limit, (int, float)) or not limit > 0):
        raise ConfigurationError(f"{check.name}: timeout must be more than 0 seconds, or None, not {limit!r:.60}.")
    if check.on_error not in ("stop", "pass"):
        raise ConfigurationError(f"{check.name}: on_error must be 'stop' or 'pass', not {check.on_error!r:.60}.")
    if check.parallel and "input" not in kinds:
        raise ConfigurationError(f"{check.name}: parallel=True is for checks of the input.")
    if check.whole and "output" not in kinds:
        raise ConfigurationError(f"{check.name}: whole=True is for checks of the output.")
    reach = cast("object", check.reach)
    if isinstance(reach, bool) or not isinstance(reach, int) or reach < 0:
        raise ConfigurationError(f"{check.name}: reach must be a number of characters, not {reach!r:.60}.")
    return check
