"""`PendingToolRecovery`: a conversation that goes on past calls that are still pending closes them first.

| input of the call                         | the pending calls                                            |
|-------------------------------------------|--------------------------------------------------------------|
| none: `agent.call()`                      | are run, as ever: no input is consent                        |
| tool results, `Approve`, `Reject`         | are answered by them                                         |
| anything else                             | get results that say that they were not run, before the input |

An agent does as much by itself (`pending="recover"`). The hook is for agents built with `pending="error"`, or for
another text and kind of result.
"""

from __future__ import annotations

from agentscope_rx.events import Event, PreCallEvent
from agentscope_rx.hooks.base import Hook
from agentscope_rx.messages import Msg, ToolResultKind, closing_results

CLOSED = "This call was still pending when the conversation went on: it was not run, or its result was lost."


class PendingToolRecovery(Hook):
    """Puts results of this `kind` and `text` for the pending calls in front of an input that does not answer them."""

    kinds = (PreCallEvent,)

    def __init__(
        self, *, priority: int = 10, text: str = CLOSED, kind: ToolResultKind = ToolResultKind.INTERRUPTED
    ) -> None:
        self.priority = priority
        self.text = text
        self.kind = kind

    def on_event(self, event: Event) -> Event | None:
        assert isinstance(event, PreCallEvent)
        answered = event.answers or any(message.tool_results for message in event.input)
        if not event.pending or not event.input or answered:
            return None
        closing = Msg.tool(closing_results(event.pending, self.kind, self.text), event.agent)
        return event.replace(input=(closing, *event.input))
