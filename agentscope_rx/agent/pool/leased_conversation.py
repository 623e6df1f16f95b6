"""A conversation of a `ConversationPool` that is held for the time of a block; its key, and the options of its calls.

A conversation is named by two texts that are not blank, the user and the session id.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypedDict
from urllib.parse import quote

from typing_extensions import Unpack

from agentscope_rx.agent.agent import Agent
from agentscope_rx.agent.input import CallInput
from agentscope_rx.agent.limits import UsageLimits
from agentscope_rx.agent.pool.kept_conversations import Pair
from agentscope_rx.agent.when_busy import WhenBusy
from agentscope_rx.context import RuntimeContext
from agentscope_rx.errors import ConfigurationError, InvalidInputError
from agentscope_rx.frozen_values import dataclass
from agentscope_rx.memory import Memory
from agentscope_rx.messages import Msg
from agentscope_rx.messages.frozen import check_encodable
from agentscope_rx.reactive import Flow
from agentscope_rx.session import Session


def conversation_key(user: str, session_id: str) -> str:
    """`user/session_id`, with all but letters, digits and `_.-~` percent-encoded: no two pairs have the same key."""
    return f"{quote(user, safe='')}/{quote(session_id, safe='')}"


class PoolCallOptions(TypedDict, total=False):
    """The options of a call, as for `Agent.call`."""

    context: RuntimeContext | None
    limits: UsageLimits | None
    output: object
    when_busy: WhenBusy | None


def check_pair(user: str, session_id: str) -> Pair:
    """The pair; `InvalidInputError` unless both are texts that can be encoded and are not blank."""
    for name, value in (("user", user), ("session_id", session_id)):
        if not isinstance(value, str) or not value.strip():  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InvalidInputError(f"{name} must be a text that is not blank, not {value!r:.60}.")
        check_encodable(value, name)
    return user, session_id


def checked_options(user: str, session_id: str, options: PoolCallOptions) -> PoolCallOptions:
    """The options, with a context that names the user and the session; `ConfigurationError` for unknown ones."""
    check_pair(user, session_id)
    _check_names(options)
    context = options.get("context")
    if context is None:
        return {**options, "context": RuntimeContext(user_id=user, session_id=session_id)}
    if not isinstance(context, RuntimeContext):  # pyright: ignore[reportUnnecessaryIsInstance]
        # the call refuses it
        return options
    for name, given, own in (("user_id", context.user_id, user), ("session_id", context.session_id, session_id)):
        if given is not None and given != own:
            raise InvalidInputError(f"The context has {name} {given!r}, but the call is for {own!r}.")
    return options


def _check_names(options: Iterable[str]) -> None:
    for name in options:
        if name == "memory":
            raise ConfigurationError(
                "memory is no option of a call through a pool, which gives each conversation its own memory. "
                "ConversationPool(..., memory=...) takes the function that makes it."
            )
        if name not in PoolCallOptions.__optional_keys__:
            known = ", ".join(sorted(PoolCallOptions.__optional_keys__))
            raise ConfigurationError(f"A call through a pool has no option {name!r}. It takes {known}.")


@dataclass(frozen=True, slots=True)
class LeasedConversation:
    """A conversation that its pool keeps during an `async with` block. Do not use it after the block."""

    user: str
    session_id: str
    key: str
    agent: Agent
    memory: Memory
    session: Session
    file_root: str | None = None

    def call(self, msgs: CallInput = None, **options: Unpack[PoolCallOptions]) -> Flow[Msg]:
        """As `ConversationPool.call`, without the load; signals and cancels as `Agent.call`."""
        return self.agent.call(msgs, memory=self.memory, **checked_options(self.user, self.session_id, options))

    def save(self, *, overwrite: bool = False) -> Flow[None]:
        """Save it now. `overwrite=True` replaces what another process has stored.

        Signals and cancels: as `Agent.save`.
        """
        return self.agent.save(self.session, self.key, memory=self.memory, overwrite=overwrite)

    def load(self) -> Flow[bool]:
        """Replace it by the stored conversation, for example after a `SessionConflictError`.

        Signals and cancels: as `Agent.load`.
        """
        return self.agent.load(self.session, self.key, memory=self.memory, file_root=self.file_root)
