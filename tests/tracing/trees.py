"""Spans in memory, and the tree of them as text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from opentelemetry.sdk.trace import ReadableSpan, Span, SpanProcessor, TracerProvider
from opentelemetry.trace import StatusCode

from agentscope_rx.tracing import OpenTelemetryHook


@dataclass
class Spans(SpanProcessor):
    """All spans that have begun, and those that have ended, in order."""

    begun: list[Span] = field(default_factory=list)
    ended: list[ReadableSpan] = field(default_factory=list)
    order: list[tuple[str, int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.provider = TracerProvider(shutdown_on_exit=False)
        self.provider.add_span_processor(self)

    def on_start(self, span: Span, parent_context: Any = None) -> None:
        self.begun.append(span)
        self.order.append(("begin", span.get_span_context().span_id))

    def on_end(self, span: ReadableSpan) -> None:
        self.ended.append(span)
        assert span.context is not None
        self.order.append(("end", span.context.span_id))

    def hook(self, **options: Any) -> OpenTelemetryHook:
        """A hook that makes these spans."""
        return OpenTelemetryHook(tracer_provider=self.provider, **options)

    def tracer(self) -> Any:
        """A tracer of a user."""
        return self.provider.get_tracer("user")

    def __getitem__(self, name: str) -> ReadableSpan:
        """The one span of this name."""
        (found,) = (span for span in self.ended if span.name == name)
        return found

    def named(self, start: str) -> list[ReadableSpan]:
        """The spans whose names begin so, in the order of their beginning."""
        ids = [span.get_span_context().span_id for span in self.begun]
        found = [span for span in self.ended if span.name.startswith(start)]
        return sorted(found, key=lambda span: ids.index(span.context.span_id))  # pyright: ignore

    def tree(self) -> str:
        """The spans as an indented text, siblings in the order of their beginning; fails if one is still open."""
        self.assert_whole()
        ids = [span.get_span_context().span_id for span in self.begun]
        spans = sorted(self.ended, key=lambda span: ids.index(span.context.span_id))  # pyright: ignore
        return "\n".join(_lines(spans, None, ""))

    def assert_whole(self, *, nested: bool = True) -> None:
        """Every span has ended, once, and (with `nested`) within its parent."""
        begun = [span.get_span_context().span_id for span in self.begun]
        ended = [span.context.span_id for span in self.ended]  # pyright: ignore
        still_open = [span.name for span in self.begun if span.get_span_context().span_id not in ended]
        assert still_open == []
        assert sorted(begun) == sorted(ended)
        if nested:
            at = {what: index for index, what in enumerate(self.order)}
            for span in self.ended:
                assert span.context is not None
                if span.parent is not None and span.parent.span_id in ended:
                    mine, other = span.context.span_id, span.parent.span_id
                    assert at["begin", other] < at["begin", mine] < at["end", mine] < at["end", other], span.name


def _lines(spans: Sequence[ReadableSpan], parent: int | None, indent: str) -> list[str]:
    ids = {span.context.span_id for span in spans}  # pyright: ignore
    lines: list[str] = []
    for span in spans:
        found = span.parent.span_id if span.parent is not None and span.parent.span_id in ids else None
        if found == parent:
            lines.append(f"{indent}{span.name}{_how(span)}")
            lines += _lines(spans, span.context.span_id, indent + "  ")  # pyright: ignore
    return lines


def _how(span: ReadableSpan) -> str:
    """What is special about the end of the span."""
    given = dict(span.attributes or {})
    notes: list[str] = []
    if span.status.status_code is StatusCode.ERROR:
        notes.append(f"error {given['error.type']}")
    else:
        assert "error.type" not in given
    if given.get("agentscope.cancelled"):
        notes.append("cancelled")
    for key in ("agentscope.generate_reason", "agentscope.tool.result"):
        if key in given and given[key] not in ("model_stop", given.get("error.type")):
            notes.append(str(given[key]))
    notes += [event.name.removeprefix("agentscope.") for event in span.events]
    notes += ["link" for _ in span.links]
    return f" ({', '.join(notes)})" if notes else ""
