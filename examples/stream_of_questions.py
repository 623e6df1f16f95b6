"""An Observable of inputs: an agent over a stream of questions, three at once, read no faster than they are answered.

Look at: the lines "(question n is read)". The generator is endless, and yet only as many questions are read as are
being answered: back-pressure reaches the source. `take` ends the stream, and with it what is in progress.

    python examples/stream_of_questions.py               in virtual time: the seconds that are printed take none
    AGENTSCOPE_RX_MODEL=openai:gpt-5-mini python examples/stream_of_questions.py
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from itertools import count

from reactivex import operators as ops

from agentscope_rx import ReActAgent, map_agent
from agentscope_rx.reactive import from_iterable
from agentscope_rx.testing import Delay, ScriptedModel, ScriptedRequest, run_virtual
from agentscope_rx.testing.scripted_model import Reply

MODEL = os.environ.get("AGENTSCOPE_RX_MODEL")


def questions() -> Iterator[str]:
    """Questions without end, as a queue or a log would give them."""
    for number in count(1):
        print(f"  (question {number} is read)")
        yield f"How much is {number} times {number}?"


def answer(request: ScriptedRequest) -> Reply:
    """The model: it takes two seconds; for every third question it takes five."""
    number = int(request.messages[-1].text.split()[3])
    return [Delay(5 if number % 3 == 0 else 2), f"It is {number * number}."]


async def main() -> None:
    agent = ReActAgent("Clerk", MODEL or ScriptedModel(answer, repeat=True), "You calculate. Answer in one sentence.")
    loop = asyncio.get_running_loop()
    for ordered in (True, False):
        print("in the order of the questions:" if ordered else "as they are ready:")
        begun = loop.time()
        answers = from_iterable(questions()).pipe(map_agent(agent, at_most=3, ordered=ordered, timeout=60), ops.take(5))
        async for result in answers:
            print(f"{loop.time() - begun:4.1f} s  {result.value.text if result.ok else result.error}")


if __name__ == "__main__":
    # a real model needs real time
    asyncio.run(main()) if MODEL else run_virtual(main())
