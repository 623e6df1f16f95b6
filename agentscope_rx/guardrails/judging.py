"""`judge`: several checks of one thing at once, and what follows from their verdicts.

stop      the first one to come counts; the other checks are cancelled
replace   in the order of the checks: the second one that replaces is asked again, about what the first has left
warn      all are reported, in the order of the checks

A check that fails, or passes its deadline, counts as a stop, or as a pass, as its `on_error` says.
"""

from __future__ import annotations

from collections.abc import Awaitable, Iterable, Sequence
from functools import partial
from inspect import isawaitable
from typing import cast

from reactivex import Observable, abc
from reactivex import operators as ops

from agentscope_rx.errors import DeadlineError
from agentscope_rx.frozen_values import dataclass
from agentscope_rx.guardrails.check_request import CheckRequest, changed_call
from agentscope_rx.guardrails.port import Guardrail
from agentscope_rx.guardrails.verdict import PASS, Content, Finding, Verdict
from agentscope_rx.reactive import (
    Flow,
    append_if_missing,
    catch,
    concat_map,
    empty,
    flat_map,
    flow,
    from_awaitable,
    from_callable,
    just,
    timeout,
)
from agentscope_rx.reactive.kernel.dropped import report_dropped


@dataclass(frozen=True, slots=True)
class Outcome:
    """What follows: a stop, content that takes the place of what was judged (None: it stays), and the findings."""

    findings: tuple[Finding, ...] = ()
    content: Content | None = None
    stop: Finding | None = None
    reply: str | None = None


NOTHING = Outcome()


class CheckFailure(Exception):
    """A check gave no verdict."""


def judge(checks: Sequence[Guardrail], request: CheckRequest) -> Outcome | Flow[Outcome]:
    """Ask the checks that are for this; at once if none of them takes time. Part of a subscription.

    Signals: one outcome; no error.
    Cancels: the checks in progress.
    """
    asked = [check for check in checks if check.judges(request)]
    if not asked:
        return NOTHING
    verdicts: list[_Judged | None] = [None] * len(asked)
    later: list[tuple[int, Flow[Verdict]]] = []
    for index, check in enumerate(asked):
        answer = _ask(check, request)
        if isinstance(answer, _Judged):
            verdicts[index] = answer
            if answer.verdict.action == "stop":
                _give_up(each for _, each in later)
                return _stopped(asked, verdicts, index, request)
        else:
            later.append((index, answer))
    if not later:
        return _combined(asked, verdicts, request)
    return _together(asked, verdicts, later, request)


def judge_now(checks: Sequence[Guardrail], request: CheckRequest) -> tuple[Outcome, bool]:
    """The outcome of the checks that take no time, and True if there are others, which are not asked."""
    asked = [check for check in checks if check.judges(request)]
    verdicts: list[_Judged | None] = [None] * len(asked)
    takes_time = False
    for index, check in enumerate(asked):
        answer = None if check.is_async else _ask(check, request)
        if isinstance(answer, _Judged):
            verdicts[index] = answer
            if answer.verdict.action == "stop":
                return _stopped(asked, verdicts, index, request), takes_time
        else:
            takes_time = True
            _give_up(() if answer is None else (answer,))
    return NOTHING, takes_time


@dataclass(frozen=True, slots=True)
class _Judged:
    """A verdict; `error` if the check has failed."""

    verdict: Verdict
    error: Exception | None = None


def _ask(check: Guardrail, request: CheckRequest) -> _Judged | Flow[Verdict]:
    if check.is_async:
        return from_callable(partial(cast("partial[Awaitable[Verdict]]", check.check), request))
    try:
        answer: object = check.check(request)
    except Exception as error:
        return _failed(check, request, error)
    if answer is None:
        return _Judged(PASS)
    if isinstance(answer, Verdict):
        return _valid(check, request, answer)
    if isinstance(answer, abc.ObservableBase):
        return flow(cast("Observable[Verdict]", answer))
    if isawaitable(answer):
        return _Awaited(cast("Awaitable[Verdict]", answer))
    return _valid(check, request, answer)


class _Awaited(Flow[Verdict]):
    """An awaitable, which is closed if it is never awaited."""

    def __init__(self, awaitable: Awaitable[Verdict]) -> None:
        self.awaitable = awaitable
        self._flow = from_awaitable(awaitable)
        super().__init__(self._flow._attach)


def _give_up(flows: Iterable[Flow[Verdict]]) -> None:
    for each in flows:
        close = getattr(each.awaitable, "close", None) if isinstance(each, _Awaited) else None
        if close is not None:
            close()


def _valid(check: Guardrail, request: CheckRequest, answer: object) -> _Judged:
    """The verdict, if what was judged can be treated so."""
    if answer is None:
        return _Judged(PASS)
    if not isinstance(answer, Verdict):
        return _failed(check, request, CheckFailure(f"returned {answer!r:.60}, not a Verdict or None"))
    if answer.action == "replace":
        if request.kind == "input" and check.parallel:
            return _failed(check, request, CheckFailure("a check beside the model cannot replace the input it has got"))
        try:
            if request.kind == "tool_call" and request.call is not None:
                changed_call(request.call, answer.content or {})
            elif not isinstance(answer.content, str):
                raise TypeError("a text was expected")
        except Exception as error:
            return _failed(check, request, error)
    return _Judged(answer)


def _failed(check: Guardrail, request: CheckRequest, error: Exception) -> _Judged:
    report_dropped(error, f"guardrail {check.name} on {request.kind} of agent {request.agent}")
    if check.on_error == "pass":
        return _Judged(PASS, error)
    what = "took too long" if isinstance(error, DeadlineError) else f"has failed ({type(error).__name__})"
    return _Judged(Verdict.stop(f"the check {what}"), error)


def _together(
    asked: Sequence[Guardrail],
    verdicts: list[_Judged | None],
    later: Sequence[tuple[int, Flow[Verdict]]],
    request: CheckRequest,
) -> Flow[Outcome]:
    """All checks that take time, at once."""
    left = len(later)

    def run(item: tuple[int, Flow[Verdict]]) -> Flow[tuple[int, _Judged]]:
        index, verdict = item
        check = asked[index]
        judged = verdict.pipe(ops.take(1), ops.map(partial(_valid, check, request)))
        judged = judged.pipe(append_if_missing(_Judged, lambda: _failed(check, request, CheckFailure("gave nothing"))))
        if check.timeout is not None:
            judged = judged.pipe(timeout(total=check.timeout))
        return judged.pipe(
            catch(lambda error: just(_failed(check, request, error))), ops.map(lambda found: (index, found))
        )

    def collect(item: tuple[int, _Judged]) -> Flow[Outcome]:
        nonlocal left
        index, found = item
        verdicts[index] = found
        left -= 1
        if found.verdict.action == "stop":
            return just(_stopped(asked, verdicts, index, request))
        if left:
            return empty()
        outcome = _combined(asked, verdicts, request)
        return just(outcome) if isinstance(outcome, Outcome) else outcome

    return just(*later).pipe(flat_map(run), concat_map(collect), ops.take(1))


def _findings(asked: Sequence[Guardrail], verdicts: Sequence[_Judged | None], request: CheckRequest) -> list[Finding]:
    return [
        Finding(check.name, request.kind, found.verdict.action, found.verdict.reason, found.error)
        for check, found in zip(asked, verdicts, strict=True)
        if found is not None and found.verdict.action != "pass"
    ]


def _stopped(
    asked: Sequence[Guardrail], verdicts: Sequence[_Judged | None], index: int, request: CheckRequest
) -> Outcome:
    findings = _findings(asked, verdicts, request)
    found = verdicts[index]
    assert found is not None
    stop = Finding(asked[index].name, request.kind, "stop", found.verdict.reason, found.error)
    return Outcome(tuple(findings), None, stop, found.verdict.reply)


def _combined(
    asked: Sequence[Guardrail], verdicts: Sequence[_Judged | None], request: CheckRequest
) -> Outcome | Flow[Outcome]:
    """No check has stopped it. Of several that replace it, each is asked about what those before it have left."""
    if all(found is None or found.verdict.action == "pass" for found in verdicts):
        return NOTHING
    findings = _findings(asked, verdicts, request)
    replacing = [n for n, found in enumerate(verdicts) if found is not None and found.verdict.action == "replace"]
    if not replacing:
        return Outcome(tuple(findings))
    first, *rest = replacing
    found = verdicts[first]
    content = None if found is None else found.verdict.content
    if not rest or content is None:
        return Outcome(tuple(findings), content)
    again = judge([asked[n] for n in rest], request.with_content(content))
    asked_again = {asked[n].name for n in rest}
    before = tuple(each for each in findings if each.guardrail not in asked_again)

    def join(inner: Outcome) -> Outcome:
        kept = content if inner.content is None else inner.content
        return Outcome((*before, *inner.findings), kept, inner.stop, inner.reply)

    return join(again) if isinstance(again, Outcome) else flow(again.pipe(ops.map(join)))
