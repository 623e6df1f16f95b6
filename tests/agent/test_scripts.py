"""Random scripts: whatever happens to an agent, step by step, memory is whole, the stream tells the truth, and what the
tools have done is what the history says.

A script is a value (`tests.support.scripts.steps`): what fails can be pasted here as a test of its own.
"""

from __future__ import annotations

import os
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, Phase, assume, given, note, settings

from agentscope_rx import GenerateReason
from tests.support.scripts.__main__ import play_in_processes
from tests.support.scripts.steps import (
    Answers,
    Both,
    Call,
    End,
    Fault,
    Hooked,
    Limit,
    Output,
    Respond,
    Restart,
    Script,
    Setup,
    Step,
    Use,
)
from tests.support.scripts.strategies import scripts
from tests.support.scripts.world import World

APART = 1 / 256
EXAMPLES = int(os.environ.get("AGENTSCOPE_RX_EXAMPLES", "40"))


quick_to_shrink = settings(
    max_examples=EXAMPLES,
    phases=[Phase.explicit, Phase.generate, Phase.shrink],
    suppress_health_check=list(HealthCheck),
)


@pytest.mark.spec("§22.10")
@quick_to_shrink
@given(script=scripts())
def test_whatever_happens(script: Script, tmp_path_factory):
    """A§4; java-core.md §22.10."""
    root = tmp_path_factory.mktemp("sessions") if script.setup.store == "files" else None
    note(repr(script))
    World(script, root).play()


def play(*steps: Step, **setup: object) -> World:
    """A script that once failed."""
    return World(Script(Setup(**setup), steps)).play()  # pyright: ignore


@pytest.mark.parametrize("event", range(8))
@pytest.mark.parametrize("hook", ["fail", "fail_later"])
def test_an_interruption_reply_is_emitted_when_post_call_fails(hook: str, event: int):
    """It was in memory, and no event said so: neither a Post event of a stage nor PostCall."""
    cut = Call(turns=((Use("slow"),),), end=End("interrupt", 1))
    world = play(cut, hooks=(Hooked(hook, event),))
    if event == 7:
        assert world.told[0][0] == "HookFailed" and world.hooks[0].failed_at == "post_call"


def test_the_output_of_a_run_is_told_when_post_call_fails():
    answer = Call(turns=((Respond(),),), output=Output("tool"))
    for event in range(9):
        play(answer, hooks=(Hooked("fail", event),))


@pytest.mark.parametrize("event", range(3, 8))
def test_a_shutdown_saves_no_response_in_vain_as_pending(event: int):
    """The state was put together before the response had been taken out of memory: it named a call that was gone."""
    wrong = Call(turns=((Respond(right=False),),), end=End("shutdown", event), output=Output("tool", retries=0))
    play(wrong, hooks=(Hooked("sleepy"), Hooked("sleepy")), bound=True)


@pytest.mark.parametrize("max_iters", [1, 5])
@pytest.mark.parametrize("broken", [False, True])
def test_calls_beyond_a_limit_have_results_if_the_output_fails(broken: bool, max_iters: int):
    """The last chance had been had at `max_iters`: its text became the reply, and the calls stayed open for good."""
    uses = (Use("quick", broken=broken),) * 2
    output = Output("tool", retries=1, text=True)
    asked = Call(turns=((Respond(right=False),), uses), output=output, limit=Limit("tool_calls", 1, summary=True))
    world = play(asked, max_iters=max_iters, parallel=False)
    assert world.memories[0].messages[-1].generate_reason is GenerateReason.LIMIT_REACHED


def test_a_failed_response_is_removed_when_a_hook_stops_the_run():
    """It was kept for the sake of the reply, which was another call's result."""
    both = Call(turns=((Use("quick"), Respond(right=False)),))
    play(both, finish="tool", hooks=(Hooked("stop_acting"),))
    play(replace(both, output=Output("tool")), hooks=(Hooked("stop_acting"),))
    # the result that it was stopped at is the reply, and stays: also the first of two
    play(Call(turns=((Respond(right=False),) * 2,), output=Output("tool")), hooks=(Hooked("stop_acting"),))
    play(replace(both, output=Output("tool")), hooks=(Hooked("stop_acting", 1),))


def test_a_hook_stopping_at_the_response_leaves_no_call_pending():
    """The reply was the response, and said of no call that it waits; but one did, where nothing could find it."""
    for beside in ("once", "risky", "ask"):
        both = Call(turns=((Respond(), Use(beside)),))
        play(both, Call(), finish="tool", hooks=(Hooked("stop_acting"),))
        play(replace(both, output=Output("tool")), Call(), hooks=(Hooked("stop_acting"),))


@pytest.mark.parametrize("way", ["raise", "fail"])
def test_a_memory_that_fails_anywhere_is_told_of(way: str):
    """What was raised at the call, where the traces of an output were looked for after a failure, hid that failure."""
    for place in range(12):
        play(Call(output=Output("native")), fault=Fault(way, place))


def test_repeated_input_after_a_shutdown_asks_for_output_again():
    """The checks took the error of an output for one that was not asked for."""
    asked = Call(turns=((Use("quick", split=True),),), output=Output("tool", retries=0))
    play(Call(), Call(), Both(asked, Call(end=End("shutdown"), conversation=1)), Call(), parallel=False)


@settings(quick_to_shrink, max_examples=max(EXAMPLES // 2, 20))
@given(script=scripts(files=False, same_ids=False, faults=False))
def test_another_process_goes_on_as_this_one_would(script: Script):
    """A restart between two steps changes nothing that happens afterwards."""
    # (a worker has its own time, and a rate knows nothing of the process before)
    assume("worker" not in repr(script) and script.setup.kit != "rates")
    # (which of two things of the very same moment is first, is not said)
    one, other = World(script, apart=APART), World(script, restarts=True, apart=APART)
    assert one.play().story() == other.play().story()


def test_in_processes_of_their_own(tmp_path):
    """What waits for an approval, a person or a result, and what was approved for good, outlives a real process."""
    steps = (
        Call(turns=((Use("risky", 1), Use("once"), Use("ask"), Use("slow")),)),
        Restart(),
        Call(Answers(("leave", "leave", "result"))),
        Call(Answers(("always",)), turns=((Use("risky"),),), end=End("shutdown", 1)),
        Call(turns=((Use("risky"), Use("pay", 1)),)),
        Restart(),
        Call(Answers(("edit",))),
    )
    script = Script(Setup(store="files", bound=True), steps)
    world = play_in_processes(World(script, tmp_path / "real"), tmp_path / "world")
    assert world.story() == World(script, tmp_path / "played").play().story()
