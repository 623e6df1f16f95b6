"""`HedgedModel`: ask a second time when the first request is silent; who answers first is heard, the other is closed.

Both requests are the same, and both may cost; the first that shows content is the answer.
"""

from __future__ import annotations

from collections.abc import Sequence

from agentscope_rx.errors import ConfigurationError, ModelTimeoutError
from agentscope_rx.messages.msg import Msg
from agentscope_rx.models.chat_model import ChatModel, shows
from agentscope_rx.models.options import GenerateOptions, ToolSchema
from agentscope_rx.models.response import ChatResponse, RetryNotice
from agentscope_rx.models.wrappers.base import AttemptWrapper
from agentscope_rx.reactive import hedge
from agentscope_rx.reactive.kernel.flow import Operator


class HedgedModel(AttemptWrapper):
    """Each attempt to ask `model` that has shown nothing after `after` seconds gets a second one beside it.

    It is announced by a `RetryNotice` whose error is the silence. The usage is that of the one that was heard.
    """

    def __init__(self, model: ChatModel | str, *, after: float) -> None:
        super().__init__(model)
        number = isinstance(after, (int, float)) and not isinstance(after, bool)  # pyright: ignore[reportUnnecessaryIsInstance]
        if not number or not 0 < after < float("inf"):
            raise ConfigurationError(f"after must be more than 0 seconds, not {after!r}.")
        self._after = after

    def around(
        self, messages: Sequence[Msg], tools: Sequence[ToolSchema], options: GenerateOptions
    ) -> Operator[ChatResponse, ChatResponse]:
        """Races two attempts, the second begun when the first is silent.

        Signals: those of the first that shows something, and a chunk with `retry` when the second begins; an error if
        all that were begun have failed.
        Cancels: both.
        """
        return hedge(self._after, shows=shows, notice=self._announced)

    def _announced(self) -> ChatResponse:
        silence = ModelTimeoutError("first", self._after, model=self.model_name, provider=self.provider)
        return ChatResponse(retry=RetryNotice(1, 0.0, silence))
