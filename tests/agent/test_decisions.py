"""Every decision of the loop, in a run: x what was pending before it x what limits it.

What is pending does not change what a decision means, and a limit keeps a run from going on, not from ending well:
so one row says how a run ends for each decision and limit, and holds for all four kinds of pending calls.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest
from reactivex import operators as ops

from agentscope_rx import Approve, GenerateReason, Hook, Msg, Toolkit, UsageLimits, hook, tool
from agentscope_rx.errors import UsageLimitError
from agentscope_rx.events import Event, PostReasoningEvent, PreCallEvent
from agentscope_rx.models.options import ToolSchema
from agentscope_rx.testing import ScriptedModel, run_virtual
from tests.agent.parts import remembered
from tests.agent.shorthand import agent, assert_good, given, said, trace, use
from tests.support.assertions import assert_one_truth

STOP, GOTO = "Shall I?", "Hm."


class ByWords(Hook):
    """Stops the run at one answer, and sends the model back at another."""

    def on_event(self, event: Event) -> Event | None:
        if isinstance(event, PostReasoningEvent):
            if event.message.text == STOP:
                return event.stop()
            if event.message.text == GOTO:
                return event.goto_reasoning("Look again.")
        return None


@tool(requires_approval=True)
async def risky() -> str:
    """Needs approval."""
    return "done"


@tool
async def harmless() -> str:
    """Needs none."""
    return "done"


BEFORE: dict[str, tuple[Any, Any, list[str], int]] = {
    # how the first run ends; what the second is given; what it remembers of that; rounds that this costs
    "no pending": ("Hello.", "go on", ["user go on"], 0),
    "pending by stop": ([STOP, use("p", "harmless")], None, ["p=done"], 1),
    "pending by approval": (use("p", "risky"), Approve("p"), ["p=done"], 1),
    "pending by suspension": (use("p", "external"), Msg.tool(given("p", "done", "external")), ["p=done"], 0),
}

SCRIPTS: dict[str, list[Any]] = {
    "finish": ["Fine."],
    "stop": [[STOP, use("c", "harmless")], "Fine."],
    "goto": [GOTO, "Fine."],
    "act": [use("c", "harmless"), "Fine."],
    "suspend": [use("c", "external"), "Fine."],
    "summarize": [use("c", "harmless"), use("d", "harmless"), "Fine."],
}

ROUNDS = 2
"""How many rounds a run has where nothing else limits it."""


class Row(NamedTuple):
    """How the run ends: the reason of its reply or the limit of its error, and what it has remembered by then."""

    end: GenerateReason | str
    memory: list[str]
    pending: tuple[str, ...] = ()


FINISHED, STOPPED = GenerateReason.MODEL_STOP, GenerateReason.REASONING_STOP_REQUESTED
SUSPENDED, USED_UP, LIMITED = (
    GenerateReason.TOOL_SUSPENDED,
    GenerateReason.MAX_ITERATIONS,
    GenerateReason.LIMIT_REACHED,
)
FINE, CALLED, ASKED = ["Friday Fine."], ["Friday [c]", "c=done"], ["Friday Shall I? [c]"]
AGAIN, TWICE = ["Friday Hm.", "user Look again."], ["Friday [c]", "c=done", "Friday [d]", "d=done"]

TABLE: dict[str, dict[str, Row]] = {
    "no limit": {
        "finish": Row(FINISHED, FINE),
        "stop": Row(STOPPED, ASKED, ("c",)),
        "goto": Row(FINISHED, AGAIN + FINE),
        "act": Row(FINISHED, CALLED + FINE),
        "suspend": Row(SUSPENDED, ["Friday [c]"], ("c",)),
        "summarize": Row(USED_UP, TWICE + FINE),
    },
    "max_iters": {
        "finish": Row(FINISHED, FINE),
        "stop": Row(STOPPED, ASKED, ("c",)),
        "goto": Row(FINISHED, AGAIN + FINE),
        "act": Row(USED_UP, CALLED + FINE),
        "suspend": Row(SUSPENDED, ["Friday [c]"], ("c",)),
        "summarize": Row(USED_UP, [*CALLED, "Friday Fine."]),
    },
    "usage limit, error": {
        "finish": Row(FINISHED, FINE),
        "stop": Row(STOPPED, ASKED, ("c",)),
        "goto": Row("model_calls", AGAIN),
        "act": Row("model_calls", CALLED),
        "suspend": Row(SUSPENDED, ["Friday [c]"], ("c",)),
        "summarize": Row("model_calls", CALLED),
    },
    "usage limit, summary": {
        "finish": Row(FINISHED, FINE),
        "stop": Row(STOPPED, ASKED, ("c",)),
        "goto": Row(LIMITED, AGAIN + FINE),
        "act": Row(LIMITED, CALLED + FINE),
        "suspend": Row(SUSPENDED, ["Friday [c]"], ("c",)),
        "summarize": Row(LIMITED, CALLED + FINE),
    },
}


CASES = [(limit, decision, "no pending") for limit in TABLE for decision in SCRIPTS] + [
    (list(TABLE)[(first + second) % len(TABLE)], decision, before)
    for first, before in enumerate(BEFORE)
    for second, decision in enumerate(SCRIPTS)
    if before != "no pending"
]
"""All rows with nothing pending, and each decision and limit some time with each kind of pending calls.

That the kinds mix with everything else is what the random scripts look at (see `test_scripts`).
"""


@pytest.mark.spec("§5.3-5.9")
@pytest.mark.parametrize(("limit", "decision", "before"), CASES)
def test_every_decision(limit: str, decision: str, before: str) -> None:
    """What ends the run, with which reason, after how many questions, and what is remembered and pending."""
    row = TABLE[limit][decision]
    first, then, taken, rounds = BEFORE[before]

    async def main() -> None:
        toolkit = Toolkit([harmless, risky])
        toolkit.register_schema(ToolSchema("external", "Runs elsewhere.", {"type": "object", "properties": {}}))
        script = SCRIPTS[decision]
        if decision == "summarize" and limit != "no limit":
            script = [script[0], script[-1]]
        model = ScriptedModel(first, *script)
        friday = agent(model, toolkit=toolkit, hooks=[ByWords()], max_iters=ROUNDS + rounds)
        await friday.call("hi")
        known = list(remembered(friday))
        if limit == "max_iters":
            friday.max_iters = 1 + rounds
        limits = None
        if limit.startswith("usage"):
            limits = UsageLimits(model_calls=1, on_limit="error" if limit.endswith("error") else "summary")

        events: list[Event] = []
        run = friday.stream(then, limits=limits).pipe(ops.do_action(events.append))
        if isinstance(row.end, GenerateReason):
            await run
            assert events[-1].message.generate_reason is row.end
            assert events[-1].message.text == {"suspend": "", "stop": STOP}.get(decision, "Fine.")

        else:
            with pytest.raises(UsageLimitError) as caught:
                await run
            assert events[-1].error is caught.value and caught.value.which == row.end

        assert said(friday)[len(known) :] == taken + row.memory
        asked = sum(1 for each in row.memory if each.startswith("Friday"))
        assert len(model.requests) == 1 + asked
        assert friday.conversation().pending == set(row.pending)
        assert_one_truth(events, known, remembered(friday))
        assert_good(friday, row.pending)

        # and the conversation goes on
        friday.model = ScriptedModel("and on")
        assert (await friday.call("next")).text == "and on"
        assert_good(friday)

    run_virtual(main())


@pytest.mark.parametrize("before", ["pending by stop", "pending by approval"])
@pytest.mark.parametrize("on_limit", ["error", "summary"])
def test_a_limit_that_pending_calls_would_pass(before: str, on_limit: str) -> None:
    """Pending calls count as any others: at the limit for tools they do not run, and are closed."""
    first, then, _, _ = BEFORE[before]

    async def main() -> None:
        friday = agent(first, "No more.", tools=[harmless, risky], hooks=[ByWords()])
        await friday.call("hi")
        limits = UsageLimits(tool_calls=0, on_limit=on_limit)
        if on_limit == "error":
            with pytest.raises(UsageLimitError, match="tool_calls"):
                await friday.call(then, limits=limits)
            assert said(friday)[2:] == ["p!failed"]
        else:
            reply = await friday.call(then, limits=limits)
            assert reply.generate_reason is LIMITED
            assert said(friday)[2:] == ["p!rejected", "Friday No more."]
        assert_good(friday)

    run_virtual(main())


@pytest.mark.spec("§11", "R4")
@pytest.mark.parametrize("before", BEFORE)
def test_an_interruption_before_the_first_step(before: str) -> None:
    """Noticed at the first check point; nothing runs or is asked, and what was pending is closed."""
    first, _, _, _ = BEFORE[before]

    async def main() -> None:
        def interrupt(event: PreCallEvent) -> None:
            if event.history:
                friday.interrupt("Stop.")

        toolkit = Toolkit([harmless, risky])
        toolkit.register_schema(ToolSchema("external", "Runs elsewhere.", {"type": "object", "properties": {}}))
        friday = agent(first, "next", toolkit=toolkit, hooks=[ByWords(), hook(PreCallEvent)(interrupt)])
        await friday.call("hi")
        closed = [] if before == "no pending" else ["p!interrupted"]
        events = await friday.stream().pipe(ops.to_list())
        assert trace(events) == f"pre_call {'post_acting ' if closed else ''}post_call"
        assert said(friday)[2:] == [*closed, "user Stop."]
        assert len(friday.model.requests) == 1
        assert_good(friday)

    run_virtual(main())
