"""`Fact`: one version of what is remembered, with its source and its history."""

from __future__ import annotations

import json
import sqlite3
from dataclasses import asdict
from datetime import datetime
from typing import Literal

from agentscope_rx.frozen_values import dataclass
from agentscope_rx.long_term_memory.note import MemoryScope, Note, NoteSource

EndReason = Literal["superseded", "contradicted"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    """One version of a fact. It is retrieved while `ended` is None.

    `version` counts from 1. A fact that was corrected has `superseded_by`, the id of its next version; one that was
    contradicted and not replaced has only `ended`. `confirmed` is when it was said last. `distilled` is False for a
    message that is kept as it is.
    """

    id: str
    text: str
    subject: str
    scope: MemoryScope
    source: NoteSource
    created: datetime
    updated: datetime
    confirmed: datetime
    version: int = 1
    distilled: bool = False
    ended: datetime | None = None
    reason: EndReason | None = None
    superseded_by: str | None = None

    def to_dict(self) -> dict[str, object]:
        """The fact as plain JSON."""
        found = asdict(self)
        for name in ("created", "updated", "confirmed", "ended"):
            moment: datetime | None = getattr(self, name)
            found[name] = None if moment is None else moment.isoformat()
        found["source"]["at"] = None if self.source.at is None else self.source.at.isoformat()
        found["source"]["message_ids"] = list(self.source.message_ids)
        return found


COLUMNS = (
    "id, user, agent, session, text, subject, distilled, version, created, updated, confirmed, ended, reason, "
    "superseded_by, source"
)


def fact_of(row: sqlite3.Row) -> Fact:
    """The fact in a row."""
    return Fact(
        id=row["id"],
        text=row["text"],
        subject=row["subject"],
        scope=MemoryScope(user=row["user"] or None, agent=row["agent"] or None, session=row["session"] or None),
        source=_source_of(row["source"]),
        created=datetime.fromisoformat(row["created"]),
        updated=datetime.fromisoformat(row["updated"]),
        confirmed=datetime.fromisoformat(row["confirmed"]),
        version=row["version"],
        distilled=bool(row["distilled"]),
        ended=None if row["ended"] is None else datetime.fromisoformat(row["ended"]),
        reason=row["reason"],
        superseded_by=row["superseded_by"],
    )


def note_of(fact: Fact, score: float) -> Note:
    """The fact as it is retrieved."""
    return Note(
        text=fact.text,
        id=fact.id,
        score=score,
        source=fact.source,
        created=fact.created,
        updated=fact.updated,
        scope=fact.scope,
    )


def source_json(source: NoteSource) -> str:
    """The source as it is stored."""
    at = None if source.at is None else source.at.isoformat()
    return json.dumps([source.session_key, source.run_id, list(source.message_ids), source.agent, at])


def _source_of(text: str) -> NoteSource:
    session_key, run_id, message_ids, agent, at = json.loads(text)
    return NoteSource(
        session_key=session_key,
        run_id=run_id,
        message_ids=tuple(message_ids),
        agent=agent,
        at=None if at is None else datetime.fromisoformat(at),
    )
