"""A stream is an Observable: subscribe to an agent's words through stock operators.

    python examples/chunk_stream.py

One run, two subscribers: one prints the answer line by line as it is written, the other counts. Runs offline: the model
plays a script. Put `OpenAIChatModel("gpt-5-mini")` in its place and nothing else changes.
"""

from __future__ import annotations

import threading

from reactivex import operators as ops

from agentscope_rx import Flow, ReActAgent, tool
from agentscope_rx.event import ActingChunkEvent, Event, ReasoningChunkEvent
from agentscope_rx.testing import ScriptedModel, call

SCRIPT = (
    call("population", city="Oslo"),
    ["Os", "lo has ", "about ", "720 000", " people.\n", "That is ", "a seventh", " of Norway."],
)


@tool
async def population(city: str) -> str:
    """How many people live in a city.

    Args:
        city: Its name in English.
    """
    return f"{city}: 720 000"


def text_of(event: Event) -> str:
    """What a chunk adds to the answer; nothing, if it is no chunk of text."""
    return event.text if isinstance(event, ReasoningChunkEvent) else ""


def joined(pieces: list[str]) -> str:
    """A buffer of pieces as one text."""
    return "".join(pieces)


def texts(events: Flow[Event]) -> Flow[str]:
    """The answer's text alone, piece by piece."""
    return events.pipe(ops.map(text_of), ops.filter(bool))


def main() -> None:
    """Subscribe twice to one run, and wait for its end."""
    agent = ReActAgent("Friday", ScriptedModel(*SCRIPT), tools=[population])

    # one run for several subscribers: nothing starts before connect()
    shared = agent.stream("How many people live in Oslo?").pipe(ops.publish())
    events = Flow[Event].pipe(flow_of(shared))
    finished = threading.Event()

    texts(events).pipe(ops.buffer_with_count(3), ops.map(joined)).subscribe(lambda part: print(f"three at a time: {part!r}"))
    texts(events).pipe(ops.map(len), ops.scan(add, 0), ops.last()).subscribe(lambda count: print(f"characters: {count}"))
    events.pipe(ops.filter(lambda event: isinstance(event, ActingChunkEvent))).subscribe(lambda _: print("a tool answered"))
    events.subscribe(on_error=print, on_completed=finished.set)

    shared.connect()
    finished.wait()
