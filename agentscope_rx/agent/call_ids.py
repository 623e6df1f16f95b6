"""`CallIds`: keeps the ids of the calls of a conversation unique.

Results and approvals refer to a call by its id, but some servers number the calls of each answer from 0. An id is taken
if a call in the history has it, or a call of an overlapping run: this run's history may not hold that call yet.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Collection, Iterable, Sequence

from agentscope_rx.messages import Msg, ToolUseBlock
from agentscope_rx.reactive.kernel.forking import new_lock, new_rlock

_MAKING = new_lock()

_KNOWN = 64
"""The number of last messages whose ids are kept, to find out how the history has changed."""


class CallIds:
    """The ids of the calls of one conversation. Safe for calls from several threads."""

    __slots__ = ("_claims", "_known", "_lock", "_looked_at", "_until")

    def __init__(self) -> None:
        # made with the first call: many conversations have none
        self._lock: threading.RLock | None = None
        self._known: set[str] | None = None
        self._looked_at: tuple[int, deque[str]] | None = None
        self._claims: dict[str, set[str]] = {}
        """The ids given by each run in progress, and by each ended one that another run has overlapped."""
        self._until: dict[str, set[str]] = {}
        """For each ended run the runs whose end is awaited."""

    def claim(self, id: str, history: Sequence[Msg], run_id: str) -> bool:
        """Take the id for a call of this run, which has read this history; False if it is taken."""
        with self._lock or self._claiming():
            if id in self.known(history):
                return False
            for other, ids in self._claims.items():
                if other != run_id and id in ids:
                    return False
            self._claims.setdefault(run_id, set()).add(id)
            return True

    @property
    def claimed(self) -> bool:
        """True if ids were given that may have to be released."""
        return bool(self._claims)

    def release(self, run_id: str, others: Iterable[str]) -> None:
        """The run has ended. The ids that it has given stay taken until these other runs have ended, too."""
        if not self._claims:
            return
        with self._lock or self._claiming():
            for awaited in self._until.values():
                awaited.discard(run_id)
            if run_id in self._claims:
                self._until.setdefault(run_id, set(others))
            for ended in [each for each, awaited in self._until.items() if not awaited]:
                del self._until[ended], self._claims[ended]

    def known(self, history: Sequence[Msg]) -> Collection[str]:
        """The ids of all calls in this history; only messages since the last time are read."""
        count = len(history)
        known = self._known
        begin, last = self._looked_at or (0, deque[str](maxlen=_KNOWN))
        if begin > count or (begin and history[begin - 1].id != last[-1]):
            # messages were removed: go back to one that is known
            begin = min(begin, count)
            back = max(0, begin - _KNOWN)
            while begin > back and history[begin - 1].id not in last:
                begin -= 1
            begin = 0 if begin == back else begin
            while begin and last[-1] != history[begin - 1].id:
                last.pop()
        if known is None or not begin or len(known) > 2 * count + 1000:
            # start again
            begin, known = 0, set[str]()
            last.clear()
        for message in history[begin:]:
            for block in message.content:
                if type(block) is ToolUseBlock:
                    known.add(block.id)
            # (it keeps the last ones)
            last.append(message.id)
        self._looked_at, self._known = (count, last), known
        return known

    def _claiming(self) -> threading.RLock:
        with _MAKING:
            if self._lock is None:
                self._lock = new_rlock()
            return self._lock
