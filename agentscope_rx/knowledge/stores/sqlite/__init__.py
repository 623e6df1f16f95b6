"""`SqliteChunkStore`: documents in one SQLite file, searched by vectors in memory and by words in the file.

| file            | holds                                                                             |
|-----------------|-----------------------------------------------------------------------------------|
| `tables`        | the tables, and what their rows mean                                              |
| `database`      | the file: its connections, transactions, errors                                   |
| `rows`          | documents and chunks as rows, and back                                            |
| `conditions`    | `Where` as SQL                                                                    |
| `matrix`        | the vectors in memory, brought up to date by the changes that the file notes      |
| `writing`       | staging a document, making it visible, removing, sweeping                         |
| `search`        | nearest chunks, matching chunks                                                   |
| `store`         | the `ChunkStore` made of these                                                    |
"""

from __future__ import annotations

from importlib.util import find_spec

from agentscope_rx.errors import MissingExtraError

if find_spec("numpy") is None:
    raise MissingExtraError("numpy", "knowledge")

from agentscope_rx.knowledge.stores.sqlite.store import SqliteChunkStore

__all__ = ["SqliteChunkStore"]
