"""`Tracer`: a hook whose operators stand outside of all others.

    class Spans(Tracer):
        def around_model(self, source, request):         # also call, stage, reasoning, acting, summarizing, tool
            return source.pipe(ops.do_action(...))

A tracer gets each part as a cold flow, with its request, and returns it, wrapped or not. So it sees subscription, every
item (usage and results among them), the end and disposal, without a side channel and without a global.
"""

from __future__ import annotations

from agentscope_rx.hooks import Hook

OUTERMOST = -1_000_000
"""The priority of a tracer."""


class Tracer(Hook):
    """A hook that stands outside of the other hooks; `ReActAgent(..., tracer=...)` adds one.

    It is held to the rules of `around`, as every hook with such methods.
    """

    priority = OUTERMOST
