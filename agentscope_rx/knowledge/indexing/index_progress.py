"""`IndexProgress`: how far indexing has come; the last one is its report. `Tally` counts it."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import fields
from typing import Final, Literal

from agentscope_rx.errors import DocumentError
from agentscope_rx.frozen_values import dataclass

Phase = Literal["looking", "comparing", "indexing", "removing", "done", "watching"]
"""`looking`: which documents there are. `comparing`: which of them have changed. `watching`: done, until a change."""

MAX_ERRORS: Final = 100
"""The errors that a progress names; `failed` counts all."""
WINDOW: Final = 20.0
"""The seconds whose bytes make the rate."""
STEP: Final = 0.25
"""Seconds between two samples of the rate."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexProgress:
    """The progress of indexing; the last one is the report.

    `found` documents are either `done` (new or changed, and stored), `unchanged`, `failed` or still to come. `empty`
    ones are done, but have no text. `skipped` files have no reader. `errors` are the first of those that have failed.
    `bytes_done` and `bytes_total` are of the documents that are new or changed; `rate` is in bytes a second, lately.
    `elapsed` and `time_left` are seconds; `time_left` is None while it is unknown. `tokens` are those that the
    embedding model has reported.
    """

    phase: Phase = "looking"
    found: int = 0
    done: int = 0
    unchanged: int = 0
    failed: int = 0
    removed: int = 0
    skipped: int = 0
    empty: int = 0
    chunks: int = 0
    tokens: int = 0
    bytes_done: int = 0
    bytes_total: int = 0
    current: str = ""
    elapsed: float = 0.0
    rate: float = 0.0
    time_left: float | None = None
    errors: tuple[DocumentError, ...] = ()

    def to_dict(self) -> dict[str, object]:
        """Returns it as plain JSON; errors as `{"document": ..., "error": ...}`."""
        every: dict[str, object] = {each.name: getattr(self, each.name) for each in fields(self)}
        for name in ("elapsed", "rate", "time_left"):
            value = every[name]
            every[name] = round(value, 3) if isinstance(value, float) else value
        every["errors"] = [{"document": each.document, "error": str(each)} for each in self.errors]
        return every


class Tally:
    """Counts one run on one loop; `clock` is that loop's."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._begun = clock()
        self.phase: Phase = "looking"
        self.failed: int = 0
        self.found = self.done = self.unchanged = self.removed = self.skipped = self.empty = 0
        self.chunks: int = 0
        self.tokens: int = 0
        self.bytes_total: int = 0
        self.errors: list[DocumentError] = []
        self._finished = 0
        # those in progress: the bytes of each that are done
        self._open: dict[str, int] = {}
        self._rate = _Rate(self._begun)

    def begin_phase(self, phase: Phase) -> IndexProgress:
        """Count what follows to this phase."""
        self.phase = phase
        if phase == "indexing":
            self._rate = _Rate(self._clock())
        return self.progress()

    def begin(self, document: str) -> IndexProgress:
        """A document is being indexed."""
        self._open[document] = 0
        return self.progress()

    def advance(self, document: str, done: int, chunks: int, tokens: int) -> None:
        """So many of its bytes are done, and so many more chunks and tokens."""
        self._open[document] = done
        self.chunks += chunks
        self.tokens += tokens

    def end(self, document: str, size: int) -> None:
        """The document is stored, or has failed."""
        self._open.pop(document, None)
        self._finished += size

    def fail(self, error: DocumentError) -> None:
        """Count a document that has failed."""
        self.failed += 1
        if len(self.errors) < MAX_ERRORS:
            self.errors.append(error)

    def progress(self) -> IndexProgress:
        """The state now."""
        now = self._clock()
        done = min(self.bytes_total, self._finished + sum(self._open.values()))
        rate = self._rate.of(now, done)
        rest = self.bytes_total - done
        known = self.phase in ("indexing", "removing", "done", "watching")
        return IndexProgress(
            phase=self.phase,
            found=self.found,
            done=self.done,
            unchanged=self.unchanged,
            failed=self.failed,
            removed=self.removed,
            skipped=self.skipped,
            empty=self.empty,
            chunks=self.chunks,
            tokens=self.tokens,
            bytes_done=done,
            bytes_total=self.bytes_total,
            current=next(iter(self._open), ""),
            elapsed=now - self._begun,
            rate=rate,
            time_left=None if not known else 0.0 if not rest else rest / rate if rate else None,
            errors=tuple(self.errors),
        )


class _Rate:
    """Bytes a second over the last `WINDOW` seconds."""

    __slots__ = ("_samples",)

    def __init__(self, now: float) -> None:
        self._samples: deque[tuple[float, int]] = deque([(now, 0)])

    def of(self, now: float, done: int) -> float:
        """The rate, of which this is the latest sample."""
        samples = self._samples
        if now - samples[-1][0] >= STEP:
            samples.append((now, done))
        while len(samples) > 2 and now - samples[1][0] >= WINDOW:
            samples.popleft()
        begun, before = samples[0]
        return (done - before) / (now - begun) if now > begun else 0.0
