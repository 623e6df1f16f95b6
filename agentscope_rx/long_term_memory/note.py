"""`Note`: what a long-term memory has found. `MemoryScope`: whose notes they are. `NoteSource`: where one is from."""

from __future__ import annotations

from dataclasses import fields
from datetime import UTC, datetime
from typing import Self

from agentscope_rx.errors import InvalidInputError
from agentscope_rx.frozen_values import dataclass
from agentscope_rx.messages.frozen import check_encodable

MAX_NAME = 512
"""The characters of a name in a scope."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryScope:
    """The owner of facts: a user, an agent, a session. None stands for "no user", "no agent", "no session".

    A fact is stored with the scope of its record. It is found in a scope with *the same* user (no user finds the facts
    of another one, or of none), and, if it was stored for an agent or a session, with the same agent and session.

    The scope of a call is the one in its context, then the context's `user_id` (a `ConversationPool` sets it), then the
    `scope` of the hook, then that of the memory. The user must come from your authentication.

    Put one into the context of a call, `agent.call("hi", context=RuntimeContext(MemoryScope(user="ann")))`, to serve
    many users with one agent.
    """

    user: str | None = None
    agent: str | None = None
    session: str | None = None

    def __post_init__(self) -> None:
        for each in fields(self):
            name: object = getattr(self, each.name)
            if name is None:
                continue
            if not isinstance(name, str) or not name.strip() or len(name) > MAX_NAME:
                raise InvalidInputError(
                    f"MemoryScope({each.name}=...) takes a name of at most {MAX_NAME} characters, or None; "
                    f"not {name!r:.60}."
                )
            check_encodable(name, f"MemoryScope({each.name}=...)")

    def over(self, other: MemoryScope | None) -> Self:
        """This scope, with the names that it lacks taken from `other`."""
        if other is None:
            return self
        return type(self)(
            user=self.user if self.user is not None else other.user,
            agent=self.agent if self.agent is not None else other.agent,
            session=self.session if self.session is not None else other.session,
        )

    def sees(self, stored: MemoryScope) -> bool:
        """True if a fact that is stored with this scope is found in `self`."""
        return (
            stored.user == self.user and stored.agent in (None, self.agent) and stored.session in (None, self.session)
        )


NO_SCOPE = MemoryScope()


@dataclass(frozen=True, slots=True, kw_only=True)
class NoteSource:
    """The source of a note: the session's key, the run, its messages, the agent, and the time of the record."""

    session_key: str | None = None
    run_id: str | None = None
    message_ids: tuple[str, ...] = ()
    agent: str | None = None
    at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """A note that a long-term memory has found. `score` orders the notes of one result, best first.

    Scores of different answers, or of different memories, cannot be compared. `updated` is the time of the newest
    version; `created` that of the first one.
    """

    text: str
    id: str
    score: float = 0.0
    source: NoteSource | None = None
    created: datetime | None = None
    updated: datetime | None = None
    scope: MemoryScope = NO_SCOPE


def now() -> datetime:
    """The time, in UTC."""
    return datetime.now(UTC)
