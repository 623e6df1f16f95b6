"""Text as speech: the port, providers behind HTTP, one that runs on this machine."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from agentscope_rx.model.speech.sentences import Sentences, without_marks
from agentscope_rx.model.speech.tts_model import TTSModel

if TYPE_CHECKING:
    from agentscope_rx.model.speech.dashscope import DashScopeTTSModel
    from agentscope_rx.model.speech.espeak import EspeakTTSModel
    from agentscope_rx.model.speech.openai import OpenAITTSModel

_LAZY = {
    "DashScopeTTSModel": "agentscope_rx.model.speech.dashscope",
    "EspeakTTSModel": "agentscope_rx.model.speech.espeak",
    "OpenAITTSModel": "agentscope_rx.model.speech.openai",
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
