"""The result of a call that goes wrong: a kind, and a text that tells the model what to do next.

| what happened                     | kind                | text                                             |
|-----------------------------------|---------------------|--------------------------------------------------|
| no tool of this name              | `not_found`         | the names that exist, similar ones first         |
| the tool's groups are inactive    | `not_found`         | the groups, and how to activate one              |
| the arguments are not JSON        | `invalid_arguments` | what is wrong with the JSON, and what was sent   |
| the arguments do not fit          | `invalid_arguments` | one line a problem, as `InvalidArgumentsError`   |
| a deadline of the call passed     | `timeout`           | "Tool 'x' did not finish within 5 s"             |
| the tool raised a `ToolError`     | `failed`            | its text                                         |
| ... a `CommandDeniedError`        | `rejected`          | its text                                         |
| the tool raised anything else     | `failed`            | "<type>: <text>"                                 |
| the tool raised a `ToolSuspend`   | `suspended`         | its reason: no error, a placeholder              |
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from difflib import get_close_matches
from typing import cast

from agentscope_rx.errors import CommandDeniedError, DeadlineError, InvalidInputError, ToolError, ToolSuspend
from agentscope_rx.messages import TextBlock, ToolResultBlock, ToolResultKind, ToolUseBlock
from agentscope_rx.tools.arguments import InvalidArgumentsError

MAX_RAW = 200


class ToolTimeoutError(DeadlineError):
    """A deadline of this call passed. (A deadline inside the tool is the tool's own failure.)"""


def not_found(call: ToolUseBlock, names: Iterable[str]) -> ToolResultBlock:
    """The result of a call of a tool that does not exist."""
    known = list(names)
    # a model may invent a name of any length
    close = get_close_matches(call.name[:MAX_RAW], known, 3)
    others = [each for each in known if each not in close]
    there_are = f"Available tools: {', '.join([*close, *others])}." if known else "No tools are available."
    return ToolResultBlock.error(call, ToolResultKind.NOT_FOUND, f"There is no tool {call.name!r:.200}. {there_are}")


def not_available(call: ToolUseBlock, groups: Iterable[str], can_activate: bool) -> ToolResultBlock:
    """The result of a call of a tool none of whose groups is active."""
    named = [repr(group) for group in groups]
    text = f"Tool {call.name!r} is not available now: it is in the inactive group {' and '.join(named)}."
    if can_activate:
        text += f" Call reset_equipped_tools with to_activate=[{named[0]}] first."
    return ToolResultBlock.error(call, ToolResultKind.NOT_FOUND, text)


def malformed(call: ToolUseBlock) -> ToolResultBlock:
    """The result of a call whose arguments are not JSON."""
    text = f"The arguments for tool {call.name!r} are not valid JSON: {call.input_error}"
    if call.raw:
        text += f"\nGiven: {call.raw if len(call.raw) <= MAX_RAW else call.raw[:MAX_RAW] + '...'}"
    return ToolResultBlock.error(
        call, ToolResultKind.INVALID_ARGUMENTS, f"{text}\nCall the tool again with one JSON object as its arguments."
    )


def failure(call: ToolUseBlock, error: Exception) -> ToolResultBlock:
    """The result for an error; its metadata names the error's type."""
    name = type(error).__name__
    try:
        text = str(error)
    except Exception:
        text = ""
    kind = ToolResultKind.FAILED
    if isinstance(error, ToolTimeoutError):
        kind = ToolResultKind.TIMEOUT
    elif isinstance(error, InvalidArgumentsError):
        kind = ToolResultKind.INVALID_ARGUMENTS
    elif isinstance(error, CommandDeniedError):
        kind = ToolResultKind.REJECTED
    elif not isinstance(error, ToolError):
        text = f"{name}: {text}" if text else name
    return replace(ToolResultBlock.error(call, kind, text or name), metadata={"error_type": name})


def suspended(call: ToolUseBlock, error: ToolSuspend, hidden: Collection[str] = ()) -> ToolResultBlock:
    """The placeholder of a call that is answered outside the run; its text is the reason.

    The `hidden` arguments are left out of its metadata. If the metadata is nested too deep to be kept, the result is a
    failure.
    """
    metadata = dict(error.metadata)
    if hidden and isinstance(arguments := metadata.get("arguments"), Mapping):
        given = cast("Mapping[str, object]", arguments)
        metadata["arguments"] = {name: value for name, value in given.items() if name not in hidden}
    try:
        return ToolResultBlock(call.id, call.name, (TextBlock(str(error)),), ToolResultKind.SUSPENDED, metadata)
    except InvalidInputError as refused:
        return failure(call, refused)
