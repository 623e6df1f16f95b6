"""Errors that end a run or refuse it."""

from __future__ import annotations

from collections.abc import Iterable

from agentscope_rx.errors.base import AgentScopeError, DeadlineError, InvalidInputError


class PendingCallsError(InvalidInputError):
    """Calls are pending and the input neither answers nor runs them; `pending` are their ids."""

    def __init__(self, agent: str, pending: tuple[str, ...]) -> None:
        super().__init__(
            f"Agent {agent!r} has pending tool calls: {list(pending)}. Run them with call(), answer them with tool "
            "results, Approve or Reject, or build the agent with pending='recover' to close them."
        )
        self.agent = agent
        self.pending = pending


class AgentBusyError(AgentScopeError):
    """The agent is running already; that run goes on. `agent` is its name, `run_id` the running run."""

    def __init__(self, agent: str, run_id: str, detail: str | None = None) -> None:
        text = f"Agent {agent!r} is still running (run {run_id}), please wait for it to finish"
        super().__init__(
            f"{text}: {detail}"
            if detail
            else f"{text}, or give each conversation a memory of its own: call(..., memory=...). A call with "
            "when_busy='queue' waits for its turn."
        )
        self.agent = agent
        self.run_id = run_id


class QueuedCallInterruptedError(AgentScopeError):
    """A call that waited for its turn (`when_busy`) was interrupted before it began; memory is unchanged.

    `source` is the origin: "user", "tool", or "system" if another call replaced it.
    """

    def __init__(self, agent: str, run_id: str, source: str) -> None:
        super().__init__(
            f"The call of agent {agent!r} (run {run_id}) was interrupted while it waited for its turn, by source "
            f"{str(source)!r}. It has not begun: call again to send its input."
        )
        self.agent = agent
        self.run_id = run_id
        self.source = source


class RunEndedError(AgentScopeError):
    """Input for a run that has ended, or is about to. `run_id` is the run; None if the agent has none in progress."""

    def __init__(self, agent: str, run_id: str | None = None) -> None:
        which = f"Run {run_id} of agent {agent!r}" if run_id else f"Agent {agent!r}" if agent else "This handle"
        why = "it is not in progress, or about to end" if run_id else "it has no run in progress, or one about to end"
        super().__init__(f"{which} takes no more input: {why}. Call the agent again, with call(...) or stream(...).")
        self.agent = agent
        self.run_id = run_id


class InboxFullError(AgentScopeError):
    """`limit` inputs wait for the run already. It takes them before its next model call, or at its end."""

    retryable = True

    def __init__(self, agent: str, run_id: str, limit: int) -> None:
        super().__init__(
            f"{limit} inputs wait already for run {run_id} of agent {agent!r}, which is the limit. Try again after its "
            "next round, or put several messages into one input."
        )
        self.agent = agent
        self.run_id = run_id
        self.limit = limit


class AgentShuttingDownError(AgentScopeError):
    """The agent is shutting down. `run_id` was cut off, or None if a call was refused; `saved` names the session.

    `saved` is None if the conversation is not bound to a session: save it with `agent.save(session, key)`.
    """

    retryable = True

    def __init__(self, agent: str, run_id: str | None = None, saved: str | None = None) -> None:
        what = f"run {run_id} of agent {agent!r} was cut off" if run_id else f"agent {agent!r} takes no new calls"
        then = f"; resume it from session {saved!r} with load() and call()" if saved else "; please retry later"
        super().__init__(f"Shutting down: {what}{then}.")
        self.agent = agent
        self.run_id = run_id
        self.saved = saved


class PoolClosedError(AgentScopeError):
    """A call to a closed `ConversationPool`; `user` and `session_id` name the conversation."""

    def __init__(self, user: str, session_id: str) -> None:
        super().__init__(
            f"The conversation pool is closed, and takes no call of user {user!r}, session {session_id!r}. Make a new "
            "pool with the same session: it loads what this one has saved."
        )
        self.user = user
        self.session_id = session_id


class UsageLimitError(AgentScopeError):
    """The run would have gone past a limit: `which` names it, `limit` is its value, `agent` the agent."""

    def __init__(self, agent: str, which: str, limit: float) -> None:
        super().__init__(f"Agent {agent!r} has reached its limit of {limit:g} for {which}.")
        self.agent = agent
        self.which = which
        self.limit = limit


class RunDeadlineError(DeadlineError):
    """The deadline of a whole run passed; `agent` names the agent."""

    retryable = False

    def __init__(self, agent: str, limit: float) -> None:
        super().__init__("total", limit, f"The run of agent {agent!r}")
        self.agent = agent


class EventsGoneError(AgentScopeError):
    """A run's log has dropped events after `after` (None: the first ones). `first` is the oldest that it has."""

    def __init__(self, run_id: str, after: int | None, first: int | None) -> None:
        wanted = "its first events" if after is None else f"the events after {after}"
        super().__init__(f"Run {run_id} no longer has {wanted}: the oldest event kept is {first}.")
        self.run_id = run_id
        self.after = after
        self.first = first


class RunStoppedError(AgentScopeError):
    """A shared run was stopped: on request, after its last subscriber left, or at the shutdown of its service."""


class UnheardMessageError(AgentScopeError):
    """Members of a `MsgHub` could not take a message; `hub` and `members` name them. All others have it."""

    def __init__(self, hub: str, members: tuple[str, ...], reason: str) -> None:
        super().__init__(
            f"Members of hub {hub!r} have missed a message: {', '.join(map(repr, members))} ({reason}). The speaker "
            "and the other members remember it."
        )
        self.hub = hub
        self.members = members


class UserInputError(AgentScopeError):
    """A person could not be asked, or gave no usable answer; the message gives the reason."""


class EndOfInputError(UserInputError, EOFError):
    """The input has ended (Ctrl-D, a closed pipe), so there will be no answer."""

    def __init__(self) -> None:
        super().__init__("The input has ended, so there is no answer.")


class HookError(AgentScopeError):
    """A hook returned a value that its event does not allow; `hook` and `event` name both."""

    def __init__(self, message: str, *, hook: str, event: str) -> None:
        super().__init__(f"Hook {hook} on {event}: {message}")
        self.hook = hook
        self.event = event


class GuardrailError(AgentScopeError):
    """A check of a `GuardrailsHook` stopped the run: `guardrail` is its name, `kind` the kind of content, `reason` why.

    If the check itself failed, its error is the cause.
    """

    def __init__(self, agent: str, guardrail: str, kind: str, reason: str) -> None:
        super().__init__(f"Guardrail {guardrail} has stopped the {kind.replace('_', ' ')} of agent {agent!r}: {reason}")
        self.agent = agent
        self.guardrail = guardrail
        self.kind = kind
        self.reason = reason


class StructuredOutputError(AgentScopeError):
    """A run ended without a valid structured output; `problems` are those of the last of `attempts`.

    `text` is the last answer as text ('' if there was none), `agent` the name of the agent.
    """

    def __init__(self, agent: str, problems: Iterable[str] = (), *, attempts: int = 0, text: str = "") -> None:
        self.agent = agent
        self.problems: tuple[str, ...] = tuple(problems)
        self.attempts = attempts
        self.text = text
        tries = f"{attempts} attempt{'' if attempts == 1 else 's'}"
        summary = f"Agent {agent!r} gave no valid structured output in {tries}"
        super().__init__(
            "\n".join([f"{summary}:", *(f"- {each}" for each in self.problems)] if self.problems else [summary])
        )


class NoStructuredOutputError(AgentScopeError, LookupError):
    """The message has no structured value: no output was requested, or the run ended in another way."""

    def __init__(self, message_id: str, reason: str) -> None:
        super().__init__(
            f"Message {message_id} holds no structured output (its generate_reason is {reason}). Ask for one with "
            "agent.call(..., output=Type), and check msg.has_structured first if the run may end in another way."
        )
        self.message_id = message_id
        self.reason = reason


class StepError(AgentScopeError):
    """A member of a pipeline has failed: `member` in round `number` of `pipeline`.

    `kind` is the kind of its result, such as "failed" or "timeout"; "cancelled" if its work was cancelled, but not by
    the pipeline. `error_type` names the class of its error, which is the `__cause__` if this process raised it.
    """

    def __init__(self, pipeline: str, member: str, number: int, text: str, kind: str, error_type: str | None) -> None:
        super().__init__(f"Pipeline {pipeline!r}: member {member!r} failed in step {number}: {text}")
        self.pipeline = pipeline
        self.member = member
        self.number = number
        self.text = text
        self.kind = kind
        self.error_type = error_type


class FanOutError(AgentScopeError):
    """Members of a fan-out have failed: `errors` are theirs, `outcomes` those of all members, in their order."""

    def __init__(self, pipeline: str, errors: tuple[StepError, ...], outcomes: tuple[object, ...]) -> None:
        failed = "; ".join(f"{error.member}: {error.text}" for error in errors[:_SHOWN])
        more = f"; and {len(errors) - _SHOWN} more" if len(errors) > _SHOWN else ""
        super().__init__(f"Pipeline {pipeline!r}: {len(errors)} of {len(outcomes)} members failed: {failed}{more}")
        self.pipeline = pipeline
        self.errors = errors
        self.outcomes = outcomes


_SHOWN = 5
"""The number of errors that the text of a `FanOutError` names."""
