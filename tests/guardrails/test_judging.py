"""`judge`: the first stop counts and cancels the rest; replacements follow one another; warnings keep their order."""

from __future__ import annotations

import asyncio

from hypothesis import given, settings
from hypothesis import strategies as st

from agentscope_rx.guardrails import CheckRequest, Verdict, guardrail
from agentscope_rx.guardrails.judging import NOTHING, Outcome, judge, judge_now
from agentscope_rx.reactive import Flow
from agentscope_rx.testing import run_virtual

ACTIONS = st.sampled_from(["pass", "pass", "warn", "replace", "stop", "fail"])
REQUEST = CheckRequest(kind="output", text="x")


def check_of(number: int, action: str, delay: float | None, asked: list[int], ended: list[int]):
    def verdict(request):
        asked.append(number)
        if action == "fail":
            raise ValueError(number)
        if action == "stop":
            return Verdict.stop(str(number))
        if action == "replace":
            return Verdict.replace(f"{request.text}{number}", str(number))
        return Verdict.warn(str(number)) if action == "warn" else None

    async def later(request):
        try:
            await asyncio.sleep(delay)
            return verdict(request)
        finally:
            ended.append(number)

    return guardrail("output", name=str(number))(verdict if delay is None else later)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(ACTIONS, st.one_of(st.none(), st.sampled_from([0.0, 1.0, 2.0, 3.0]))), max_size=6))
def test_the_order_of_verdicts(checks):
    from agentscope_rx.testing import collect_dropped

    asked: list[int] = []
    ended: list[int] = []

    async def main() -> tuple[Outcome, float]:
        made = [check_of(n, action, delay, asked, ended) for n, (action, delay) in enumerate(checks)]
        outcome = judge(made, REQUEST)
        if isinstance(outcome, Flow):
            outcome = await outcome
        return outcome, asyncio.get_running_loop().time()

    with collect_dropped():
        outcome, took = run_virtual(main())
    times = {
        n: -1.0 if delay is None else delay for n, (action, delay) in enumerate(checks) if action in ("stop", "fail")
    }
    if times:
        # at once, in their order; then by their time (the loop does not order timers of one moment)
        at = min(times.values())
        first = [str(n) for n, time in times.items() if time == at]
        assert outcome.stop is not None and outcome.stop.guardrail in (first[:1] if at < 0 else first)
        assert outcome.content is None and took == max(at, 0.0)
        return
    replacing = [n for n, (action, _) in enumerate(checks) if action == "replace"]
    assert outcome.stop is None
    assert outcome.content == ("x" + "".join(map(str, replacing)) if replacing else None)
    assert sorted(found.guardrail for found in outcome.findings) == [
        str(n) for n, (action, _) in enumerate(checks) if action in ("warn", "replace")
    ]
    warned = [found.reason for found in outcome.findings if found.action == "warn"]
    assert warned == sorted(warned)
    if not outcome.findings:
        assert outcome == NOTHING


def test_checks_of_other_kinds_are_not_asked():
    asked: list[int] = []
    check = check_of(1, "stop", None, asked, [])
    assert judge([check], CheckRequest(kind="input", text="x")) == NOTHING and asked == []


def test_a_stop_at_once_closes_the_awaitables():
    closed: list[str] = []

    async def slow():
        closed.append("never begun")

    @guardrail("output")
    def first(request):
        return slow()

    @guardrail("output")
    def second(request):
        return Verdict.stop("no")

    # (a coroutine that is never awaited would be a warning, which fails the test)
    outcome = judge([first, second], REQUEST)
    assert isinstance(outcome, Outcome) and outcome.stop is not None and closed == []
    assert judge_now([first, second], REQUEST)[0].stop is not None
    assert judge_now([first], REQUEST) == (NOTHING, True)
