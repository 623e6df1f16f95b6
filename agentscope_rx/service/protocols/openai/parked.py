"""`ParkedConversations`: conversations whose calls wait for a client, by the ids of the calls."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Sequence
from secrets import token_urlsafe
from typing import NamedTuple

from agentscope_rx.memory import Memory
from agentscope_rx.messages import Msg, ToolResultBlock, ToolUseBlock

MAX_PARKED = 1000


class _Parked(NamedTuple):
    memory: Memory
    calls: dict[str, ToolUseBlock]


class ParkedConversations:
    """The last `limit` conversations that wait for results of a client, in this process.

    A call has another id for the client than for the model: the place of its conversation, which cannot be guessed, and
    its own. A conversation is taken once, with the results of all of its calls.
    """

    def __init__(self, limit: int = MAX_PARKED) -> None:
        self._limit = limit
        self._kept: OrderedDict[str, _Parked] = OrderedDict()

    def __len__(self) -> int:
        return len(self._kept)

    def keep(self, memory: Memory, calls: Sequence[ToolUseBlock]) -> dict[str, str]:
        """Keep this conversation; returns the client's id of each call, by the model's."""
        token = token_urlsafe(16)
        ids = {call.id: f"call_{token}_{hashlib.sha256(call.id.encode()).hexdigest()[:8]}" for call in calls}
        self._kept[token] = _Parked(memory, {ids[call.id]: call for call in calls})
        while len(self._kept) > self._limit:
            self._kept.popitem(last=False)
        return ids

    def take(self, input: Sequence[Msg]) -> tuple[Memory, list[Msg]] | None:
        """The conversation that these results belong to, and the input with the model's ids; None if it is not kept."""
        results = {result.id: result for message in input for result in message.tool_results}
        token = next((id[5:-9] for id in results if id.startswith("call_")), "")
        parked = self._kept.get(token)
        if parked is None or parked.calls.keys() != results.keys():
            return None
        del self._kept[token]
        answers = [
            ToolResultBlock(call.id, call.name, results[id].output, metadata=results[id].metadata)
            for id, call in parked.calls.items()
        ]
        rest = [message for message in input if not message.tool_results]
        return parked.memory, [Msg.tool(answers), *rest]
