"""Conformance kits: the laws of each port, run against an implementation of your own.

| kit                      | for                | checks, beside the rules of a publisher                             |
|--------------------------|--------------------|---------------------------------------------------------------------|
| `check_chat_model`       | a `ChatModel`      | increments, usage, calls, refused options, one request each         |
| `check_tool`             | a `Tool`           | definition, validation, results, errors, interruption               |
| `check_hook`             | a `Hook`           | one event of the same kind, no mutation, two runs at once           |
| `check_memory`           | a `Memory`         | order, atomic adds, snapshots, changes, marks, threads              |
| `check_session`          | a `Session`        | round trip, odd keys, tails, versions, concurrent writers, deletion |
| `check_long_term_memory` | a `LongTermMemory` | retrieval, users apart, limits, odd texts, threads                  |
| `check_chunk_store`      | a `ChunkStore`     | whole documents or none, searches like a comparison of all, filters |
| `check_chunker`          | a `Chunker`        | texts and positions, no text is lost, the same result again         |
| `check_operator`         | an operator        | values, errors, disposal and demand, over sources of several kinds  |
| `check_publisher`        | any Observable     | the rules of a publisher, those of Reactive Streams                 |

A kit is a plain function for any test runner. Call it from a plain function, because it runs each rule on a loop of
its own. It raises `RuleBrokenError` at the first rule that does not hold, and returns a `KitReport` of the rules that
were checked and skipped.

Most kits take `make`, a function or a class that returns a new object at each call. Options of several kits:

| option      | sets                                                                                                  |
|-------------|-------------------------------------------------------------------------------------------------------|
| `name`      | the name in the report; default: that of the class or function                                        |
| `real_time` | runs the rules on ordinary loops, for threads that virtual time does not know                         |
| `ahead`     | how many values may still come after demand is withheld; None: demand is not looked at                |
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
