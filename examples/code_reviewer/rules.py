"""What reviews without a key: a few rules that know common faults of Python by their looks.

It plays both parts, the lead that starts reviewers and the reviewer of one file, as a model does: it reads its request
and answers with text or calls.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from agentscope_rx import Msg
from agentscope_rx.testing import Delay, ScriptedModel, ScriptedRequest, call
from agentscope_rx.testing.scripted_model import Reply

FAULTS = {
    r"def .*= (\[\]|\{\})": ("bug", "A mutable default is shared by all calls.", "Use None, and make it inside."),
    r"""execute\(f["']""": ("security", "SQL is made of a text of others.", "Pass parameters: execute(sql, [value])."),
    r"except( Exception)?:$": ("bug", "All errors are caught, also those of this code.", "Name the error."),
    r"/ len\(": ("bug", "It fails if the list is empty.", "Say what the mean of nothing is."),
    r"in open\(": ("style", "The file is not closed.", "Use with open(...) as file."),
}


def rules() -> ScriptedModel:
    """A model for the lead and the reviewers."""
    return ScriptedModel(lambda request: lead(request) if is_lead(request) else reviewer(request), repeat=True)


def is_lead(request: ScriptedRequest) -> bool:
    return any(tool.name == "agent_spawn" for tool in request.tools)


def lead(request: ScriptedRequest) -> Reply:
    """Starts a reviewer for each file, then waits for them."""
    files = re.findall(r"^- (.+)$", request.messages[1].text, re.MULTILINE)
    if not any(message.tool_calls for message in request.messages):
        # in the background at once: the reviewers work side by side
        return [
            call("agent_spawn", agent="reviewer", task=f"Review {name}", label=name, timeout_seconds=0)
            for name in files
        ]
    ended = sum("<background_result" in message.text for message in request.messages)
    return f"{ended} of {len(files)} files are reviewed."


def reviewer(request: ScriptedRequest) -> Reply:
    """Reads the file, reports what looks like a fault, and ends."""
    calls = [each for message in request.messages for each in message.tool_calls]
    path = request.messages[1].text.removeprefix("Review ")
    if not calls:
        return [Delay(0.02), call("read_code", path=path)]
    if len(calls) == 1:
        return [Delay(0.02), call("report", path=path, findings=findings(result(request.messages)))]
    return "Done."


def result(messages: Sequence[Msg]) -> str:
    return messages[-1].tool_results[0].text


def findings(code: str) -> list[dict[str, object]]:
    """What the rules find in numbered lines."""
    found: list[dict[str, object]] = []
    for number, line in re.findall(r"^ *(\d+)[+ ] (.*)$", code, re.MULTILINE):
        for pattern, (kind, problem, advice) in FAULTS.items():
            if re.search(pattern, line):
                found.append({"line": int(number), "kind": kind, "problem": problem, "advice": advice})
    return found
