"""An agent with quick tools, and its memory and events in one line each.

said(friday) == ["user hi", "Friday [a b]", "a=Sunny in Rome", "b!failed", "Friday done"]
trace(events) == "pre_call pre_reasoning reasoning_chunk*2 post_reasoning post_call"
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import groupby
from typing import Any

from agentscope_rx import Msg, ReActAgent, Tool, ToolResultBlock, ToolUseBlock, tool
from agentscope_rx.events import Event
from agentscope_rx.testing import ScriptedModel
from tests.agent.parts import assert_whole, remembered, slow, weather
from tests.support.assertions import assert_prompts_are_whole, results_in


@tool
async def broken(reason: str = "because") -> str:
    """Fails."""
    raise ValueError(reason)


def use(id: str, name: str = "weather", /, **arguments: object) -> ToolUseBlock:
    """A call with an id of our own; of `weather` in Rome unless said otherwise."""
    return ToolUseBlock(id, name, arguments or ({"city": "Rome"} if name == "weather" else {}))


def given(id: str, text: str = "from outside", name: str = "weather") -> ToolResultBlock:
    """A result from outside."""
    return ToolResultBlock.of(ToolUseBlock(id, name), text)


def agent(
    *turns: Any, tools: Iterable[Tool | Callable[..., object]] = (weather, slow, broken), **options: Any
) -> ReActAgent:
    """An agent named Friday with a script and these tools."""
    model = turns[0] if len(turns) == 1 and isinstance(turns[0], ScriptedModel) else ScriptedModel(*turns)
    if "toolkit" not in options:
        options["tools"] = list(tools)
    return ReActAgent("Friday", model, options.pop("sys_prompt", "You are Friday."), **options)


def line(message: Msg) -> str:
    """A message in one line: `speaker text [calls]`, or `id=text` (`id!kind`) of its results."""
    results = [f"{r.id}={r.text}" if r.kind is None else f"{r.id}!{r.kind.value}" for r in message.tool_results]
    if results and not message.tool_calls:
        return " ".join([*results, message.text]).rstrip()
    calls = [f"[{' '.join(call.id for call in message.tool_calls)}]"] if message.tool_calls else []
    words = [message.text] if message.text else []
    return " ".join([message.name, *words, *calls, *results])


def said(friday: ReActAgent) -> list[str]:
    """The memory, line by line."""
    return [line(message) for message in remembered(friday)]


def trace(events: Sequence[Event]) -> str:
    """The kinds of events in order; repeated ones counted."""
    runs = [(kind, len(list(same))) for kind, same in groupby(event.type for event in events)]
    return " ".join(kind if count == 1 else f"{kind}*{count}" for kind, count in runs)


def assert_good(friday: ReActAgent, pending: Sequence[str] = (), *, late: Sequence[str] = ()) -> None:
    """What holds after any end: every call has one result, and no prompt would be refused; no run is in progress.

    Results stand in call order, but for the `late` ones, which were given in a later call than their siblings'.
    """
    assert not friday.running
    if late:
        calls = [call.id for message in remembered(friday) for call in message.tool_calls]
        assert sorted(results_in(remembered(friday))) == sorted(id for id in calls if id not in pending)
    else:
        assert_whole(friday, pending=pending)
    assert isinstance(friday.model, ScriptedModel)
    assert_prompts_are_whole(friday.model)
