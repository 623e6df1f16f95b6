"""Conformance kits: the laws of each port, run against an implementation of your own.

| kit                             | checks                                                            |
|---------------------------------|-------------------------------------------------------------------|
| `check_publisher(make)`         | any cold Observable, by the rules of Reactive Streams             |
| `check_operator(operator)`      | an operator, over sources that wait and sources that do not       |
| `check_chat_model(make)`        | a `ChatModel`                                                     |
| `check_chunker(make)`           | a `Chunker`                                                       |
| `check_memory(make)`            | a `Memory`                                                        |
| `check_session(make)`           | a `Session`                                                       |
| `check_long_term_memory(make)`  | a `LongTermMemory`                                                |
| `check_chunk_store(make)`       | a `ChunkStore`                                                    |
| `check_tool(tool)`              | a `Tool`, or a function that can be lifted to one                 |
| `check_hook(hook)`              | a `Hook`                                                          |

Each is a plain function for any test runner. It runs each rule on a loop of its own in virtual time, raises
`RuleBrokenError` at the first rule that is broken, and returns a `KitReport` of the rules that were checked or skipped.
"""

from agentscope_rx.testing.kits.chat_model import check_chat_model
from agentscope_rx.testing.kits.chunk_store import check_chunk_store
from agentscope_rx.testing.kits.chunker import check_chunker
from agentscope_rx.testing.kits.hook import check_hook
from agentscope_rx.testing.kits.long_term_memory import check_long_term_memory
from agentscope_rx.testing.kits.memory import check_memory
from agentscope_rx.testing.kits.operator import check_operator
from agentscope_rx.testing.kits.publisher import check_publisher
from agentscope_rx.testing.kits.rules import KitReport, RuleBrokenError
from agentscope_rx.testing.kits.session import check_session
from agentscope_rx.testing.kits.tool import check_tool

__all__ = [
    "KitReport",
    "RuleBrokenError",
    "check_chat_model",
    "check_chunk_store",
    "check_chunker",
    "check_hook",
    "check_long_term_memory",
    "check_memory",
    "check_operator",
    "check_publisher",
    "check_session",
    "check_tool",
]
