"""Text to speech: the port, HTTP providers, a program on this machine."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agentscope_rx.lazy import import_lazily
from agentscope_rx.models.speech.sentences import Sentences, without_marks
from agentscope_rx.models.speech.tts_model import TTSModel

if TYPE_CHECKING:
    from agentscope_rx.models.speech.dashscope import DashScopeTTSModel
    from agentscope_rx.models.speech.espeak import EspeakTTSModel
    from agentscope_rx.models.speech.openai import OpenAITTSModel

_LAZY = {
    "DashScopeTTSModel": "agentscope_rx.models.speech.dashscope",
    "EspeakTTSModel": "agentscope_rx.models.speech.espeak",
    "OpenAITTSModel": "agentscope_rx.models.speech.openai",
}

__all__ = [
    "DashScopeTTSModel",
    "EspeakTTSModel",
    "OpenAITTSModel",
    "Sentences",
    "TTSModel",
    "without_marks",
]


def __getattr__(name: str) -> object:
    return import_lazily(__name__, _LAZY, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
