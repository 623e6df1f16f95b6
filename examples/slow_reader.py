"""Back-pressure: a reader that is slower than the model, and three ways to treat it.

Look at: the seconds and the text. `WAIT` holds the model back: it takes as long as the reader. `COALESCE` joins pieces
that the reader has no time for: nothing is lost, and the model does not wait. `DROP_OLDEST` loses what has become old,
as a live view may. `subscribe` has none of these: its callback would block the run.

    python examples/slow_reader.py           in virtual time: the seconds that are printed take none
    AGENTSCOPE_RX_MODEL=openai:gpt-5-mini python examples/slow_reader.py
"""

from __future__ import annotations

import asyncio
import os

from agentscope_rx import ReActAgent
from agentscope_rx.events import Event, ReasoningChunkEvent, coalesce_chunks
from agentscope_rx.reactive import FlowIterator, Overflow
from agentscope_rx.testing import Delay, ScriptedModel, run_virtual

MODEL = os.environ.get("AGENTSCOPE_RX_MODEL")
TEXT = "The tide comes in twice a day, and takes with it what the children have built. "


async def read(how: str, events: FlowIterator[Event]) -> None:
    """Take half a second for each piece of text; the model writes one every tenth."""
    loop = asyncio.get_running_loop()
    begun = loop.time()
    pieces: list[str] = []
    async with events:
        async for event in events:
            if isinstance(event, ReasoningChunkEvent) and event.text:
                pieces.append(event.text)
                await asyncio.sleep(0.5)
        counts = events.statistics()
    print(f"{how}: {loop.time() - begun:.1f} s, {len(pieces)} pieces, merged {counts.merged}, dropped {counts.dropped}")
    print(f"  {''.join(pieces)[:90]!r}")


async def main() -> None:
    script = [step for word in TEXT.split() for step in (f"{word} ", Delay(0.1))]
    agent = ReActAgent("Friday", MODEL or ScriptedModel(script, repeat=True), "Answer in one sentence.")
    question = "Tell me about the tide."
    await read("WAIT", agent.stream(question).buffered(4, Overflow.WAIT))
    await read("COALESCE", agent.stream(question).buffered(4, coalesce=coalesce_chunks))
    await read("DROP_OLDEST", agent.stream(question).buffered(4, Overflow.DROP_OLDEST))


if __name__ == "__main__":
    # a real model needs real time
    asyncio.run(main()) if MODEL else run_virtual(main())
