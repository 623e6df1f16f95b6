"""`HedgedModel`: sends a second, equal request if the first is silent; the first to emit content wins.

The other request is closed. Both may be charged for.
"""

from __future__ import annotations

from collections.abc import Sequence

from agentscope_rx.errors import ModelTimeoutError
from agentscope_rx.messages.msg import Msg
from agentscope_rx.models.chat_model import ChatModel, shows
from agentscope_rx.models.checks import check_seconds
from agentscope_rx.models.logs import log_hedge
from agentscope_rx.models.options import GenerateOptions, ToolSchema
from agentscope_rx.models.response import ChatResponse, RetryNotice
from agentscope_rx.models.wrappers.base import AttemptWrapper
from agentscope_rx.reactive import hedge
from agentscope_rx.reactive.kernel.flow import Operator


class HedgedModel(AttemptWrapper):
    """Each attempt that has emitted no content after `after` seconds races a second one; the first content wins.

    The other request is closed. Both may cost; the usage is that of the winner. A `RetryNotice` with a
    `ModelTimeoutError` announces the second.
    """

    def __init__(self, model: ChatModel | str, *, after: float) -> None:
        super().__init__(model)
        check_seconds("after", after, infinite=False)
        self._after = after

    def around(
        self, messages: Sequence[Msg], tools: Sequence[ToolSchema], options: GenerateOptions
    ) -> Operator[ChatResponse, ChatResponse]:
        """Races two attempts; the second begins if the first is silent.

        Signals: those of the winner, and a chunk with `retry` when the second begins; an error if all attempts failed.
        Cancels: both.
        """
        return hedge(self._after, shows=shows, notice=self._notice)

    def _notice(self) -> ChatResponse:
        log_hedge(self.model_name, self._after)
        silence = ModelTimeoutError("first", self._after, model=self.model_name, provider=self.provider)
        return ChatResponse(retry=RetryNotice(1, 0.0, silence))
