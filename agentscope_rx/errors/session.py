"""Errors of saved state."""

from __future__ import annotations

from agentscope_rx.errors.base import AgentScopeError


class SessionError(AgentScopeError):
    """Saved state could not be written or read; `key` names the session, None if the error concerns all of them."""

    def __init__(self, message: str, *, key: str | None) -> None:
        super().__init__(message)
        self.key = key


class SessionValueError(SessionError, ValueError):
    """JSON has no form for the value at `path` in entry `name`; nothing was written, the old state stays."""

    def __init__(self, key: str, name: str, path: str, reason: str) -> None:
        super().__init__(
            f"Entry {name!r} of session {key!r} cannot be written as JSON: at {path}, {reason}. "
            "Save plain values: dict, list, str, int, float, bool, None.",
            key=key,
        )
        self.name = name
        self.path = path


class SavedStateError(SessionError):
    """The agent cannot load the saved state; nothing was changed."""

    def __init__(self, key: str, what: str) -> None:
        super().__init__(f"Session {key!r} cannot be loaded: {what}", key=key)


class CheckpointError(SessionError):
    """The history has no checkpoint `at` (None: none at all). It has `first` to `last`, if any."""

    def __init__(self, key: str, at: int | None, first: int | None, last: int | None) -> None:
        which = "no checkpoint" if at is None else f"no checkpoint {at}"
        has = "it has no history" if first is None else f"its history has {first} to {last}"
        super().__init__(
            f"Session {key!r} has {which}: {has}. Earlier ones may have been pruned; history(key) lists what is there.",
            key=key,
        )
        self.at = at
        self.first = first
        self.last = last


class SessionConflictError(SessionError):
    """The session was changed after version `expected` was read, and is at version `found`; nothing was written.

    None is the version of a session that does not exist. Load the session again, and repeat the change.
    """

    def __init__(self, key: str, expected: str | None, found: str | None, advice: str | None = None) -> None:
        if expected is None:
            what, remedy = f"no session was expected, and there is one, at version {found}", _TAKEN
        else:
            what = f"version {expected} was expected, and {_version(found)} is stored, so another writer has changed it"
            remedy = _RELOAD
        super().__init__(f"Session {key!r} was not saved: {what}. Nothing was written. {advice or remedy}", key=key)
        self.expected = expected
        self.found = found


_TAKEN = "Take another key, delete the session, or load it first to change it."
_RELOAD = "Load it again and repeat the change, or save without expected= to replace what is stored."


def _version(version: str | None) -> str:
    return "no session" if version is None else f"version {version}"


class SessionDamagedError(SessionError):
    """The content of `file` has changed since it was written; nothing was changed. The message gives the remedy."""

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
    """Another writer held the lock of the session, or of the store, until the timeout; `file` is the lock."""

    retryable = True

    def __init__(self, key: str | None, file: str) -> None:
        what = "The store" if key is None else f"Session {key!r}"
        super().__init__(
            f"{what} is being written to by another process, which holds {file}. "
            "Try again, or end a process that hangs.",
            key=key,
        )
        self.file = file


class SessionStorageError(SessionError):
    """The file system refused access to `file`; `__cause__` is its error. The old state stays."""

    def __init__(self, key: str | None, file: str, reason: str, advice: str = "") -> None:
        what = "Sessions" if key is None else f"Session {key!r}"
        super().__init__(f"{what} could not be reached: {reason} ({file}).{advice and ' '}{advice}", key=key)
        self.file = file


class SessionServerError(SessionStorageError):
    """A database server was not reached, or it refused the request; `server` is its address, without the password.

    `retryable` is true if the same request may succeed later. `unsure` is true for a change whose answer did not
    arrive: the session holds the old state or the new one, as a whole.
    """

    def __init__(
        self, key: str | None, server: str, reason: str, *, retryable: bool = False, unsure: bool = False
    ) -> None:
        advice = "The change may have taken place. Load the session before you repeat it." if unsure else ""
        super().__init__(key, server, reason, advice)
        self.server = server
        self.retryable = retryable
        self.unsure = unsure


class ConversationLeasedError(SessionError):
    """Another holder has the lease of the session: `host` and `pid` name its process, `since` is an ISO time.

    `by` describes it in words. The lease is free when it ends its run or dies.
    """

    retryable = True

    def __init__(self, key: str, by: str, *, host: str, pid: int, since: str) -> None:
        super().__init__(
            f"Session {key!r} is leased by {by}, since {since}. Try again when its run has ended, or wait for it with "
            "lease='queue'. If that process is dead, its lease is taken over.",
            key=key,
        )
        self.by = by
        self.host = host
        self.pid = pid
        self.since = since


class LeaseLostError(SessionError):
    """The lease of the session was lost during its use, which has ended; nothing more was written.

    `by` describes the new holder. It is None without one: the store was out of reach for `ttl` seconds, or the session
    was deleted. `__cause__` is the error of the store.
    """

    def __init__(self, key: str, why: str, by: str | None = None) -> None:
        super().__init__(
            f"The lease of session {key!r} was lost: {why}. What this holder has not saved yet is in its memory only. "
            "Continue from the stored conversation with load(), or replace it with save(..., overwrite=True).",
            key=key,
        )
        self.by = by
