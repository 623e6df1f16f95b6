"""What the model is asked in one turn: the arguments of a call, a line of a result to quote, or to talk.

Rules decide which turn it is; where they find no tool, or no line, that is said and no model is asked. Pure.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from textwrap import shorten
from typing import Any

from agentscope_rx.messages import Msg, MsgRole, ToolResultBlock
from agentscope_rx.models.local.chooser import MAX_LINES, best_lines, candidates, choose, properties, told
from agentscope_rx.models.options import ToolChoice, ToolSchema

CANNOT = "I cannot answer that"
MAX_LINE = 300

_WHO = "You are a helpful assistant."
# the number that a reader of files puts before a line; what a grammar cannot spell
_DROPPED = re.compile(r"^\s*\d+\t|[\x00-\x08\x0e-\x1f\x7f\ud800-\udfff]")
_OWN_FORM = {"enum", "const", "pattern", "format", "minLength", "maxLength"}
_SAMPLE = ("The river is long.\nIt flows into lake Miro.\n\nInto which lake does it flow?", "It flows into lake Miro.")


@dataclass(frozen=True, slots=True)
class Turn:
    """One turn: a call of `tool` with arguments by `schema`, a quotation of one of `lines`, what is `said`, or talk."""

    messages: tuple[Msg, ...] = ()
    tool: str | None = None
    schema: Mapping[str, object] | None = None
    lines: tuple[str, ...] = ()
    said: str | None = None


def next_turn(messages: Sequence[Msg], tools: Sequence[ToolSchema], choice: ToolChoice | None = None) -> Turn:
    """The turn that comes next."""
    at = _request_at(messages)
    request = messages[at].text if messages else ""
    results = [result for message in messages[at:] for result in message.tool_results]
    mode = choice.mode if choice is not None else "auto"
    if mode in ("required", "specific") or (mode == "auto" and tools and not results):
        named = [tool for tool in tools if choice is not None and tool.name == choice.tool]
        tool = choose(request, named or tools) or (None if mode == "auto" else (named or tools)[0])
        if tool is None:
            names = ", ".join(tool.name for tool in tools)
            return Turn(said=f"{CANNOT}: it names nothing that one of my tools does ({names}), and I do not guess.")
        known = [line for each in results for line in _lines(each)[:MAX_LINES]]
        return _call(tool, request, known, arguments(tool, None if named else candidates(request, tool)))
    if results:
        calls = [call for each in messages[at:] for call in each.tool_calls if call.id == results[-1].id]
        said = [told(tool) for tool in tools if tool.name == results[-1].name]
        return _answer(request, " ".join([*said, *(str(dict(call.input)) for call in calls)]), results[-1])
    spoken = [each for each in messages if each.text and each.role is not MsgRole.TOOL]
    system = () if spoken and spoken[0].role is MsgRole.SYSTEM else (Msg.system(_WHO),)
    return Turn((*system, *(Msg(each.role.value, each.text, each.role) for each in spoken)))


def arguments(tool: ToolSchema, words: Sequence[str] | None) -> dict[str, object]:
    """The schema of a call's arguments: what is required, else the first; each text one of the `words` (None: any)."""
    whole: dict[str, Any] = {"type": "object", "additionalProperties": False, **tool.parameters}
    if words is None:
        return whole
    listed, copied = properties(tool), {"type": "string", "enum": list(words)}
    needed = whole.get("required") or list(listed)[: 1 if words else 0]
    texts = {name for name, each in listed.items() if each.get("type") == "string" and not _OWN_FORM & set(each)}
    return {**whole, "properties": {n: copied if words and n in texts else listed[n] for n in listed if n in needed}}


def _request_at(messages: Sequence[Msg]) -> int:
    """Where the open request is: the user's last words, but not a hint to the agent, which stands behind results."""
    users = [at for at, each in enumerate(messages) if each.role is MsgRole.USER and each.text]
    return next((at for at in reversed(users) if not (at and messages[at - 1].tool_results)), 0)


def _call(tool: ToolSchema, request: str, known: Sequence[str], schema: Mapping[str, object]) -> Turn:
    shown = {name: each["examples"][-1] for name, each in properties(tool).items() if each.get("examples")}
    system = f"{_WHO} {tool.name}: {tool.description} Give its arguments as JSON: {', '.join(properties(tool))}"
    sample = (Msg.user(f"{tool.description}: {shown}"), Msg.assistant(json.dumps(shown, default=str))) if shown else ()
    return Turn((Msg.system(system), *sample, Msg.user("\n".join([*known, request]))), tool.name, schema)


def _answer(request: str, spent: str, result: ToolResultBlock) -> Turn:
    lines = _lines(result)
    if result.is_error or not lines:
        return Turn(said=f"{CANNOT}: {result.name} {f'says: {lines[0]}' if lines else 'gave nothing.'}")
    best = best_lines(request, spent, lines)
    if not best:
        return Turn(said=f"{CANNOT}: I found no line about it in what {result.name} gave.")
    sample = (Msg.system(f"{_WHO} Answer with a line from the text."), Msg.user(_SAMPLE[0]), Msg.assistant(_SAMPLE[1]))
    return Turn((*sample, Msg.user("\n".join([*best, "", request]))), lines=tuple(best))


def _lines(result: ToolResultBlock) -> list[str]:
    """The lines of a result that can be quoted, none longer than fits."""
    plain = (shorten(_DROPPED.sub("", line), MAX_LINE) for line in result.text.splitlines())
    return [line for line in plain if line]
