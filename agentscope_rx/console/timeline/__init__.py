"""Recorded events as a timeline of lanes: waits, retries, tokens and costs. `agentscope-rx trace` shows it.

    timeline = timeline_of(events)                 # a value; timeline.to_dict() is plain JSON
    print_timeline(timeline, width=100)

    live = TimelineFold()                          # event by event, for a run in progress
    live.add(event)

The values are frozen.
"""

from agentscope_rx.console.timeline.printing import print_timeline
from agentscope_rx.console.timeline.reducer import TimelineFold, timeline_of
from agentscope_rx.console.timeline.svg import timeline_svg
from agentscope_rx.console.timeline.values import Chunks, Lane, Mark, Slow, Timeline, Totals, Wait

__all__ = [
    "Chunks",
    "Lane",
    "Mark",
    "Slow",
    "Timeline",
    "TimelineFold",
    "Totals",
    "Wait",
    "print_timeline",
    "timeline_of",
    "timeline_svg",
]
