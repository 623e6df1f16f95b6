"""`PendingToolRecovery`: closes pending calls when new input neither answers nor runs them.

| input of the call                         | the pending calls                                            |
|-------------------------------------------|--------------------------------------------------------------|
| none: `agent.call()`                      | are run, as without the hook                                 |
| tool results, `Approve`, `Reject`         | are answered by them                                         |
| anything else                             | get error results before the input                           |

By default an agent does the same (`pending="recover"`). Use the hook with `pending="error"`, or for another text and
kind of result.
"""

from __future__ import annotations

from agentscope_rx.events import Event, PreCallEvent
from agentscope_rx.hooks.base import Hook
from agentscope_rx.messages import Msg, ToolResultKind, closing_results

CLOSED = "This call was still pending when the conversation went on: it was not run, or its result was lost."


class PendingToolRecovery(Hook):
    """Closes pending calls before input that does not answer them, with results of this `kind` and `text`.

    In a call without input the pending calls run.
    """

    kinds: tuple[type[Event], ...] | None = (PreCallEvent,)

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
