"""Short texts of a transcript: all are bounded and free of control characters."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import cast

from agentscope_rx.events import BackgroundEvent, CitationEvent, ContextEvent, HubEvent, PlanEvent, RetrievalEvent
from agentscope_rx.messages import Citation, Msg, TextBlock, ToolResultBlock, ToolUseBlock
from agentscope_rx.tools.background import BACKGROUND

MAX_VALUE = 120
MAX_LINE = 200

# C0 without tab and newline, DEL, C1, and marks that change the direction of text
_CONTROLS = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")


def clean(text: str) -> str:
    """The text with control characters as visible escapes, and without carriage returns."""
    return _CONTROLS.sub(_escaped, text.replace("\r", "")) if not text.isprintable() else text


def _escaped(found: re.Match[str]) -> str:
    code = ord(found[0])
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


def shortened(text: str, limit: int) -> str:
    """At most `limit` characters of the text."""
    return text if len(text) <= limit else f"{text[: limit - 3]}..."


def one_line(text: str, limit: int = 400) -> str:
    """The text on one line, shortened."""
    return clean(shortened(" ".join(text.split()), limit))


def arguments(call: ToolUseBlock) -> str:
    """The arguments of a call as in Python: `path="docs", limit=3`."""
    if call.input_error is not None:
        return one_line(call.raw or "", MAX_VALUE)
    shown = ", ".join(f"{name}={shortened(_literal(value), MAX_VALUE)}" for name, value in call.input.items())
    return one_line(shown)


def _literal(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)


def result_text(result: ToolResultBlock, lines: int) -> str:
    """The text of a result, at most `lines` lines; media by their kind."""
    parts = [block.text if isinstance(block, TextBlock) else f"[{block.type}]" for block in result.output]
    text = clean("\n".join(parts)).strip("\n")
    found = text.split("\n")
    shown = [shortened(line, MAX_LINE) for line in found[:lines]]
    if len(found) > lines:
        shown.append(f"... {counted(len(found) - lines, 'more line')}")
    return "\n".join(shown)


def context_line(event: ContextEvent) -> str:
    """A step of a compaction: `context: summarize 81,000 -> 12,300 tokens`."""
    step = one_line(event.step, MAX_VALUE)
    if event.error:
        return f"context: {step} failed: {one_line(event.error, MAX_LINE)}"
    return f"context: {step} {event.tokens_before:,} -> {event.tokens_after:,} tokens"


def background_line(event: BackgroundEvent) -> str:
    """Work in the background: `background: job_1 search completed after 3.2 s`."""
    what = (
        f"background: {one_line(event.job, MAX_VALUE)} {one_line(event.tool_use.name)} {event.state.replace('_', ' ')}"
    )
    return what if event.state == "started" else f"{what} after {seconds(event.elapsed)}"


def input_line(message: Msg) -> str:
    """A message to a run that is in progress: its text, or `search job_1 completed` for the result of a job."""
    # (a log of others may have anything in its metadata)
    given = cast("object", message.metadata.get(BACKGROUND))
    names: Mapping[str, object] = cast("Mapping[str, object]", given) if isinstance(given, Mapping) else {}
    found: list[object] = [names.get(each) for each in ("tool", "job", "state")]
    if all(isinstance(each, str) for each in found):
        tool, job, state = (one_line(str(each), MAX_VALUE) for each in found)
        return f"{tool} {job} {state.replace('_', ' ')}"
    return one_line(shortened(message.text, MAX_LINE), 80)


def hub_line(event: HubEvent) -> str:
    """What a hub did: `hub round table: Alice said, heard by Bob, Charlie`."""
    what = f"hub {one_line(event.hub, MAX_VALUE)}:"
    if event.change in ("joined", "left"):
        return f"{what} {one_line(event.member, MAX_VALUE)} {event.change}"
    heard = ", ".join(one_line(name, MAX_VALUE) for name in event.heard_by) or "no one"
    who = "announced" if event.change == "announced" else f"{one_line(event.member, MAX_VALUE)} said"
    missed = ", ".join(one_line(name, MAX_VALUE) for name in event.missed_by)
    return f"{what} {who}, heard by {heard}" + (f", missed by {missed}" if missed else "")


MOST_CITED = 5
"""The passages that are named on one line."""


def retrieval_line(event: RetrievalEvent) -> str:
    """What was found: `retrieved 2 passages for "ticket price": [1] guide.md p. 3, [2] faq.md`."""
    found = counted(len(event.passages), "passage")
    failed = f"; failed: {one_line(event.error_text, MAX_LINE)}" if event.error_text else ""
    return f'retrieved {found} for "{one_line(event.question, MAX_VALUE)}"{_cited(event.passages)}{failed}'


def citation_line(event: CitationEvent) -> str:
    """What the reply refers to: `the reply cites [1] guide.md p. 3; not retrieved: [7]`."""
    unknown = ", ".join(f"[{number}]" for number in event.unknown[:MOST_CITED])
    missing = f"; not retrieved: {unknown}" if unknown else ""
    cited = _cited(event.citations).removeprefix(":") or " nothing"
    return f"the reply cites{cited}{missing}"


def _cited(citations: tuple[Citation, ...]) -> str:
    shown = [_place(each) for each in citations[:MOST_CITED]]
    if len(citations) > MOST_CITED:
        shown.append(f"... {len(citations) - MOST_CITED} more")
    return f": {', '.join(shown)}" if shown else ""


def _place(citation: Citation) -> str:
    page = "" if citation.page is None else f" p. {citation.page}"
    return f"[{citation.number}] {one_line(citation.document, MAX_VALUE)}{page}"


def plan_line(event: PlanEvent) -> str:
    """How far the plan or the todo list has come: `Trip: 1 of 3 done, now Pack the bags`."""
    if event.change in ("mode_on", "mode_off"):
        return f"plan mode is {event.change.removeprefix('mode_')}"
    plan = event.plan
    if event.change == "todos":
        steps = [(todo.content, todo.state) for todo in event.todos]
    else:
        steps = [] if plan is None else [(each.name, each.state) for each in plan.subtasks]
    name = "todos" if event.change == "todos" else "no plan" if plan is None else plan.name
    done = sum(state == "done" for _, state in steps)
    now = [text for text, state in steps if state == "in_progress"]
    parts = [f"{done} of {len(steps)} done", *(f"now {one_line(text, MAX_VALUE)}" for text in now[:1])]
    if event.change == "finished" and plan is not None:
        parts = [f"finished as {plan.state}", parts[0]]
    return f"{one_line(name, MAX_VALUE)}: {', '.join(parts)}"


def counted(number: int, noun: str) -> str:
    """`1 turn`, `2 turns`."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def seconds(value: float) -> str:
    """`3.2 s`, `4 min 05 s`."""
    if value < 120:
        return f"{value:.1f} s"
    minutes, rest = divmod(round(value), 60)
    return f"{minutes} min {rest:02d} s"
