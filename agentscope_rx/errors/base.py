"""Where the tree begins: what cannot work as it was given, and what the kernel says."""

from __future__ import annotations

from agentscope_rx.errors.text import encodable


class AgentScopeError(Exception):
    """Root of the tree; `retryable` is False unless a kind says otherwise."""

    retryable: bool = False

    def __init__(self, *args: object) -> None:
        # the text may quote what a server has sent, and goes into logs, events and answers
        super().__init__(*(encodable(each) if isinstance(each, str) else each for each in args))

    def __reduce__(self) -> tuple[object, ...]:
        # Exception's own protocol calls __init__ with the finished text alone
        return (_restored, (type(self), self.args, self.__dict__))


def _restored(kind: type[AgentScopeError], args: tuple[object, ...], state: dict[str, object]) -> AgentScopeError:
    error = kind.__new__(kind, *args)
    # those that are OSErrors, too, leave it to __init__
    error.args = args
    error.__dict__.update(state)
    return error


class ConfigurationError(AgentScopeError, ValueError):
    """An argument that cannot work; the message says what to change."""


class UnsupportedOptionError(ConfigurationError):
    """A provider has nothing for an option; `option` names it, the message says what to do instead."""

    def __init__(self, message: str, *, option: str) -> None:
        super().__init__(message)
        self.option = option


class ToolDefinitionError(ConfigurationError):
    """A callable cannot become a tool; `tool` names it."""

    def __init__(self, message: str, *, tool: str) -> None:
        super().__init__(message)
        self.tool = tool


class DuplicateToolError(ConfigurationError):
    """Two tools share one name; `tool` is the name."""

    def __init__(self, tool: str) -> None:
        super().__init__(
            f"A tool named {tool!r} is registered already. Rename one of them: @tool(name=...), as_tool(name=...) or "
            "prefix=..., say what is to happen with on_conflict=..., or remove the first with toolkit.remove(name)."
        )
        self.tool = tool


class MissingExtraError(ConfigurationError, ImportError):
    """An optional package is not installed; `extra` names the extra that brings it."""

    def __init__(self, package: str, extra: str, hint: str | None = None) -> None:
        text = f"{package!r} is not installed. Install it with: pip install 'agentscope-rx[{extra}]'"
        super().__init__(f"{text}, then run: {hint}" if hint else text)
        self.package = package
        self.extra = extra


class SetupError(ConfigurationError):
    """A part outside the library (weights, a local server) is missing, damaged or does not start."""


class InvalidInputError(AgentScopeError, ValueError):
    """A message, block or call input that cannot be used; nothing was started."""


class RunInsideLoopError(AgentScopeError, RuntimeError):
    """`run()` would block the event loop that it needs; `await` the flow instead."""

    def __init__(self) -> None:
        super().__init__(
            "run() blocks, and this thread is running an event loop. Use `await flow` (or `async for`) here instead."
        )


_PASSED = {
    "first": "gave no first item",
    "idle": "was silent",
    "total": "did not finish",
    "overall": "did not finish, all its attempts together,",
}


class DeadlineError(AgentScopeError, TimeoutError):
    """A deadline passed: `which` is 'first', 'idle', 'total' or, for all attempts together, 'overall'.

    `limit` are its seconds, `scope` is what it bounded.
    """

    retryable = True

    def __init__(self, which: str, limit: float, scope: str = "operation") -> None:
        what = _PASSED.get(which, which)
        super().__init__(f"{scope} {what} within {limit:g} s")
        self.which = which
        self.limit = limit
        self.scope = scope


class AwaitCancelledError(AgentScopeError):
    """Code of a model, tool or hook awaited a task or future that someone else cancelled; the run itself was not."""

    retryable = True

    def __init__(self) -> None:
        super().__init__(
            "What was awaited here was cancelled, and not by the run: look for what cancels the task or future."
        )


class ChannelFullError(AgentScopeError):
    """A channel whose policy is FAIL was full; `capacity` is its bound."""

    def __init__(self, capacity: int) -> None:
        super().__init__(f"The consumer is slower than the run: {capacity} items are waiting and the policy is FAIL.")
        self.capacity = capacity


class WorkersExhaustedError(AgentScopeError):
    """No worker thread is left: all are taken by `abandoned` calls that run on though nobody waits for them any more.

    `calls` names the oldest of these. It is retryable: each that returns makes room.
    """

    retryable = True

    def __init__(self, abandoned: int, calls: tuple[str, ...] = (), detail: str | None = None) -> None:
        what = f"{abandoned} blocking calls that were left behind still run"
        if calls:
            more = ", ..." if abandoned > len(calls) else ""
            what += f" ({', '.join(calls)}{more})"
        text = f"No worker thread can be started: {detail}; {what}."
        if detail is None:
            text = (
                f"No worker thread is free: {what}. Make them end by themselves (timeouts of their own, "
                "context.stopping), or async; or raise the bound with WORKERS.configure(max_abandoned=...)."
            )
        super().__init__(text)
        self.abandoned = abandoned
        self.calls = calls
