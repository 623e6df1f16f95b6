"""Writing facts. Every function runs in one transaction of its caller.

add       a new fact; or, if it is known (the same text, or the same words that carry its meaning), it is confirmed
replace   a new version; the old one ends, with `superseded_by`
end       contradicted, and nothing in its place
erase     gone, with its whole history
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from agentscope_rx.errors.text import encodable
from agentscope_rx.long_term_memory.note import MemoryScope, NoteSource
from agentscope_rx.long_term_memory.sqlite.facts import COLUMNS, Fact, fact_of, source_json
from agentscope_rx.long_term_memory.sqlite.search import VISIBLE, blob, names, owner_of
from agentscope_rx.messages.msg import new_id
from agentscope_rx.messages.terms import gist, index_terms, normalized

EMBEDDED_AT_ONCE = 256
"""The facts without a vector that one record embeds."""


class Entry(NamedTuple):
    """What is to be stored."""

    text: str
    subject: str
    source: NoteSource
    at: datetime
    distilled: bool


def indexed(text: str, subject: str, distilled: bool) -> str:
    """What a fact is found by: its text and, of a distilled one, its subject."""
    return f"{subject}: {text}" if distilled and subject else text


def add(connection: sqlite3.Connection, entry: Entry, scope: MemoryScope, after: sqlite3.Row | None = None) -> str:
    """Store the entry and return the id of its fact; `after` is the version that it replaces."""
    known = _known(connection, entry, scope)
    if known is not None:
        connection.execute("UPDATE ltm_facts SET confirmed = ? WHERE id = ?", (entry.at.isoformat(), known))
        return known
    id = new_id()
    user, agent, session = names(scope)
    text, subject, at = encodable(entry.text), encodable(entry.subject), entry.at.isoformat()
    created, version, root = (at, 1, id) if after is None else (after["created"], after["version"] + 1, after["root"])
    number = connection.execute(
        "INSERT INTO ltm_facts (id, root, user, agent, session, text, subject, same, gist, distilled, version, created,"
        " updated, confirmed, source) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            *(id, root, user, agent, session, text, subject, normalized(text), gist(text)),
            *(entry.distilled, version, created, at, at, source_json(entry.source)),
        ),
    ).lastrowid
    terms = index_terms(indexed(text, subject, entry.distilled))
    connection.execute("INSERT INTO ltm_words (rowid, owner, terms) VALUES (?, ?, ?)", (number, owner_of(user), terms))
    _changed(connection, user)
    return id


def replace(connection: sqlite3.Connection, id: str, entry: Entry, scope: MemoryScope) -> bool:
    """Make the entry the next version of this fact; False if it is not a current fact of exactly this scope.

    A fact of a wider scope stays: its next version would show other sessions and agents what was said in this one.
    """
    old = _current(connection, id, scope)
    if old is None or (old["user"], old["agent"], old["session"]) != names(scope):
        return False
    if old["same"] == normalized(entry.text):
        connection.execute("UPDATE ltm_facts SET confirmed = ? WHERE id = ?", (entry.at.isoformat(), id))
        return True
    _end(connection, old, entry.at, "superseded")
    new = add(connection, entry, scope, old)
    connection.execute("UPDATE ltm_facts SET superseded_by = ? WHERE id = ?", (new, id))
    # (if the entry was known, two histories become one: who forgets the fact forgets what it has replaced, too)
    connection.execute(
        "UPDATE ltm_facts SET root = (SELECT root FROM ltm_facts WHERE id = ?) WHERE root = ?", (new, old["root"])
    )
    return True


def end(connection: sqlite3.Connection, id: str, at: datetime, scope: MemoryScope) -> bool:
    """End this fact; False if it is not a current fact of the scope."""
    old = _current(connection, id, scope)
    if old is None:
        return False
    _end(connection, old, at, "contradicted")
    return True


def erase(connection: sqlite3.Connection, condition: str, values: Sequence[object]) -> int:
    """Remove the facts that meet the condition, with all their versions; returns the number of rows."""
    rows = connection.execute(
        f"SELECT number, user FROM ltm_facts WHERE root IN (SELECT root FROM ltm_facts WHERE {condition})",  # noqa: S608
        values,
    ).fetchall()
    for row in rows:
        connection.execute("DELETE FROM ltm_words WHERE rowid = ?", (row["number"],))
        connection.execute("DELETE FROM ltm_vectors WHERE number = ?", (row["number"],))
        connection.execute("DELETE FROM ltm_facts WHERE number = ?", (row["number"],))
    if rows:
        # the index keeps deleted words until its parts are merged
        connection.execute("INSERT INTO ltm_words (ltm_words) VALUES ('optimize')")
    for user in {row["user"] for row in rows}:
        _changed(connection, user)
    return len(rows)


def changes(connection: sqlite3.Connection, scope: MemoryScope) -> int:
    """The number of changes of this user's facts so far."""
    found = connection.execute(
        "SELECT number FROM ltm_changes WHERE user = ?", (owner_of(scope.user or ""),)
    ).fetchone()
    return 0 if found is None else found["number"]


def history(connection: sqlite3.Connection, id: str) -> tuple[Fact, ...]:
    """All versions of the fact that this is a version of, the oldest first."""
    rows = connection.execute(
        f"SELECT {COLUMNS} FROM ltm_facts WHERE root = (SELECT root FROM ltm_facts WHERE id = ?) ORDER BY number",  # noqa: S608
        (id,),
    )
    return tuple(fact_of(row) for row in rows)


def of_subject(connection: sqlite3.Connection, subject: str, scope: MemoryScope, limit: int) -> list[Fact]:
    """The newest current facts with this subject."""
    if not subject:
        return []
    rows = connection.execute(
        f"SELECT {COLUMNS} FROM ltm_facts f WHERE {VISIBLE} AND f.distilled AND f.subject = ? COLLATE NOCASE"  # noqa: S608
        " ORDER BY f.number DESC LIMIT ?",
        (*names(scope), encodable(subject), limit),
    )
    return [fact_of(row) for row in rows]


# --- vectors ----------------------------------------------------------------------------------------------------------


def without_vector(connection: sqlite3.Connection, scope: MemoryScope, model: str) -> list[tuple[int, str]]:
    """The newest current facts of this user that have no vector by this model: number and what to embed."""
    rows = connection.execute(
        "SELECT f.number, f.text, f.subject, f.distilled FROM ltm_facts f"
        " LEFT JOIN ltm_vectors v ON v.number = f.number"
        " WHERE f.user = ? AND f.ended IS NULL AND v.model IS NOT ? ORDER BY f.number DESC LIMIT ?",
        (scope.user or "", model, EMBEDDED_AT_ONCE),
    )
    return [(row["number"], indexed(row["text"], row["subject"], row["distilled"])) for row in rows]


def set_vectors(connection: sqlite3.Connection, vectors: Sequence[tuple[int, Sequence[float]]], model: str) -> None:
    """Store these vectors; facts that have ended meanwhile get none."""
    connection.executemany(
        "INSERT OR REPLACE INTO ltm_vectors SELECT number, ?, ? FROM ltm_facts WHERE number = ? AND ended IS NULL",
        [(model, blob(vector), number) for number, vector in vectors],
    )


# --- parts ------------------------------------------------------------------------------------------------------------


def _known(connection: sqlite3.Connection, entry: Entry, scope: MemoryScope) -> str | None:
    """The id of the current fact that says the same."""
    where = "user = ? AND agent = ? AND session = ? AND ended IS NULL"
    for column, value in (("same", normalized(entry.text)), ("gist", gist(entry.text))):
        if not value:
            # punctuation alone is not comparable by its words
            continue
        row = connection.execute(
            f"SELECT id FROM ltm_facts WHERE {where} AND {column} = ? LIMIT 1",  # noqa: S608
            (*names(scope), value),
        ).fetchone()
        if row is not None:
            return row["id"]
    return None


def _current(connection: sqlite3.Connection, id: str, scope: MemoryScope) -> sqlite3.Row | None:
    return connection.execute(
        f"SELECT * FROM ltm_facts f WHERE f.id = ? AND {VISIBLE}",  # noqa: S608
        (id, *names(scope)),
    ).fetchone()


def _end(connection: sqlite3.Connection, row: sqlite3.Row, at: datetime, reason: str) -> None:
    connection.execute(
        "UPDATE ltm_facts SET ended = ?, reason = ? WHERE number = ?",
        (at.isoformat(), reason, row["number"]),
    )
    connection.execute("DELETE FROM ltm_words WHERE rowid = ?", (row["number"],))
    connection.execute("DELETE FROM ltm_vectors WHERE number = ?", (row["number"],))
    _changed(connection, row["user"])


def _changed(connection: sqlite3.Connection, user: str) -> None:
    # (the count stays when all facts of a user are erased, and so the name must not be in it)
    connection.execute(
        "INSERT INTO ltm_changes VALUES (?, 1) ON CONFLICT (user) DO UPDATE SET number = number + 1", (owner_of(user),)
    )
