"""`CallIds`: which ids the calls of a conversation have, so that no two share one.

Results and approvals are found by a call's id, and some servers count their calls from 0 in each answer. An id is taken
if the history has it, or if a run has given it that overlaps: what that remembers may not be in this run's history yet.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Sequence

from agentscope_rx.messages import Msg, ToolUseBlock
from agentscope_rx.reactive.kernel.forking import new_rlock

_KNOWN = 64
"""Of so many messages that were looked at last the ids are kept."""


class CallIds:
    """The ids of the calls of one conversation. Safe for calls from several threads."""

    __slots__ = ("_claims", "_known", "_lock", "_looked_at", "_until")

    def __init__(self) -> None:
        self._lock = new_rlock()
        self._known: set[str] = set()
        self._looked_at: tuple[int, deque[str]] = (0, deque(maxlen=_KNOWN))
        self._claims: dict[str, set[str]] = {}
        """What each run in progress has given, and each one that has ended while another overlapped it."""
        self._until: dict[str, set[str]] = {}
        """Of an ended run: the runs whose end is awaited."""

    def claim(self, id: str, history: Sequence[Msg], run_id: str) -> bool:
        """Whether the id is free for a call of this run, which has read this history; then it is the run's own."""
        with self._lock:
            if id in self.known(history):
                return False
            if any(id in ids for other, ids in self._claims.items() if other != run_id):
                return False
            self._claims.setdefault(run_id, set()).add(id)
            return True

    def release(self, run_id: str, others: Iterable[str]) -> None:
        """The run has ended while these others are in progress: its ids are theirs to avoid until they end."""
        if not self._claims:
            return
        with self._lock:
            for awaited in self._until.values():
                awaited.discard(run_id)
            if run_id in self._claims:
                self._until.setdefault(run_id, set(others))
            for ended in [each for each, awaited in self._until.items() if not awaited]:
                del self._until[ended], self._claims[ended]

    def known(self, history: Sequence[Msg]) -> Collection[str]:
        """The ids of all calls in this history; only what is new since the last time is looked at."""
        count = len(history)
        begin, last = self._looked_at
        if begin > count or (begin and history[begin - 1].id != last[-1]):
            # something was taken out: go back to what is known
            begin = min(begin, count)
            back = max(0, begin - _KNOWN)
            while begin > back and history[begin - 1].id not in last:
                begin -= 1
            begin = 0 if begin == back else begin
            while begin and last[-1] != history[begin - 1].id:
                last.pop()
        if not begin or len(self._known) > 2 * count + 1000:
            # what was in it is forgotten
            begin, self._known = 0, set()
            last.clear()
        new = history[begin:]
        for message in new:
            for block in message.content:
                if type(block) is ToolUseBlock:
                    self._known.add(block.id)
        last.extend(message.id for message in new[-_KNOWN:])
        self._looked_at = count, last
        return self._known
