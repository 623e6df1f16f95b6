"""A failure on the command line: one line on stderr, and an exit status.

| status | means                                                                                             |
|--------|---------------------------------------------------------------------------------------------------|
| 0      | answered                                                                                          |
| 1      | the run failed                                                                                    |
| 2      | it could not begin: arguments, a missing key or package, a wrong model name, an unreachable server|
| 3      | calls wait for an approval, or for a result, and there is no terminal to ask at                   |
| 124    | `--timeout` passed, as for timeout(1)                                                             |
| 130    | Ctrl-C                                                                                            |
| 141    | the output was closed, as for a program that SIGPIPE ended                                        |
"""

from __future__ import annotations

import os
import sys
import traceback

from agentscope_rx.errors import (
    AgentScopeError,
    AuthenticationError,
    ConfigurationError,
    DeadlineError,
    InvalidInputError,
    KnowledgeFormatError,
    KnowledgeStorageError,
    ModelConnectionError,
    ModelError,
    NotFoundError,
    PermissionDeniedError,
    SavedStateError,
    SessionError,
)
from agentscope_rx.models.providers import PROVIDERS

ANSWERED, FAILED, UNUSABLE, WAITING, TIMED_OUT, INTERRUPTED, OUTPUT_CLOSED = 0, 1, 2, 3, 124, 130, 141
PROGRAM = "agentscope-rx"
DEBUG = "AGENTSCOPE_RX_DEBUG"
"""An environment variable that adds the traceback."""

_UNUSABLE = (
    ConfigurationError,
    InvalidInputError,
    KnowledgeFormatError,
    KnowledgeStorageError,
    AuthenticationError,
    PermissionDeniedError,
    NotFoundError,
    ModelConnectionError,
    SavedStateError,
    SessionError,
)
_HINTS: tuple[tuple[type[ModelError], str], ...] = (
    (AuthenticationError, "Check the API key{key}."),
    (PermissionDeniedError, "Check what the API key{key} may do."),
    (NotFoundError, "Check the model's name (--model) and the server's address (--base-url)."),
    (ModelConnectionError, "Check that the server is running, and its address (--base-url)."),
)


_KEYS = {name: row.key for name, row in PROVIDERS.items() if row.key}
"""The environment variable of each provider's API key."""


class WaitingError(AgentScopeError):
    """Calls wait for approval or a result, and there is no terminal to ask at."""


class OutOfTimeError(DeadlineError):
    """The run took longer than `--timeout`."""


def status_of(error: BaseException) -> int:
    """The exit status of an error."""
    if isinstance(error, KeyboardInterrupt):
        return INTERRUPTED
    if isinstance(error, BrokenPipeError):
        return OUTPUT_CLOSED
    if isinstance(error, WaitingError):
        return WAITING
    if isinstance(error, OutOfTimeError):
        return TIMED_OUT
    return UNUSABLE if isinstance(error, _UNUSABLE) else FAILED


def line_of(error: BaseException) -> str:
    """The error on one line, with its remedy."""
    text = " ".join(str(error).split())
    if not isinstance(error, AgentScopeError):
        text = f"{type(error).__name__}: {text}" if text else type(error).__name__
    if len(text) > 500:
        text = f"{text[:497]}..."
    if isinstance(error, ModelError):
        named = f"{error.provider}:{error.model}: " if error.provider and error.model else ""
        hint = next((hint for kind, hint in _HINTS if isinstance(error, kind)), "")
        variable = _KEYS.get(error.provider or "")
        hint = hint.format(key=f" in {variable}" if variable else "")
        text = f"{named}{text.rstrip('.')}. {hint}" if hint else f"{named}{text}"
    return text


def report(error: BaseException) -> int:
    """Print an error on stderr, unless it is an interruption or closed output, and return its exit status."""
    status = status_of(error)
    if status not in (INTERRUPTED, OUTPUT_CLOSED):
        note(f"{'waiting' if status == WAITING else 'error'}: {line_of(error)}")
    if os.environ.get(DEBUG):
        traceback.print_exception(error)
    return status


def note(line: str) -> None:
    """Print a line on stderr that begins with the program's name."""
    print(f"{PROGRAM}: {line}", file=sys.stderr, flush=True)
