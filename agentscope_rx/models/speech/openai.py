"""`OpenAITTSModel`: OpenAI's voices, and servers with the same API; the audio is streamed."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Literal

from agentscope_rx.errors import ConfigurationError
from agentscope_rx.messages import AudioBlock, Base64Source
from agentscope_rx.models.openai.endpoint import service_endpoint
from agentscope_rx.models.options import ExecutionConfig
from agentscope_rx.models.speech.tts_model import TTSModel
from agentscope_rx.models.transport import HttpRequest, Transport
from agentscope_rx.models.wire.json_codec import encode_json
from agentscope_rx.reactive import Flow, from_async_iterable

SoundFormat = Literal["mp3", "opus", "aac", "flac", "wav", "pcm"]

_PATH = "/audio/speech"
_TYPES: dict[SoundFormat, str] = {
    "mp3": "audio/mpeg",
    "opus": "audio/ogg",
    "aac": "audio/aac",
    "flac": "audio/flac",
    "wav": "audio/wav",
    "pcm": "audio/pcm;rate=24000",
}
_STREAMS = frozenset(("pcm", "mp3"))


class OpenAITTSModel(TTSModel):
    """OpenAI's voices, and servers with the same API. `pcm` (24 kHz, 16 bit, mono) and `mp3` are streamed in chunks.

    Other formats arrive sentence by sentence. `api_key` and `base_url` come from OPENAI_API_KEY and OPENAI_BASE_URL
    when not given; only OpenAI itself requires a key. `voice` is the name of a voice. `instructions` describe how to
    speak, if the model supports it; `speed` is 0.25 to 4.
    """

    provider = "openai"

    def __init__(
        self,
        model_name: str = "gpt-4o-mini-tts",
        *,
        voice: str = "alloy",
        format: SoundFormat = "pcm",
        speed: float | None = None,
        instructions: str | None = None,
        api_key: str | None = None,
        base_url: str | None = None,
        execution_config: ExecutionConfig | None = None,
        transport: Transport | None = None,
    ) -> None:
        super().__init__(model_name, max_characters=4_096, execution_config=execution_config)
        if format not in _TYPES:
            raise ConfigurationError(f"format must be one of {', '.join(_TYPES)}, not {format!r}.")
        self._endpoint = service_endpoint(base_url, api_key, _PATH)
        self.voice = voice
        self.format: SoundFormat = format
        self.speed = speed
        self.instructions = instructions
        self._transport = transport or Transport()

    def do_synthesize(self, text: str) -> Flow[AudioBlock]:
        """One POST.

        Signals: the audio in chunks or as a whole; a `ModelError`.
        Cancels: the request; the response is closed.
        """
        body: dict[str, object] = {
            "input": text,
            "model": self.model_name,
            "voice": self.voice,
            "response_format": self.format,
        }
        if self.speed is not None:
            body["speed"] = self.speed
        if self.instructions is not None:
            body["instructions"] = self.instructions
        request = HttpRequest(self._endpoint.url, encode_json(body).encode("utf-8", "replace"), self._endpoint.headers)
        return from_async_iterable(lambda: self._chunks(request))

    async def _chunks(self, request: HttpRequest) -> AsyncGenerator[AudioBlock]:
        media_type = _TYPES[self.format]
        buffer = bytearray()
        async with aclosing(self._transport.chunks(request, accept=media_type.partition(";")[0])) as chunks:
            async for chunk in chunks:
                buffer += chunk
                # a PCM sample has two bytes, which may arrive in different chunks
                ready = len(buffer) - len(buffer) % 2 if self.format in _STREAMS else 0
                if ready:
                    yield AudioBlock(Base64Source.of(bytes(buffer[:ready]), media_type))
                    del buffer[:ready]
        if buffer:
            yield AudioBlock(Base64Source.of(bytes(buffer), media_type))
