"""What SQLite is asked to do, as the tests meddle with it: counted, watched, held up."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from agentscope_rx.session.sqlite import connections


class Statements:
    """Writes down each statement of connections that are opened meanwhile, and calls `on_statement` before it runs."""

    def __init__(self) -> None:
        self.seen: list[str] = []
        self.on_statement: Callable[[int, str], object] = lambda number, statement: None
        self.on_open: Callable[[sqlite3.Connection], object] = lambda connection: None

    def _note(self, statement: str) -> None:
        self.seen.append(statement)
        self.on_statement(len(self.seen) - 1, statement)

    @contextmanager
    def watched(self) -> Iterator[Statements]:
        """Connections that are opened inside the block are watched; those that are open before are closed."""
        for each in tuple(connections._all):
            each.close()
        real = sqlite3.connect

        def connect(*args: Any, **kwargs: Any) -> sqlite3.Connection:
            connection = real(*args, **kwargs)
            connection.set_trace_callback(self._note)
            self.on_open(connection)
            return connection

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(connections.sqlite3, "connect", connect)
            yield self
