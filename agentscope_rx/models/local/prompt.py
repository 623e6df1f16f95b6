"""The model's task for one turn: the arguments of a call, a line of a result to quote, or free text.

Rules choose the task. If they find no tool or no line, the reply says so and the model is not asked. Pure.
"""

import json
import re
from collections.abc import Mapping, Sequence
from textwrap import shorten
from typing import Any

from agentscope_rx.frozen_values import dataclass
from agentscope_rx.messages import Msg, MsgRole, ToolResultBlock
from agentscope_rx.models.local.chooser import (
    MAX_LINES,
    best_lines,
    candidates,
    choose,
    has_path,
    properties,
    tool_text,
)
from agentscope_rx.models.options import ToolChoice, ToolSchema

CANNOT = "I cannot answer that"
MAX_LINE = 300

_WHO = "You are a helpful assistant."
# line numbers of file readers, and characters that a grammar cannot contain
_DROPPED = re.compile(r"^\s*\d+\t|[\x00-\x08\x0e-\x1f\x7f\ud800-\udfff]")
# passages of a knowledge base: their numbers and texts
_PASSAGE = re.compile(r'^<passage number="(\d+)"[^>\n]*>\n(.*?)\n</passage>$', re.M | re.S)
_OWN_FORM = {"enum", "const", "pattern", "format", "minLength", "maxLength"}
_SAMPLE = ("The river is long.\nIt flows into lake Miro.\n\nInto which lake does it flow?", "It flows into lake Miro.")


@dataclass(frozen=True, slots=True)
class Turn:
    """One task: a call of `tool` with arguments by `schema`, one of `lines` to quote, a fixed `reply`, or free text."""

    messages: tuple[Msg, ...] = ()
    tool: str | None = None
    schema: Mapping[str, object] | None = None
    lines: tuple[str, ...] = ()
    reply: str | None = None


def next_turn(messages: Sequence[Msg], tools: Sequence[ToolSchema], choice: ToolChoice | None = None) -> Turn:
    """The next task."""
    at = _request_at(messages)
    request = messages[at].text if messages else ""
    results = [result for message in messages[at:] for result in message.tool_results]
    mode = choice.mode if choice is not None else "auto"
    if mode in ("auto", "none") and not results and not has_path(request):
        passages = [line for each in messages[:at] if each.role is MsgRole.USER for line in _passages(each.text)]
        best = best_lines(request, "", passages)
        # (a request of function words alone has all lines as one: it is no question about them)
        if best and best[0] in passages:
            return _quotation(request, best)
    if mode in ("required", "specific") or (mode == "auto" and tools and not results):
        named = [tool for tool in tools if choice is not None and tool.name == choice.tool]
        tool = choose(request, named or tools) or (None if mode == "auto" else (named or tools)[0])
        if tool is None:
            names = ", ".join(tool.name for tool in tools)
            return Turn(reply=f"{CANNOT}: it names nothing that one of my tools does ({names}), and I do not guess.")
        known = [line for each in results for line in _lines(each)[:MAX_LINES]]
        return _call(tool, request, known, arguments(tool, None if named else candidates(request, tool)))
    if results:
        calls = [call for each in messages[at:] for call in each.tool_calls if call.id == results[-1].id]
        texts = [tool_text(tool) for tool in tools if tool.name == results[-1].name]
        return _answer(request, " ".join([*texts, *(str(dict(call.input)) for call in calls)]), results[-1])
    spoken = [each for each in messages if each.text and each.role is not MsgRole.TOOL]
    system = () if spoken and spoken[0].role is MsgRole.SYSTEM else (Msg.system(_WHO),)
    return Turn((*system, *(Msg(each.role.value, each.text, each.role) for each in spoken)))


def arguments(tool: ToolSchema, words: Sequence[str] | None) -> dict[str, object]:
    """The schema of a call's required arguments, or the first; texts are limited to `words` (None: unlimited)."""
    whole: dict[str, Any] = {"type": "object", "additionalProperties": False, **tool.parameters}
    if words is None:
        return whole
    listed, copied = properties(tool), {"type": "string", "enum": list(words)}
    needed = whole.get("required") or list(listed)[: 1 if words else 0]
    texts = {name for name, each in listed.items() if each.get("type") == "string" and not _OWN_FORM & set(each)}
    return {**whole, "properties": {n: copied if words and n in texts else listed[n] for n in listed if n in needed}}


def _request_at(messages: Sequence[Msg]) -> int:
    """The index of the open request: the last user message that does not follow results (those are hints)."""
    users = [at for at, each in enumerate(messages) if each.role is MsgRole.USER and each.text]
    return next((at for at in reversed(users) if not (at and messages[at - 1].tool_results)), 0)


def _call(tool: ToolSchema, request: str, known: Sequence[str], schema: Mapping[str, object]) -> Turn:
    shown = {name: each["examples"][-1] for name, each in properties(tool).items() if each.get("examples")}
    system = f"{_WHO} {tool.name}: {tool.description} Give its arguments as JSON: {', '.join(properties(tool))}"
    sample = (Msg.user(f"{tool.description}: {shown}"), Msg.assistant(json.dumps(shown, default=str))) if shown else ()
    return Turn((Msg.system(system), *sample, Msg.user("\n".join([*known, request]))), tool.name, schema)


def _answer(request: str, used: str, result: ToolResultBlock) -> Turn:
    lines = _lines(result)
    if result.is_error or not lines:
        return Turn(reply=f"{CANNOT}: {result.name} {f'says: {lines[0]}' if lines else 'gave nothing.'}")
    best = best_lines(request, used, lines)
    if not best:
        return Turn(reply=f"{CANNOT}: I found no line about it in what {result.name} gave.")
    return _quotation(request, best)


def _quotation(request: str, best: Sequence[str]) -> Turn:
    sample = (Msg.system(f"{_WHO} Answer with a line from the text."), Msg.user(_SAMPLE[0]), Msg.assistant(_SAMPLE[1]))
    return Turn((*sample, Msg.user("\n".join([*best, "", request]))), lines=tuple(best))


def _lines(result: ToolResultBlock) -> list[str]:
    """The lines of a result that can be quoted, each shortened to `MAX_LINE`."""
    return _passages(result.text) or _quotable(result.text)


def _passages(text: str) -> list[str]:
    """The lines of the passages in a text, each with the number of its passage; headings answer nothing."""
    found = ((number, _quotable(passage)) for number, passage in _PASSAGE.findall(text))
    return [f"{line} [{number}]" for number, lines in found for line in lines if not line.startswith("#")]


def _quotable(text: str) -> list[str]:
    plain = (shorten(_DROPPED.sub("", line), MAX_LINE) for line in text.splitlines())
    return [line for line in plain if line]
