"""`Unbegun`: warns about a flow that was never subscribed to, as Python does about a coroutine never awaited.

    agent.call("hi")                    RuntimeWarning: A call of agent 'Friday' was never begun: await it, ...
    stored = agent.call("hi")           nothing, for as long as it may still be begun; also behind `pipe`

The flow holds it, so that both are freed together. Of the line that made the flow it keeps a code object and an offset:
a frame would keep its variables alive, and a traceback costs far more.
"""

from __future__ import annotations

import warnings
from types import FrameType


class Unbegun:
    """Warns when it is freed, unless `begun` is set. `what` and `name` describe the forgotten flow."""

    __slots__ = ("_code", "_name", "_offset", "_what", "begun")

    def __init__(self, what: str, name: str, frame: FrameType) -> None:
        self.begun: bool = False
        self._what = what
        self._name = name
        self._code = frame.f_code
        self._offset = frame.f_lasti

    def __del__(self) -> None:
        if not self.begun:
            warnings.warn_explicit(
                f"{self._what} {self._name!r} was never begun: "
                "await it, run() it, subscribe to it or read it with `async for`.",
                RuntimeWarning,
                self._code.co_filename,
                self._line(),
                registry={},
            )

    def _line(self) -> int:
        for start, end, line in self._code.co_lines():
            if start <= self._offset < end and line is not None:
                return line
        return self._code.co_firstlineno
