"""Text to speech: the port, HTTP providers, a program on this machine."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

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
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(import_module(_LAZY[name]), name)
    globals()[name] = value
    return value
