"""AG-UI's own client, `@ag-ui/client` of npm: its verifier, its schema and its `HttpAgent`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings

from agentscope_rx import ReActAgent, tool
from agentscope_rx.messages import TextBlock, ThinkingBlock
from agentscope_rx.service import AgentHost, AgUiState
from agentscope_rx.testing import ScriptedModel, call
from agentscope_rx.tools import Inject
from tests.events.runs import Scenario, scenarios
from tests.service.ag_ui.endpoint import PICK, serving
from tests.service.ag_ui.rules import RuleBrokenError, check
from tests.service.ag_ui.test_laws import recorded, streamed
from tests.support.node import installed, run

VERIFY = """
import { verifyEvents } from "@ag-ui/client"
import { EventSchemas } from "@ag-ui/core/schemas"
import { from, lastValueFrom, toArray } from "rxjs"
import { readFileSync } from "node:fs"

const verdicts = []
for (const events of JSON.parse(readFileSync(0, "utf8"))) {
  try {
    const read = events.map((event) => EventSchemas.parse(event))
    const seen = await lastValueFrom(from(read).pipe(verifyEvents(), toArray()))
    verdicts.push(seen.length === events.length ? "" : "lost")
  } catch (error) {
    verdicts.push(String(error.message))
  }
}
console.log(JSON.stringify(verdicts))
"""

TALK = """
import { HttpAgent, buildResumeArray } from "@ag-ui/client"
import { readFileSync } from "node:fs"

const { url, pick } = JSON.parse(readFileSync(0, "utf8"))
console.warn = console.info = console.debug = () => {}
const agent = new HttpAgent({ url, threadId: "t1" })
const outcomes = []
async function say(text, options = {}) {
  if (text) agent.addMessage({ id: crypto.randomUUID(), role: "user", content: text })
  await agent.runAgent(options, { onRunFinishedEvent: ({ event }) => { outcomes.push(event.outcome) } })
}
await say("Hello.")
const afterHello = agent.messages.length
await say("Wipe a.")
const asked = agent.pendingInterrupts
const edited = { approved: true, editedArgs: { disk: "b" } }
const answers = Object.fromEntries(asked.map((each) => [each.id, { status: "resolved", payload: edited }]))
await say(null, { resume: buildResumeArray(asked, answers) })
await say("A room.", { tools: [pick] })
const [pending] = outcomes.at(-1).pendingToolCallIds
agent.addMessage({ id: crypto.randomUUID(), role: "tool", toolCallId: pending, content: "7" })
await say(null, { tools: [pick] })
await say("Plan.")
let refused
try {
  await say(null)
} catch (error) {
  refused = { status: error.status, type: error.payload.error.type }
}
console.log(JSON.stringify({
  outcomes, afterHello, refused, asked, state: agent.state, messages: agent.messages,
}))
"""


@pytest.fixture(scope="module")
def packages() -> Path:
    return installed("@ag-ui/client@1.0.0")


def verdicts(packages: Path, streams: list[list[dict[str, Any]]]) -> list[str]:
    return run(packages, VERIFY, streams)


def some(count: int) -> list[list[dict[str, Any]]]:
    """The streams of some random runs, the same ones each time."""
    found: list[list[dict[str, Any]]] = []

    @settings(
        max_examples=count,
        derandomize=True,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(scenarios)
    def collect(scenario: Scenario) -> None:
        found.append(streamed(recorded(scenario)[0]))

    collect()
    return found


def is_right(events: list[dict[str, Any]]) -> bool:
    try:
        check(events)
    except RuleBrokenError:
        return False
    return True


def test_its_verifier_accepts_any_run(packages: Path) -> None:
    streams = some(40)
    assert {event["type"] for events in streams for event in events} >= {"SUBAGENT_STARTED", "TOOL_CALL_RESULT"}
    assert set(verdicts(packages, streams)) == {""}


def test_what_its_verifier_refuses_breaks_our_rules_too(packages: Path) -> None:
    """Each stream with one event left out, or given twice."""
    broken = [
        [*events[:place], *([events[place]] * times), *events[place + 1 :]]
        for events in some(6)
        for place in range(min(len(events), 30))
        for times in (0, 2)
    ]
    found = verdicts(packages, broken)
    assert any(found)
    for events, verdict in zip(broken, found, strict=True):
        assert not (verdict and is_right(events)), (verdict, events)


def test_its_agent_talks_to_ours(packages: Path) -> None:
    wiped: list[str] = []

    @tool(requires_approval=True)
    def wipe(disk: str) -> str:
        """Wipe a disk."""
        wiped.append(disk)
        return f"{disk} is empty."

    @tool
    def plan(step: str, state: Annotated[AgUiState, Inject]) -> str:
        """Add a step."""
        state.update(steps=[step])
        return "Noted."

    helper = ReActAgent("helper", ScriptedModel([ThinkingBlock("Hm."), TextBlock("Helped.")]))
    model = ScriptedModel(
        "Hello, Ann.",
        [ThinkingBlock("Is it wise?"), TextBlock("I will."), call("wipe", disk="a")],
        "Wiped.",
        call("pick", floor=2),
        "Room 7.",
        [call("plan", step="rest"), call("call_helper", message="help")],
        "Planned.",
    )
    agent = ReActAgent("friday", model, tools=[wipe, plan, helper.as_tool()])
    with serving(AgentHost(agent)) as server:
        seen = run(packages, TALK, {"url": f"{server.url}/ag-ui", "pick": PICK})
    assert [outcome["type"] for outcome in seen["outcomes"]] == [
        "success",
        "interrupt",
        "success",
        "success",
        "success",
        "success",
    ]
    assert (seen["afterHello"], wiped, seen["state"]) == (2, ["b"], {"steps": ["rest"]})
    assert seen["refused"] == {"status": 422, "type": "InvalidInputError"}
    texts = [each.get("content") for each in seen["messages"] if each["role"] == "assistant" and each.get("content")]
    assert texts == ["Hello, Ann.", "I will.", "Wiped.", "Room 7.", "Helped.", "Planned."]
    # the history that it sends each time is not taken again
    assert [message.text for message in model.requests[-1].messages if message.role == "user"] == [
        "Hello.",
        "Wipe a.",
        "A room.",
        "Plan.",
    ]
