"""Options of checks and of the hook: wrong ones are refused where they are given; the state is saved."""

from __future__ import annotations

import pytest

from agentscope_rx.errors import ConfigurationError, InvalidInputError
from agentscope_rx.events import PreCallEvent
from agentscope_rx.events.base import EventSource
from agentscope_rx.events.kinds import ResumedRun
from agentscope_rx.guardrails import CheckRequest, Guardrail, GuardrailsHook, Secrets, Verdict, guardrail
from agentscope_rx.guardrails.state import GuardState, Stop, part_of
from agentscope_rx.parts import PartStates
from agentscope_rx.session import InMemorySession
from agentscope_rx.testing import ScriptedModel, run_virtual
from tests.agent.parts import agent, remembered
from tests.guardrails.guard_parts import guarded, run


@pytest.mark.parametrize(
    ("kinds", "options"),
    [
        ((), {}),
        (("inputs",), {}),
        (("input",), {"timeout": 0}),
        (("input",), {"timeout": True}),
        (("input",), {"on_error": "raise"}),
        (("output",), {"parallel": True}),
        (("input",), {"whole": True}),
        (("output",), {"reach": -1}),
        (("tool_call",), {"tools": "deliver"}),
    ],
)
def test_wrong_options_of_a_check_are_refused(kinds, options):
    with pytest.raises(ConfigurationError):
        guardrail(*kinds, **options)(lambda request: None)


@pytest.mark.parametrize(
    "options",
    [
        {"on_stop": "raise"},
        {"refused": "drop"},
        {"thinking": "judge"},
        {"max_delay": 0},
        {"max_delay": float("inf")},
        {"max_chars": 0},
        {"max_chars": 39},
    ],
)
def test_wrong_options_of_the_hook_are_refused(options):
    check = guardrail("output", reach=10)(lambda request: None)
    with pytest.raises(ConfigurationError):
        GuardrailsHook(check, **options)


def test_something_else_is_no_check():
    with pytest.raises(ConfigurationError, match="@guardrail"):
        GuardrailsHook(lambda request: None)  # type: ignore[arg-type]


def test_an_object_is_a_check():
    class NoVowels(Guardrail):
        kinds = ("output", "input")

        async def check(self, request: CheckRequest):
            return Verdict.stop("a vowel") if set(request.text) & set("aeiou") else None

    assert run(guarded(NoVowels()), "hm", given=("pst",))[0].reply == "hm"
    assert run(guarded(NoVowels()), "oh", given=("pst",))[0].reply == "I cannot go on with this: a vowel"
    assert repr(NoVowels()) == "<guardrail NoVowels on output and input>"


@pytest.mark.parametrize("make", [lambda: Verdict.replace(5), lambda: Verdict.stop(5), lambda: Verdict("replace")])
def test_a_wrong_verdict_is_refused(make):
    with pytest.raises(InvalidInputError):
        make()


# --- the state ------------------------------------------------------------------------------------------------------


def test_the_state_is_plain_json():
    state = GuardState({"r1": Stop("g", "input", "why", "reply")}, ("m1",), ("m2",))
    part, states, other = part_of("guardrails"), PartStates(), PartStates()
    part.change(states, lambda before: (state, None))
    other.restore(states.dump())
    assert part.get(other) == state
    other.restore({"guardrails": {"version": 1, "state": {"stops": 3}}})
    with pytest.raises(InvalidInputError):
        part.get(other)


def test_a_run_that_goes_on_is_stopped_as_the_lost_one_was():
    hook = guarded(guardrail("input")(lambda request: None))
    parts = PartStates()
    stop = Stop("g", "input", "why", "reply")
    part = part_of("guardrails")
    part.change(parts, lambda before: (GuardState({"lost": stop, "older": stop}), None))
    source = EventSource("new", "Friday", ("new",), None, parts)
    hook.on_pre_call(PreCallEvent(source=source, resumes=ResumedRun("lost")))
    assert part.get(parts).stops == {"new": stop}
    hook.on_pre_call(PreCallEvent(source=EventSource("next", "Friday", ("next",), None, parts)))
    hook.revised(source, ())
    hook.on_pre_call(PreCallEvent(source=EventSource("last", "Friday", ("last",), None, parts)))
    assert part.get(parts).stops == {}


def test_an_unjudged_input_is_saved_as_such():
    async def main():
        session = InMemorySession()

        seen: list[str] = []

        @guardrail("input", parallel=True)
        async def check(request):
            seen.append(request.text)

        first = agent(ScriptedModel("x"), hooks=[guarded(check)])
        await first.call("prose")
        part = part_of("guardrails")
        entry = f"{remembered(first)[0].id} check"
        part.change(first.conversation(), lambda before: (GuardState({}, (entry,)), None))
        await first.save(session, "s")
        other = agent(ScriptedModel("y"), hooks=[guarded(check)])
        await other.load(session, "s")
        assert part.get(other.conversation()).unjudged == (entry,)
        await other.call("prose")
        assert part.get(other.conversation()).unjudged == () and seen == ["prose", "prose", "prose"]

    run_virtual(main())


def test_what_is_no_check_says_what_to_write():
    with pytest.raises(ConfigurationError, match=r"@guardrail\('input'\)"):
        guardrail(lambda request: None)
    with pytest.raises(ConfigurationError, match="takes regular expressions by what they find"):
        Secrets(patterns=["T-[0-9]+"])
    for options in ({"on_warning": 3}, {"reply": 3}, {"notice": None}):
        with pytest.raises(ConfigurationError, match=next(iter(options))):
            GuardrailsHook(**options)
