# ruff: noqa: B006, S608  (faulty on purpose: it is here to be reviewed)
"""Orders of a shop."""

from __future__ import annotations

import sqlite3


def add(item: str, basket: list[str] = []) -> list[str]:
    basket.append(item)
    return basket


def find(database: sqlite3.Connection, customer: str) -> list[tuple[object, ...]]:
    return database.execute(f"SELECT * FROM orders WHERE customer = '{customer}'").fetchall()
