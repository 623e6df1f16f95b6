"""A fact from round 3 at round 400: each strategy hides it, and it is found, by a model that sees its request only."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from agentscope_rx import Msg
from agentscope_rx.context_policy import (
    CompactionHook,
    DropOldResults,
    DropPictures,
    EvictLargeResults,
    ShortenArguments,
    ShortenResults,
    Strategy,
    Summarize,
)
from agentscope_rx.context_policy.policy import default_strategies
from agentscope_rx.messages import ToolUseBlock
from agentscope_rx.testing import run_virtual
from tests.context_policy.long_task import UNKNOWN, Explorer, explored, explorer, picture, plain, rooms_tool, shown

ROUNDS = 400


def large(room: int) -> str:
    """The fact is in the middle of a long text."""
    around = "word " * 60
    return f"{around}\nFACT room{room} = value{room}\n{around}"


def noted(number: int) -> ToolUseBlock:
    return ToolUseBlock(
        f"c{number}", "look", {"room": number, "note": f"FACT room{number} = value{number} {'z ' * 90}"}
    )


CASES: dict[str, tuple[Sequence[Strategy], Callable[[int], object], int, str]] = {
    "evict": ([EvictLargeResults(80, 40)], large, 60_000, "read back"),
    "shorten results": ([ShortenResults(60)], large, 60_000, "read back"),
    "drop": ([DropOldResults(keep_rounds=3)], large, 40_000, "read back"),
    "pictures": ([DropPictures()], picture, 60_000, "read back"),
    "summarize": ([Summarize(max_tokens=300)], plain, 3_000, "in the summary"),
    "all": (default_strategies(), large, 6_000, "in the summary"),
    "drop, then summarize": (
        [DropOldResults(keep_rounds=3), Summarize(max_tokens=300)],
        plain,
        4_000,
        "in the summary",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_a_fact_of_round_3_is_found_at_round_400(name: str) -> None:
    strategies, text, budget, how = CASES[name]
    model = Explorer(ROUNDS)
    agent = explorer(model, CompactionHook(strategies=strategies, max_tokens=budget), rooms_tool(text))
    assert run_virtual(explored(agent)) == "value3"
    assert max(model.sizes) <= budget
    assert model.read_back == (["again-c3"] if how == "read back" else [])
    at = [shown(message) for message in model.last_request if "FACT room3 =" in shown(message)]
    if how == "in the summary":
        assert model.summaries and [text.startswith("<summary>") for text in at] == [True]
    else:
        (again,) = at
        assert again == shown(model.last_request[-1]), "only what was read back has it"


def test_a_fact_in_arguments_is_found_at_round_400() -> None:
    model = Explorer(ROUNDS, call=noted)
    hook = CompactionHook(strategies=[ShortenArguments(40)], max_tokens=60_000)
    agent = explorer(model, hook, rooms_tool(lambda room: "Seen."))
    assert run_virtual(explored(agent)) == "value3"
    assert any("are left out" in shown(message) for message in model.last_request)


@pytest.mark.parametrize("cut", ["nothing", "summary"])
def test_the_check_finds_what_is_lost(cut: str) -> None:
    """The same check without the fact: in a summary that leaves it out, and with results that cannot be read back."""
    model = Explorer(ROUNDS, sought="room5")
    hook = CompactionHook(strategies=[Summarize(max_tokens=300)], max_tokens=3_000)
    agent = explorer(model, hook, rooms_tool(plain if cut == "summary" else large))
    assert run_virtual(explored(agent)) == UNKNOWN


def test_a_fact_of_an_earlier_call_is_found() -> None:
    model = Explorer(ROUNDS)
    hook = CompactionHook(strategies=[Summarize(max_tokens=300)], max_tokens=3_000)
    agent = explorer(model, hook, rooms_tool(plain))

    async def main() -> str:
        await explored(agent)
        model.rooms += 200
        await agent.call(Msg.user("Go on."))
        return (await agent.call(Msg.user("And what was in room 3?"))).text

    assert run_virtual(main()) == "value3"
