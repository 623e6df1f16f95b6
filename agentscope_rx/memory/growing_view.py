"""`GrowingView`: what requests send of one conversation, at the cost of the messages added since the last request.

    memory    u  a  r  a  r  | a  r          the same list, with two more messages
    view      S  a  r        | a  r          the view of before, with what these add

A change of memory other than an addition makes the view anew. So do messages after which earlier ones are sent
differently: one that carries a summary, and a mark on a call or a result.

    memory    u  c  c  c  c  c | C  r  a  r         c: compressed, C: it carries the summary S
    view      u                | S  r  a  r         what is left of the past is not sorted out again

A view that is made anew begins at the message that carried the summary, if those before it are the same as they were:
the compactions of a long run cost the same at its end as at its beginning.
"""

from __future__ import annotations

from collections.abc import Sequence

from agentscope_rx.memory.short_forms import SHORT_FORMS, sent_form
from agentscope_rx.memory.views import View, is_dropped, settled, summary_carrier, view_of, without_dropped
from agentscope_rx.messages import History, Msg
from agentscope_rx.messages.marks import summary_in
from agentscope_rx.reactive.kernel.forking import new_lock


class GrowingView:
    """The view of one conversation, as `view_of` makes it; from any thread."""

    __slots__ = ("_growing", "_lock", "_past", "_past_sent", "_seen", "_sent", "_summarized", "_view")

    def __init__(self) -> None:
        self._lock = new_lock()
        self._seen: History | None = None
        """The conversation that the view was made of."""
        self._sent: list[Msg] | None = None
        """The messages of the view, which is only appended to; None if they are those of the conversation."""
        self._view: View = View((), 0)
        self._past = 0
        """The number of settled messages before the one that carries the summary."""
        self._past_sent: Sequence[Msg] = ()
        """What is left of these, in the form that memory has."""
        self._summarized = False
        self._growing = False
        """True if messages that are added leave those before them as they are."""

    def of(self, messages: Sequence[Msg]) -> View:
        """The view of the conversation now."""
        if not isinstance(messages, History):
            # a memory that gives no views of a list says nothing of what has changed
            return view_of(messages)
        with self._lock:
            seen = self._seen
            new = -1 if seen is None or not seen.is_of(messages) else len(messages) - len(seen)
            if new > 0 and self._growing:
                self._extend(messages, messages[-new:])
            elif new:
                self._make(messages)
            self._seen = messages
            return self._view

    def _make(self, messages: History) -> None:
        rest = self._after_past(messages)
        view = view_of(rest, self._past_sent)
        same = view.messages is messages
        # behind system messages only, a further one would belong to them
        self._growing = view.head < len(view.messages) and not view.waiting
        self._sent = None if same else list(view.messages)
        self._view = view if self._sent is None else view._replace(messages=History(self._sent))

    def _after_past(self, messages: History) -> Sequence[Msg]:
        """The messages behind the past: it ends where the summary is now, which the next compaction moves on."""
        rest = messages[self._past :]
        carrier = summary_carrier(rest)
        if self._past and (carrier is None or not self._is_past_of(messages)):
            self._past, self._past_sent, rest = 0, (), messages
            carrier = summary_carrier(messages)
        self._summarized = carrier is not None
        if carrier is None:
            return messages
        number = settled(rest, carrier)
        if number:
            self._past_sent = [*self._past_sent, *without_dropped(rest[:number], summarized=True)]
            self._past += number
        return rest[number:]

    def _is_past_of(self, messages: History) -> bool:
        # (lists compare objects by identity first: this costs as little as a copy)
        return self._seen is not None and self._seen[: self._past] == messages[: self._past]

    def _extend(self, messages: History, added: Sequence[Msg]) -> None:
        sent = self._sent
        for message in added:
            if message.metadata and self._matters(message):
                self._make(messages)
                return
        if sent is None:
            self._view = View(messages, self._view.head)
            return
        for message in added:
            if not message.metadata:
                sent.append(message)
            elif not is_dropped(message, summarized=self._summarized):
                sent.append(sent_form(message))
        self._view = View(History(sent), self._view.head)

    def _matters(self, message: Msg) -> bool:
        """True if the view cannot be extended by this message."""
        if summary_in(message.metadata):
            return True
        dropped = is_dropped(message, summarized=self._summarized)
        if self._sent is None:
            return dropped or SHORT_FORMS in message.metadata
        return dropped and bool(message.tool_calls or message.tool_results)
