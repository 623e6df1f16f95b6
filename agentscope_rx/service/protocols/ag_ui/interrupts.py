"""Interrupts: calls that wait for a person, and the answers in the `resume` of the next request.

| a call                                           | interrupt     | the payload that resolves it               |
|--------------------------------------------------|---------------|--------------------------------------------|
| needs approval, or was stopped before it ran     | `approval:ID` | an object: see `APPROVAL_SCHEMA`           |
| waits for a result, and is no tool of the client | `result:ID`   | the result: text, or any JSON              |
| is one of the client's own tools                 | none          | a message of the tool, in the next request |

An entry with the status `cancelled` rejects its call. `ID` is that of the call, so nothing is kept for the answers.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import cast

from ag_ui.core import Interrupt, ResumeEntry

from agentscope_rx.errors import InvalidInputError
from agentscope_rx.messages import Approve, Msg, Reject, ToolResultBlock, ToolResultKind, ToolUseBlock
from agentscope_rx.messages.approval import Remember

APPROVAL, RESULT = "approval:", "result:"

APPROVAL_SCHEMA: Mapping[str, object] = {
    "type": "object",
    "properties": {
        "approved": {"type": "boolean"},
        "editedArgs": {"type": "object", "description": "Replaces all arguments of the call."},
        "reason": {"type": "string", "description": "Why the call is rejected, for the model."},
        "remember": {
            "enum": ["arguments", "tool"],
            "description": "Decides later calls, too: with the same arguments, or all of this tool.",
        },
    },
    "required": ["approved"],
}

Answer = Approve | Reject | Msg


def interrupt_of(call: ToolUseBlock, placeholder: ToolResultBlock | None, subagent: str | None = None) -> Interrupt:
    """What a person is asked about this call."""
    waits_for_result = placeholder is not None and placeholder.kind is ToolResultKind.SUSPENDED
    text = "" if placeholder is None else placeholder.text
    metadata: dict[str, object] = {"toolCallName": call.name}
    if call.in_doubt:
        metadata["inDoubt"] = True
    return Interrupt(
        id=(RESULT if waits_for_result else APPROVAL) + call.id,
        reason="input_required" if waits_for_result else "tool_call",
        message=f"{call.name}: {text or 'This call waits for approval.'}",
        tool_call_id=call.id,
        response_schema=None if waits_for_result else dict(APPROVAL_SCHEMA),
        metadata=metadata,
        subagent_run_id=subagent,
    )


def call_of(entry: ResumeEntry) -> str:
    """The id of the call that this entry answers."""
    return entry.interrupt_id.removeprefix(APPROVAL).removeprefix(RESULT)


def answer_of(entry: ResumeEntry, call: ToolUseBlock) -> Answer:
    """The answer to a call that waits; `InvalidInputError` if the payload is none."""
    for_result = entry.interrupt_id.startswith(RESULT)
    if entry.status == "cancelled":
        if for_result:
            return Msg.tool(ToolResultBlock.error(call, ToolResultKind.REJECTED, "The call was cancelled."))
        return Reject(call, "The person has cancelled the request without an answer.")
    payload: object = entry.payload
    if for_result:
        text = payload if isinstance(payload, str) else json.dumps(payload, ensure_ascii=False)
        return Msg.tool(ToolResultBlock.of(call, text))
    return _decision(payload, call, entry.interrupt_id)


def _decision(payload: object, call: ToolUseBlock, id: str) -> Approve | Reject:
    given: Mapping[str, object] = cast("Mapping[str, object]", payload) if isinstance(payload, Mapping) else {}
    approved = payload if isinstance(payload, bool) else given.get("approved")
    if not isinstance(approved, bool):
        raise InvalidInputError(f"resume: the payload for {id!r:.80} must have 'approved', true or false.")
    edited, reason, remember = given.get("editedArgs"), given.get("reason"), given.get("remember")
    if edited is not None and not isinstance(edited, dict):
        raise InvalidInputError(f"resume: 'editedArgs' for {id!r:.80} must be an object.")
    if reason is not None and not isinstance(reason, str):
        raise InvalidInputError(f"resume: 'reason' for {id!r:.80} must be a text.")
    # refused by the answer itself if it is none of its values
    kept = cast("Remember | None", remember)
    if approved:
        return Approve(call, cast("dict[str, object] | None", edited), remember=kept)
    return Reject(call, reason or "", remember=kept)


def by_call(entries: Iterable[ResumeEntry]) -> dict[str, ResumeEntry]:
    """The entries by the ids of their calls; `InvalidInputError` if one is answered twice."""
    found: dict[str, ResumeEntry] = {}
    for entry in entries:
        id = call_of(entry)
        if id in found:
            raise InvalidInputError(f"resume answers {entry.interrupt_id!r:.80} twice.")
        found[id] = entry
    return found
