"""What traces cost: the engine's turns and chunks without them, and with spans that go to different places.

    python -m benchmarks.traced                  the table
    python -m benchmarks.traced batch turns 1000 one measurement, in microseconds of CPU

| column   | spans                                                                                     |
|----------|-------------------------------------------------------------------------------------------|
| off      | none: no tracer was ever made                                                             |
| no SDK   | `instrument()` without a provider: OpenTelemetry's own spans, which record nothing        |
| sampled  | a provider that samples none of them                                                      |
| memory   | kept in memory, one by one                                                                |
| batch    | queued, and exported in batches to nowhere                                                |
| content  | the same, with messages, arguments and results                                            |
"""

from __future__ import annotations

import statistics
import subprocess
import sys
from collections.abc import Sequence

from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SimpleSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF

from agentscope_rx.tracing import instrument
from benchmarks.cases import _chunks, _turns, cpu

WAYS = ("off", "no_sdk", "sampled", "memory", "batch", "content")
ROWS = [("CPU per turn, us", "turns", 100), ("CPU per chunk, subscribed, us", "chunks", 10_000)]
ROUNDS = 3
"""Fresh processes of each cell, in turn, of which the median counts: a row takes 18 of them, about half a minute."""


class Nowhere(SpanExporter):
    """Takes spans, and forgets them."""

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        return SpanExportResult.SUCCESS


def trace(way: str) -> None:
    """Begin to trace in this way."""
    if way == "off":
        return
    if way == "no_sdk":
        instrument()
        return
    provider = TracerProvider(sampler=ALWAYS_OFF) if way == "sampled" else TracerProvider()
    if way == "memory":
        provider.add_span_processor(SimpleSpanProcessor(InMemorySpanExporter()))
    elif way != "sampled":
        provider.add_span_processor(BatchSpanProcessor(Nowhere(), max_queue_size=100_000))
    instrument(tracer_provider=provider, content=way == "content")


def measured(way: str, case: str, count: int) -> float:
    """Microseconds of CPU per turn or chunk."""
    trace(way)
    main = _turns("engine", count) if case == "turns" else _chunks("engine", count, pulled=False)
    return cpu(main, count)


def measure(way: str, case: str, count: int) -> float:
    """The same in a fresh process."""
    command = [sys.executable, "-m", "benchmarks.traced", way, case, str(count)]
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def main() -> None:
    """Measure and print, with the ratio to "off"."""
    print(f"{'':36}{'':>8}" + "".join(f"{way.replace('_', ' '):>18}" for way in WAYS))
    for title, case, count in ROWS:
        rounds = [[measure(way, case, count) for way in WAYS] for _ in range(ROUNDS)]
        cost = [statistics.median(column) for column in zip(*rounds, strict=True)]
        cells = (f"{each:10.2f} {each / cost[0]:6.2f}x" for each in cost)
        print(f"{title:36}{count:>8,}" + "".join(cells), flush=True)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        print(measured(sys.argv[1], sys.argv[2], int(sys.argv[3])))
    else:
        main()
