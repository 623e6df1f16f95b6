"""A code reviewer: sub-agents in the background, one for each file, whose findings become one report.

Look at: the lanes. The lead starts all reviewers in one round, and they read and report side by side. A finding is a
typed value, checked when the model gives it. Ctrl-C, or a limit, ends the run with what was found until then.

    python examples/code_reviewer/review.py                              three faulty files in sample/
    python examples/code_reviewer/review.py ~/project                    the sources of a folder
    python examples/code_reviewer/review.py ~/project --diff main        what differs from a revision
    python examples/code_reviewer/review.py --json > findings.jsonl      one finding a line, for other programs

Without AGENTSCOPE_RX_MODEL (openai:gpt-5-mini, ollama:qwen3, ...) the rules of rules.py take the model's place.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import sys
from pathlib import Path
from typing import Literal, TextIO

from pydantic import BaseModel, Field
from rules import rules
from sources import Sources

from agentscope_rx import ReActAgent, RunHandle, UsageLimits, tool
from agentscope_rx.errors import AgentScopeError, ToolError
from agentscope_rx.events import BackgroundEvent, ErrorEvent, Event, PostActingEvent, PostCallEvent, PreCallEvent
from agentscope_rx.sub_agents import SubAgent, SubAgentLimits, SubagentsHook

SAMPLE = Path(__file__).parent / "sample"
LANES = 8
LEAD = (
    "You lead a code review. Start one reviewer for each file, all in one turn, with the task 'Review PATH', the path "
    "as its label and timeout_seconds=0. When all have ended, say in two sentences what matters most."
)
REVIEWER = (
    "You review one file. Read it with read_code, then call report once, with what is wrong in it: bugs, security, "
    "unclear code. Report what you are sure of; nothing is a good answer, too."
)


class Finding(BaseModel):
    """Something that is wrong in a file."""

    line: int = Field(ge=1)
    kind: Literal["bug", "security", "style"]
    problem: str = Field(description="One sentence")
    advice: str = Field(description="What to do, in one sentence")


class Review:
    """The files, and what was found in them."""

    def __init__(self, sources: Sources) -> None:
        self.sources = sources
        self.findings: dict[str, list[Finding]] = {}

    def tools(self) -> list[object]:
        """What a reviewer can do: read one of the files, and report."""

        @tool(read_only=True)
        async def read_code(path: str) -> str:
            """Read the file with its line numbers; a + behind a number marks a changed line."""
            return self.of(path)

        @tool
        async def report(path: str, findings: list[Finding]) -> str:
            """Report all findings in a file, or an empty list."""
            self.of(path)
            self.findings[path] = findings
            return f"{len(findings)} noted."

        return [read_code, report]

    def of(self, path: str) -> str:
        if path not in self.sources.texts:
            raise ToolError(f"There is no {path!r} to review. The files are {', '.join(self.sources.texts)}.")
        return self.sources.texts[path]

    def lead(self) -> ReActAgent:
        """The agent that starts the others. The limits are those of all agents together."""
        reviewer = SubAgent("reviewer", "Reviews one file.", REVIEWER, tools=["read_code", "report"])
        return ReActAgent(
            "Lead",
            os.environ.get("AGENTSCOPE_RX_MODEL") or rules(),
            LEAD,
            tools=self.tools(),
            hooks=[SubagentsHook(reviewer, limits=SubAgentLimits(depth=1, at_once=LANES, total=2 * LANES, share=0.5))],
            limits=UsageLimits(total_tokens=400_000, model_calls=100, deadline=600),
            max_iters=30,
        )


class Lanes:
    """Shows who does what: one lane for each file, and the lead's words."""

    def __init__(self, out: TextIO) -> None:
        self.out = out
        self.names: dict[str, str] = {}

    def show(self, event: Event) -> None:
        if isinstance(event, PreCallEvent) and event.depth and event.input:
            self.names[event.run_id] = event.input[0].text.removeprefix("Review ")
        lane = self.names.get(event.run_id, "lead")
        if isinstance(event, PostActingEvent) and event.tool_use.name == "read_code":
            self.print(lane, f"has read {len(event.result.text.splitlines())} lines")
        elif isinstance(event, PostActingEvent) and event.tool_use.name == "report":
            self.print(lane, f"reports: {event.result.text}")
        elif isinstance(event, ErrorEvent) and event.depth:
            self.print(lane, event.error_text)
        elif isinstance(event, BackgroundEvent):
            self.print(str(event.tool_use.input.get("label", lane)), event.state)
        elif isinstance(event, PostCallEvent) and not event.depth:
            self.print(lane, f"{event.message.text} ({event.message.generate_reason})")

    def print(self, lane: str, text: str) -> None:
        print(f"  {lane:14} {' '.join(text.split())}", file=self.out, flush=True)


async def follow(run: RunHandle, lanes: Lanes) -> bool:
    """Show the run to its end. The first Ctrl-C asks it to end, a second one stops it at once. False if it was one."""
    stopped = False

    def stop() -> None:
        nonlocal stopped
        lanes.print("lead", "stops; Ctrl-C once more stops at once")
        if stopped:
            run.dispose("Ctrl-C")
        else:
            run.interrupt("The review was stopped.")
        stopped = True

    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGINT, stop)
    try:
        async for event in run.events():
            lanes.show(event)
    except AgentScopeError as error:
        lanes.print("lead", f"has ended early: {error}")
    finally:
        loop.remove_signal_handler(signal.SIGINT)
        await run.idle()
    return not stopped


async def review(sources: Sources, out: TextIO) -> Review:
    """Review all files, so many at once; what was found until then, if it is stopped."""
    found = Review(sources)
    paths = list(sources.texts)
    for begin in range(0, len(paths), LANES):
        files = "\n".join(f"- {path}" for path in paths[begin : begin + LANES])
        # a lead for each batch: its limits are those of the batch
        if not await follow(found.lead().start(f"Review these files:\n{files}"), Lanes(out)):
            break
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description="Reviews the files of a folder, or of a git diff.")
    parser.add_argument("folder", nargs="?", type=Path, default=SAMPLE)
    parser.add_argument("--diff", metavar="REVISION", help="review what differs from this revision")
    parser.add_argument("--json", action="store_true", help="print findings as JSON lines; the rest goes to stderr")
    flags = parser.parse_args()
    if not flags.folder.is_dir():
        sys.exit(f"{flags.folder} is no folder.")
    sources = Sources.of_diff(flags.diff, flags.folder) if flags.diff else Sources.of_folder(flags.folder)
    if not sources.texts:
        sys.exit("There is nothing to review.")
    found = asyncio.run(review(sources, sys.stderr if flags.json else sys.stdout))
    for path in sources.texts:
        findings = found.findings.get(path)
        if not flags.json:
            print(f"{path}: {'not reviewed' if findings is None else f'{len(findings)} findings'}")
        for each in sorted(findings or (), key=lambda finding: finding.line):
            if flags.json:
                print(json.dumps({"path": path, **each.model_dump()}))
            else:
                print(f"  {each.line:4} {each.kind:9} {each.problem} {each.advice}")


if __name__ == "__main__":
    try:
        main()
    except AgentScopeError as error:
        sys.exit(f"error: {error}")
    except KeyboardInterrupt:
        sys.exit("\nstopped")
