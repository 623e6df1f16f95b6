"""What a person is asked, and what counts as an answer."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass

from reactivex import abc

from agentscope_rx.agent.run import Run
from agentscope_rx.agent.structured_output import StructuredOutput
from agentscope_rx.messages import ContentBlock, Msg


@dataclass(frozen=True, slots=True)
class Question:
    """What a person is asked: to say something to `messages`, or to give a value of the shape `output`.

    `messages` are what came since the person last spoke, and the input of this call. `problems` say what was wrong
    with the last answer, if this is the same question once more. `run.context` is the call's `RuntimeContext`.
    """

    name: str
    messages: tuple[Msg, ...]
    run: Run
    output: StructuredOutput | None = None
    problems: tuple[str, ...] = ()


Said = str | Msg | ContentBlock | Iterable[ContentBlock] | Mapping[str, object] | object
"""Text, blocks or a whole message; with `output` also the value itself, or its JSON text."""

Answer = Said | Awaitable[Said] | abc.ObservableBase[Said]
"""An answer, or an awaitable or Observable of one: the first that comes counts."""

UserInput = Callable[[Question], Answer]
"""Where a person's answers come from: any function of the question. A plain `def` may block: it has a worker thread."""
