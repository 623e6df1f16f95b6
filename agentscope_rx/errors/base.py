"""The root of the tree, invalid arguments and input, and errors of the kernel."""

from __future__ import annotations

from agentscope_rx.errors.text import encodable


class AgentScopeError(Exception):
    """The root of the tree. `retryable` is False unless a subclass sets it."""

    retryable: bool = False

    def __init__(self, *args: object) -> None:
        # the text may quote a server, and goes into logs, events and answers
        super().__init__(*(encodable(each) if isinstance(each, str) else each for each in args))

    def __reduce__(self) -> tuple[object, ...]:
        # Exception's own protocol would call __init__ with the finished text
        return (_restored, (type(self), self.args, self.__dict__))


def _restored(kind: type[AgentScopeError], args: tuple[object, ...], state: dict[str, object]) -> AgentScopeError:
    error = kind.__new__(kind, *args)
    # OSError sets args only in __init__
    error.args = args
    error.__dict__.update(state)
    return error


class ConfigurationError(AgentScopeError, ValueError):
    """An argument is invalid; the message names the change that it needs."""


class UnsupportedOptionError(ConfigurationError):
    """A provider does not support an option; `option` names it, the message gives the alternative."""

    def __init__(self, message: str, *, option: str) -> None:
        super().__init__(message)
        self.option = option


class ToolDefinitionError(ConfigurationError):
    """A callable cannot become a tool; `tool` names it."""

    def __init__(self, message: str, *, tool: str) -> None:
        super().__init__(message)
        self.tool = tool


class DuplicateToolError(ConfigurationError):
    """Two tools share one name; `tool` is the name, and `hook` the name of the hook that brings the second one."""

    def __init__(self, tool: str, hook: str | None = None) -> None:
        do = (
            "Rename one of them: @tool(name=...), as_tool(name=...) or prefix=..., set on_conflict=..., or remove the "
            "first with toolkit.remove(name)."
            if hook is None
            else f"The hook {hook} brings another one: leave out the hook or the first tool, or rename that one. Of a "
            "kind of hooks that bring tools an agent takes one."
        )
        super().__init__(f"A tool named {tool!r} is registered already. {do}")
        self.tool = tool
        self.hook = hook


class MissingExtraError(ConfigurationError, ImportError):
    """An optional package is not installed; `extra` names the extra that installs it."""

    def __init__(self, package: str, extra: str, hint: str | None = None) -> None:
        text = f"{package!r} is not installed. Install it with: pip install 'agentscope-rx[{extra}]'"
        super().__init__(f"{text}, then run: {hint}" if hint else text)
        self.package = package
        self.extra = extra


class SetupError(ConfigurationError):
    """A part outside the library, such as weights or a local server, is missing, damaged or does not start."""


class InvalidInputError(AgentScopeError, ValueError):
    """A message, block or call input is invalid; nothing was started."""


class RunInsideLoopError(AgentScopeError, RuntimeError):
    """`run()` would block the event loop that it needs; `await` the flow instead."""

    def __init__(
        self,
        text: str = "run() blocks, and this thread is running an event loop. Use `await flow` (or `async for`) here "
        "instead.",
    ) -> None:
        super().__init__(text)


_PASSED = {
    "first": "gave no first item",
    "idle": "was silent",
    "total": "did not finish",
    "overall": "did not finish, all its attempts together,",
}


class DeadlineError(AgentScopeError, TimeoutError):
    """A deadline passed: `which` is 'first', 'idle', 'total' or, for all attempts together, 'overall'.

    `limit` are its seconds, `scope` names the operation that it bounds.
    """

    retryable = True

    def __init__(self, which: str, limit: float, scope: str = "operation") -> None:
        what = _PASSED.get(which, which)
        super().__init__(f"{scope} {what} within {limit:g} s")
        self.which = which
        self.limit = limit
        self.scope = scope


class AwaitCancelledError(AgentScopeError):
    """A model, tool or hook awaited a task or future that was cancelled elsewhere. The run was not cancelled."""

    retryable = True

    def __init__(self) -> None:
        super().__init__(
            "A task or future that was awaited here was cancelled, but not by the run. Find the code that cancels it."
        )


class ChannelFullError(AgentScopeError):
    """A channel whose policy is FAIL was full; `capacity` and `max_bytes` are its bounds."""

    def __init__(self, capacity: int, max_bytes: int | None = None) -> None:
        bound = f"{capacity} items" if max_bytes is None else f"{capacity} items or {max_bytes} bytes"
        super().__init__(
            f"The consumer is slower than the run: its buffer of {bound} is full and the policy is FAIL. Read faster, "
            "or choose another bound or policy (Overflow)."
        )
        self.capacity = capacity
        self.max_bytes = max_bytes


class WorkersExhaustedError(AgentScopeError):
    """No worker thread is free: `abandoned` blocking calls, whose runs have ended, occupy all of them.

    `calls` names the oldest of these. Retryable, because each call that returns frees a thread.
    """

    retryable = True

    def __init__(self, abandoned: int, calls: tuple[str, ...] = (), detail: str | None = None) -> None:
        what = f"{abandoned} abandoned blocking calls are still running"
        if calls:
            more = ", ..." if abandoned > len(calls) else ""
            what += f" ({', '.join(calls)}{more})"
        text = f"No worker thread can be started: {detail}; {what}."
        if detail is None:
            text = (
                f"No worker thread is free: {what}. Let them end by themselves (timeouts, "
                "context.stopping), make them async, or raise the bound with WORKERS.configure(max_abandoned=...)."
            )
        super().__init__(text)
        self.abandoned = abandoned
        self.calls = calls
