"""One tree: every error that the library raises or signals is an `AgentScopeError` and carries what a handler needs.

    AgentScopeError
    +-- ConfigurationError (ValueError)     an argument that cannot work; raised where it was given
    |   +-- ToolDefinitionError             a callable that no schema can be made from
    |   +-- DuplicateToolError              two tools of one name
    |   +-- MissingExtraError               an optional package that is not installed
    |   +-- SetupError                      an external part (weights, server) that is missing or damaged
    +-- InvalidInputError (ValueError)      what was handed to call(), stream(), Msg, a block or a session
    |   +-- PendingCallsError               input that passes pending calls by, where that is not allowed
    +-- AgentBusyError                      a second call while the agent is running
    +-- AgentShuttingDownError              a run that was refused or cut off by a shutdown; it can be resumed
    +-- UsageLimitError                     a run would have gone past one of its limits
    +-- RunInsideLoopError                  run() on the thread of a running event loop
    +-- DeadlineError (TimeoutError)        a first, idle or total deadline passed
    |   +-- RunDeadlineError                the deadline of a whole run passed
    +-- ChannelFullError                    a channel with the FAIL policy was full
    +-- UserInputError                      a person could not be asked, or gave no answer that can be used
    |   +-- EndOfInputError (EOFError)      there is no more input: the person has left
    +-- HookError                           a hook answered with what its event does not allow
    +-- StructuredOutputError               the model gave no value of the shape that was asked for
    +-- NoStructuredOutputError (LookupError)   a message that holds no structured value was asked for it
    +-- ModelError                          anything that went wrong between us and a model
    |   +-- ModelConnectionError            no connection, or it broke off
    |   +-- ModelTimeoutError               a deadline of the model call passed
    |   +-- ProtocolError                   an answer that the wire format does not allow
    |   +-- EmptyResponseError              an answer with neither text nor tool call
    |   +-- ContentFilterError              the provider withheld the answer
    |   +-- ModelHTTPError                  the provider answered with an error status
    |       +-- BadRequestError             400, 422 and other 4xx
    |       |   +-- ContextOverflowError    the conversation does not fit the model
    |       +-- AuthenticationError         401
    |       +-- PermissionDeniedError       403
    |       +-- NotFoundError               404
    |       +-- RateLimitError              429
    |       +-- ServerError                 5xx
    |           +-- OverloadedError         503, 529
    +-- ContextError (LookupError)          a RuntimeContext has nothing of the type asked for, or several
    +-- ApprovalError                       a rule that says which calls need approval failed
    +-- SessionError                        saved state could not be written or read; `key` says whose
    |   +-- SessionValueError (ValueError)  a value that JSON has no form for
    |   +-- SessionDamagedError             a file is not what was written
    |   +-- SessionFormatError              a file of a newer version of the library
    |   +-- SavedStateError                 saved state that is not that of this agent, or of a newer release
    |   +-- SessionLockedError              another process did not let go of the session in time
    |   +-- SessionStorageError             the file system refused: full, no permission, ...
    +-- ToolError                           raised by a tool, or about one; becomes a result, never a failed run
        +-- ToolSuspend                     no failure: the call waits for an answer from outside the run

`retryable` says whether the same request may succeed later; retry policies ask it and nothing else.
"""

from __future__ import annotations

import json
from collections.abc import Iterable


class AgentScopeError(Exception):
    """Root of the tree; `retryable` is False unless a kind says otherwise."""

    retryable: bool = False

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


class ToolDefinitionError(ConfigurationError):
    """A callable cannot become a tool; `tool` names it."""

    def __init__(self, message: str, *, tool: str) -> None:
        super().__init__(message)
        self.tool = tool


class DuplicateToolError(ConfigurationError):
    """Two tools share one name; `tool` is the name."""

    def __init__(self, tool: str) -> None:
        super().__init__(
            f"A tool named {tool!r} is registered already. Rename one of them with @tool(name=...), "
            "or remove the first with toolkit.remove(name)."
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


class PendingCallsError(InvalidInputError):
    """Calls are pending and the input neither answers nor runs them; `pending` are their ids."""

    def __init__(self, agent: str, pending: tuple[str, ...]) -> None:
        super().__init__(
            f"Agent {agent!r} has pending tool calls: {list(pending)}. Run them with call(), answer them with tool "
            "results, Approve or Reject, or build the agent with pending='recover' to pass them by."
        )
        self.agent = agent
        self.pending = pending


class AgentBusyError(AgentScopeError):
    """The agent is running; the first run is untouched. `agent` is its name, `run_id` the run in its way."""

    def __init__(self, agent: str, run_id: str, detail: str | None = None) -> None:
        text = f"Agent {agent!r} is still running (run {run_id}), please wait for it to finish"
        super().__init__(
            f"{text}: {detail}"
            if detail
            else f"{text}, or give each conversation a memory of its own: call(..., memory=...)."
        )
        self.agent = agent
        self.run_id = run_id


class AgentShuttingDownError(AgentScopeError):
    """The agent is being shut down: `run_id` was cut off, or None if the call was refused. `saved`: where to resume."""

    retryable = True

    def __init__(self, agent: str, run_id: str | None = None, saved: str | None = None) -> None:
        what = f"run {run_id} of agent {agent!r} was cut off" if run_id else f"agent {agent!r} takes no new calls"
        then = f"; resume it from session {saved!r} with load() and call()" if saved else "; please retry later"
        super().__init__(f"Shutting down: {what}{then}.")
        self.agent = agent
        self.run_id = run_id
        self.saved = saved


class UsageLimitError(AgentScopeError):
    """The run would have gone past a limit: `which` names it, `limit` is its value, `agent` the agent."""

    def __init__(self, agent: str, which: str, limit: float) -> None:
        super().__init__(f"Agent {agent!r} has reached its limit of {limit:g} for {which}.")
        self.agent = agent
        self.which = which
        self.limit = limit


class RunInsideLoopError(AgentScopeError, RuntimeError):
    """`run()` would block the event loop that it needs; `await` the flow instead."""

    def __init__(self) -> None:
        super().__init__(
            "run() blocks, and this thread is running an event loop. Use `await flow` (or `async for`) here instead."
        )


class DeadlineError(AgentScopeError, TimeoutError):
    """A deadline passed: `which` is 'first', 'idle' or 'total', `limit` its seconds, `scope` what it bounded."""

    retryable = True

    def __init__(self, which: str, limit: float, scope: str = "operation") -> None:
        what = {"first": "gave no first item", "idle": "was silent", "total": "did not finish"}.get(which, which)
        super().__init__(f"{scope} {what} within {limit:g} s")
        self.which = which
        self.limit = limit
        self.scope = scope


class RunDeadlineError(DeadlineError):
    """The deadline of a whole run passed; `agent` names the agent."""

    retryable = False

    def __init__(self, agent: str, limit: float) -> None:
        super().__init__("total", limit, f"The run of agent {agent!r}")
        self.agent = agent


class ChannelFullError(AgentScopeError):
    """A channel whose policy is FAIL was full; `capacity` is its bound."""

    def __init__(self, capacity: int) -> None:
        super().__init__(f"The consumer is slower than the run: {capacity} items are waiting and the policy is FAIL.")
        self.capacity = capacity


class UserInputError(AgentScopeError):
    """A person could not be asked, or the answer is none that can be used; the message says which."""


class EndOfInputError(UserInputError, EOFError):
    """The input is at its end (Ctrl-D, a closed pipe): the person has left, and there will be no answer."""

    def __init__(self) -> None:
        super().__init__("The input has ended: there is nobody left to answer.")


class HookError(AgentScopeError):
    """A hook answered with what its event does not allow; names the hook and the event."""

    def __init__(self, message: str, *, hook: str, event: str) -> None:
        super().__init__(f"Hook {hook} on {event}: {message}")
        self.hook = hook
        self.event = event


class StructuredOutputError(AgentScopeError):
    """A run ended without a value of the shape asked for; `problems` are those of the last of so many `attempts`.

    `text` is the last answer in words ('' if there was none); `agent` names who was asked.
    """

    def __init__(self, agent: str, problems: Iterable[str] = (), *, attempts: int = 0, text: str = "") -> None:
        self.agent = agent
        self.problems = tuple(problems)
        self.attempts = attempts
        self.text = text
        tries = f"{attempts} attempt{'' if attempts == 1 else 's'}"
        told = f"Agent {agent!r} gave no valid structured output in {tries}"
        super().__init__("\n".join([f"{told}:", *(f"- {each}" for each in self.problems)] if self.problems else [told]))


class NoStructuredOutputError(AgentScopeError, LookupError):
    """The message holds no structured value: it is no reply to `call(..., output=...)`, or that run ended otherwise."""

    def __init__(self, message_id: str, reason: str) -> None:
        super().__init__(
            f"Message {message_id} holds no structured output (its generate_reason is {reason}). Ask for one with "
            "agent.call(..., output=Type), and look at msg.has_structured where the run may have ended otherwise."
        )
        self.message_id = message_id
        self.reason = reason


class ModelError(AgentScopeError):
    """Something went wrong between us and a model; `model` and `provider` name it where known."""

    def __init__(self, message: str, *, model: str | None = None, provider: str | None = None) -> None:
        super().__init__(message)
        self.model = model
        self.provider = provider


class ModelConnectionError(ModelError):
    """No connection to the provider, or it broke off before the answer was whole."""

    retryable = True


class ModelTimeoutError(ModelError, TimeoutError):
    """A deadline of a model call passed; `which` and `limit` as in `DeadlineError`."""

    retryable = True

    def __init__(self, which: str, limit: float, *, model: str | None = None, provider: str | None = None) -> None:
        super().__init__(str(DeadlineError(which, limit, f"Model {model or 'call'}")), model=model, provider=provider)
        self.which = which
        self.limit = limit


class ProtocolError(ModelError):
    """The provider sent what its wire format does not allow; `body` is the offending part, cut."""

    def __init__(
        self, message: str, *, body: str | None = None, model: str | None = None, provider: str | None = None
    ) -> None:
        super().__init__(message, model=model, provider=provider)
        self.body = body


class EmptyResponseError(ModelError):
    """The model ended without text or tool call (thinking alone is no answer); `finish_reason` is its reason."""

    retryable = True

    def __init__(self, *, model: str | None = None, finish_reason: str | None = None) -> None:
        super().__init__(
            f"Model {model or '(unnamed)'} answered without content (finish reason: {finish_reason or 'none'}).",
            model=model,
        )
        self.finish_reason = finish_reason


class ContentFilterError(ModelError):
    """The provider's filter withheld the whole answer."""


class ModelHTTPError(ModelError):
    """The provider answered with an error: `status`, its own `code`, `body`, `request_id` and `retry_after` seconds."""

    def __init__(
        self,
        message: str,
        *,
        status: int,
        code: str | None = None,
        body: str | None = None,
        request_id: str | None = None,
        retry_after: float | None = None,
        model: str | None = None,
        provider: str | None = None,
    ) -> None:
        super().__init__(message, model=model, provider=provider)
        self.status = status
        self.code = code
        self.body = body
        self.request_id = request_id
        self.retry_after = retry_after


class BadRequestError(ModelHTTPError):
    """4xx: the request itself is wrong; sending it again will not help."""


class ContextOverflowError(BadRequestError):
    """The conversation does not fit the model's context."""


class AuthenticationError(ModelHTTPError):
    """401: no key, or a wrong one."""


class PermissionDeniedError(ModelHTTPError):
    """403: the key may not do this."""


class NotFoundError(ModelHTTPError):
    """404: no such model or endpoint."""


class RateLimitError(ModelHTTPError):
    """429: too many requests; `retry_after` says how long to wait where the provider did."""

    retryable = True


class ServerError(ModelHTTPError):
    """5xx: the provider failed."""

    retryable = True


class OverloadedError(ServerError):
    """503 or 529: the provider is overloaded."""


class ContextError(AgentScopeError, LookupError):
    """A RuntimeContext has no value of the type asked for, or several that would do; `wanted` names it."""

    def __init__(self, message: str, *, wanted: str) -> None:
        super().__init__(message)
        self.wanted = wanted


class ApprovalError(AgentScopeError):
    """A rule that says whether a call needs approval failed or gave no answer; nothing ran. `tool`: whose call."""

    def __init__(self, message: str, *, tool: str, call_id: str) -> None:
        super().__init__(message)
        self.tool = tool
        self.call_id = call_id


class SessionError(AgentScopeError):
    """Saved state could not be written or read; `key` is the session's, None if it is about all of them."""

    def __init__(self, message: str, *, key: str | None) -> None:
        super().__init__(message)
        self.key = key


class SessionValueError(SessionError, ValueError):
    """JSON has no form for what is at `path` in entry `name`; nothing was written, the old state is in place."""

    def __init__(self, key: str, name: str, path: str, reason: str) -> None:
        super().__init__(
            f"Entry {name!r} of session {key!r} cannot be written as JSON: at {path}, {reason}. "
            "Save plain values: dict, list, str, int, float, bool, None.",
            key=key,
        )
        self.name = name
        self.path = path


class SavedStateError(SessionError):
    """What the session holds cannot be taken over by the agent; nothing was changed."""

    def __init__(self, key: str, what: str) -> None:
        super().__init__(f"Session {key!r} cannot be loaded: {what}", key=key)


class SessionDamagedError(SessionError):
    """`file` is not what was written; nothing was changed. The message says how to go on."""

    def __init__(self, key: str | None, file: str, what: str, advice: str) -> None:
        super().__init__(f"{file} is damaged: {what}. Nothing was changed. {advice}", key=key)
        self.file = file


class SessionFormatError(SessionError):
    """`file` was written in the format `found`, which this version does not know; nothing was changed."""

    def __init__(self, key: str | None, file: str, found: int, known: int) -> None:
        super().__init__(
            f"{file} has format {found}, and this version of agentscope-rx reads format {known}. "
            "Nothing was changed. Use the version that wrote it, or a newer one.",
            key=key,
        )
        self.file = file
        self.found = found


class SessionLockedError(SessionError):
    """Another process was writing to the session for as long as was waited; `file` is the lock."""

    retryable = True

    def __init__(self, key: str, file: str) -> None:
        super().__init__(
            f"Session {key!r} is being written to by another process, which holds {file}. "
            "Try again, or look for a process that hangs.",
            key=key,
        )
        self.file = file


class SessionStorageError(SessionError):
    """The file system refused; the cause is its own error, `file` where it happened. The old state is in place."""

    def __init__(self, key: str | None, file: str, reason: str) -> None:
        what = "Sessions" if key is None else f"Session {key!r}"
        super().__init__(f"{what} could not be reached: {reason} ({file}).", key=key)
        self.file = file


class ToolError(AgentScopeError):
    """Raise it in a tool to give the model a plain error text; `retryable=True` lets a retry policy try again."""

    def __init__(self, message: str, *, retryable: bool = False) -> None:
        super().__init__(message)
        self.retryable = retryable


class ToolSuspend(ToolError):
    """Raise it in a tool to leave its call to somebody outside the run; the call waits for their result.

    `reason` is what they read, `metadata` (JSON) what else they need to know. Never retried.
    """

    def __init__(self, reason: str | None = None, **metadata: object) -> None:
        super().__init__(reason or "Tool execution suspended")
        try:
            # as a round trip gives it back
            self.metadata: dict[str, object] = json.loads(json.dumps(metadata, allow_nan=False)) if metadata else {}
        except (TypeError, ValueError, RecursionError) as error:
            raise InvalidInputError(f"What ToolSuspend(...) carries must be JSON: {error}") from error
