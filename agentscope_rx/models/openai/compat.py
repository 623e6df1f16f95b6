"""What some servers want of a conversation that others do not: put in when the messages are made. Pure.

| quirk                | what is done                                                                              |
|----------------------|-------------------------------------------------------------------------------------------|
| `user_required`      | a conversation without a user message ends in an empty one                                |
| `no_user_after_tool` | a user message right after a tool's follows one of the assistant's that says so           |
| `ids_of_nine`        | an id of a call that is not nine letters and digits is replaced, in call and result alike |
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Sequence
from typing import cast

WireMessage = dict[str, object]

ANSWERED = "(The tools have answered.)"
_NINE = re.compile(r"[a-zA-Z0-9]{9}")


def with_quirks(messages: Sequence[WireMessage], quirks: Collection[str]) -> list[WireMessage]:
    """The messages as a server with these quirks takes them."""
    made = list(messages)
    if "ids_of_nine" in quirks:
        made = [_renamed(message) for message in made]
    if "no_user_after_tool" in quirks:
        made = list(_separated(made))
    if "user_required" in quirks and not any(message["role"] == "user" for message in made):
        made.append({"role": "user", "content": ""})
    return made


def id_of_nine(id: str) -> str:
    """The id if it is nine letters and digits, else nine that stand for it, always the same."""
    return id if _NINE.fullmatch(id) else hashlib.sha256(id.encode("utf-8", "replace")).hexdigest()[:9]


def _renamed(message: WireMessage) -> WireMessage:
    if "tool_call_id" in message:
        return {**message, "tool_call_id": id_of_nine(cast("str", message["tool_call_id"]))}
    if "tool_calls" not in message:
        return message
    calls = cast("Sequence[WireMessage]", message["tool_calls"])
    return {**message, "tool_calls": [{**call, "id": id_of_nine(cast("str", call["id"]))} for call in calls]}


def _separated(messages: Sequence[WireMessage]) -> Sequence[WireMessage]:
    made: list[WireMessage] = []
    for message in messages:
        if message["role"] == "user" and made and made[-1]["role"] == "tool":
            made.append({"role": "assistant", "content": ANSWERED})
        made.append(message)
    return made
