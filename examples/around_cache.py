"""A cache around the model: a request that was answered before is answered without a model call.

Look at: `around_model`, an operator around a model call. It sees the responses before they become a message, so it can
keep them, and later give them back in place of the model: chunks, usage and tool calls included. Only an answer that
has completed is kept. The second conversation asks the model nothing.

    python examples/around_cache.py
    AGENTSCOPE_RX_MODEL=openai:gpt-5-mini python examples/around_cache.py       (ids of calls differ: fewer hits)
"""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Hashable

from reactivex import Observable
from reactivex import operators as ops

from agentscope_rx import Hook, ReActAgent, tool
from agentscope_rx.hooks import ModelRequest
from agentscope_rx.models import ChatResponse
from agentscope_rx.reactive import from_iterable
from agentscope_rx.testing import ScriptedModel, call


class Cache(Hook):
    """Keeps the latest answers, by what the model was asked."""

    def __init__(self, size: int = 100) -> None:
        self.answers: OrderedDict[Hashable, list[ChatResponse]] = OrderedDict()
        self.size = size
        self.asked = 0

    def around_model(self, source: Observable[ChatResponse], request: ModelRequest) -> Observable[ChatResponse]:
        """The kept answer, or the model's, which is kept once it is complete."""
        prompt = tuple((message.role, message.content) for message in request.messages)
        key = (request.model_name, prompt, tuple(tool.name for tool in request.tools), request.options)
        if (kept := self.answers.get(key)) is not None:
            print("  (from the cache)")
            return from_iterable(kept)
        self.asked += 1
        answer: list[ChatResponse] = []

        def keep() -> None:
            self.answers[key] = answer
            if len(self.answers) > self.size:
                self.answers.popitem(last=False)

        return source.pipe(ops.do_action(on_next=answer.append, on_completed=keep))


@tool
async def population(city: str) -> str:
    """Looks up how many people live in a city.

    Args:
        city: Its name.
    """
    print(f"  (looking up {city})")
    return "720 000"


def main() -> None:
    """Ask the same question in two conversations."""
    script = ScriptedModel(call("population", "c1", city="Oslo"), ["720 000 people ", "live in Oslo."])
    model = os.environ.get("AGENTSCOPE_RX_MODEL") or script
    cache = Cache()
    for number in (1, 2):
        agent = ReActAgent("Friday", model, tools=[population], hooks=[cache])
        print(f"{number}: {agent.call('How many people live in Oslo?').run().text}")
    print(f"model calls: {cache.asked}")


if __name__ == "__main__":
    main()
