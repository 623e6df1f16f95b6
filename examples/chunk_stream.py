"""A stream is an Observable: an agent's words, as they come, through stock operators.

Look at: the three `pipe(...)`s. Each view is one run: nothing starts before `subscribe` or `run`, and leaving the
stream, as `take_while` does, stops the run.

    python examples/chunk_stream.py
    AGENTSCOPE_RX_MODEL=openai:gpt-5-mini python examples/chunk_stream.py
"""

from __future__ import annotations

import os
import threading

from reactivex import operators as ops

from agentscope_rx import Flow, ReActAgent, tool
from agentscope_rx.events import Event, PostActingEvent, ReasoningChunkEvent
from agentscope_rx.testing import ScriptedModel, call

SCRIPT = (
    call("population", city="Oslo"),
    ["Os", "lo has ", "720 000", " people.\n", "That is ", "a seventh", " of Norway."],
)


@tool
async def population(city: str) -> str:
    """How many people live in a city.

    Args:
        city: Its name in English.
    """
    return f"{city}: 720 000"


model = os.environ.get("AGENTSCOPE_RX_MODEL") or ScriptedModel(*SCRIPT, repeat=True)
agent = ReActAgent("Friday", model, tools=[population])


def ask() -> Flow[Event]:
    """A run, not begun."""
    return agent.stream("How many people live in Oslo?")


def text_of(event: Event) -> str:
    """What an event adds to the answer: nothing, unless it is a chunk of text."""
    return event.text if isinstance(event, ReasoningChunkEvent) else ""


def one_line(event: Event) -> str:
    """An event for a log."""
    return f"{event.seq:2} {event.type}"


def in_groups() -> None:
    """`filter`, `map`, `buffer`: the answer in groups of three chunks."""
    finished = threading.Event()
    ask().pipe(
        ops.map(text_of),
        ops.filter(bool),
        ops.buffer_with_count(3),
        ops.map("".join),
    ).subscribe(
        on_next=lambda group: print(f"  {group!r}"),
        on_error=lambda error: print(f"  failed: {error}"),
        on_completed=finished.set,
    )
    # signals come on the library's loop thread: a script has to wait for the end
    finished.wait()


def with_a_running_count() -> None:
    """`scan`: how much of the answer is there. `run()` blocks and gives the last value."""

    def longer(count: int, text: str) -> int:
        return count + len(text)

    counts = ask().pipe(ops.map(text_of), ops.filter(bool), ops.scan(longer, 0), ops.do_action(show_count))
    print(f"  {counts.run()} characters")


def show_count(count: int) -> None:
    """A bar that grows, one mark for every five characters."""
    print(f"  {'#' * (count // 5):10} {count:2}")


def until_the_tool_has_answered() -> None:
    """`take_while`: leaving the stream stops the run; the model is not asked a second time."""
    ask().pipe(
        ops.take_while(lambda event: not isinstance(event, PostActingEvent), inclusive=True),
        ops.map(one_line),
        ops.do_action(lambda line: print(f"  {line}")),
    ).run()


if __name__ == "__main__":
    print("in groups of three:")
    in_groups()
    print("with a running count:")
    with_a_running_count()
    print("until the tool has answered:")
    until_the_tool_has_answered()
