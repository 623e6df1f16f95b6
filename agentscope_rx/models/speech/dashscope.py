"""`DashScopeTTSModel`: Qwen's voices over HTTP; the audio is streamed.

| request                | audio                                                       |
|------------------------|-------------------------------------------------------------|
| streamed, the default  | `output.audio.data` of each event: PCM, 24 kHz, 16 bit, mono |
| `stream=False`         | `output.audio.data`, or the file at its `url`: WAV          |
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import cast

from agentscope_rx.errors import ConfigurationError, ProtocolError
from agentscope_rx.messages import AudioBlock, Base64Source
from agentscope_rx.models.dashscope.endpoint import endpoint_of, request_headers
from agentscope_rx.models.options import ExecutionConfig
from agentscope_rx.models.speech.tts_model import TTSModel
from agentscope_rx.models.transport import HttpRequest, Transport
from agentscope_rx.models.transport.status import answered_error
from agentscope_rx.models.wire.json_codec import (
    JsonObject,
    decode_json,
    encode_json,
    malformed,
    object_in,
    proof_in,
    text_in,
)
from agentscope_rx.reactive import Flow, from_async_iterable

PCM = "audio/pcm;rate=24000"
_PATH = "/services/aigc/multimodal-generation/generation"


class DashScopeTTSModel(TTSModel):
    """Qwen's voices over HTTP; the audio is streamed.

    | request               | audio                                   |
    |-----------------------|-----------------------------------------|
    | streamed, the default | PCM of each event, 24 kHz, 16 bit, mono |
    | `stream=False`        | a WAV, or its address                   |

    `language` is a name such as "English"; `parameters` are sent unchanged (sample_rate, volume, ...). `fetch=True`
    downloads the audio from its address: without the key, from public addresses only, without a proxy or redirects, up
    to 50 MiB. By default no address but `base_url` is contacted.
    """

    provider = "dashscope"

    def __init__(
        self,
        model_name: str = "qwen3-tts-flash",
        *,
        voice: str = "Cherry",
        language: str = "Auto",
        stream: bool = True,
        fetch: bool = False,
        parameters: JsonObject | None = None,
        api_key: str | None = None,
        base_url: str | None = None,
        workspace: str | None = None,
        execution_config: ExecutionConfig | None = None,
        transport: Transport | None = None,
    ) -> None:
        super().__init__(model_name, max_characters=600, execution_config=execution_config)
        if not voice.strip():
            raise ConfigurationError("voice is the name of one of the model's voices, such as 'Cherry'.")
        self.voice = voice
        self.language = language
        self._streams = stream
        self._fetch = fetch
        self._parameters = dict(parameters or {})
        self._endpoint = endpoint_of(base_url, api_key, workspace)
        self._transport = transport or Transport()

    def do_synthesize(self, text: str) -> Flow[AudioBlock]:
        """One POST, and with `fetch` one GET if the answer is an address.

        Signals: the audio in chunks or as a whole; a `ModelError`; `ConfigurationError` for an address if `fetch` is
        False.
        Cancels: the request; the response is closed.
        """
        given = {"text": text, "voice": self.voice, "language_type": self.language}
        body: dict[str, object] = {"model": self.model_name, "input": given}
        if self._parameters:
            body["parameters"] = self._parameters
        request = HttpRequest(
            self._endpoint.url_with({}, _PATH),
            encode_json(body).encode("utf-8", "replace"),
            self._endpoint.headers_with(request_headers(stream=self._streams, uploads=False)),
        )
        return from_async_iterable(lambda: self._streamed(request) if self._streams else self._whole(request))

    async def _streamed(self, request: HttpRequest) -> AsyncGenerator[AudioBlock]:
        has_audio = False
        audio: JsonObject = {}
        with self._transport.hiding(request):
            async with aclosing(self._transport.events(request)) as events:
                async for event in events:
                    if not event.data.strip():
                        continue
                    audio = _audio(decode_json(event.data)) or audio
                    data = proof_in(audio, "data")
                    if data:
                        has_audio = True
                        yield AudioBlock(Base64Source(PCM, data))
        if not has_audio:
            yield await self._fetched(audio)

    async def _whole(self, request: HttpRequest) -> AsyncGenerator[AudioBlock]:
        with self._transport.hiding(request):
            audio = _audio(await self._transport.answer(request)) or {}
            data = proof_in(audio, "data")
        yield AudioBlock(Base64Source("audio/wav", data)) if data else await self._fetched(audio)

    async def _fetched(self, audio: JsonObject) -> AudioBlock:
        url = text_in(audio, "url")
        if not url:
            raise ProtocolError("The answer has no audio: neither output.audio.data nor output.audio.url.")
        if not self._fetch:
            raise ConfigurationError(
                "The answer is an address, not audio. Use DashScopeTTSModel(fetch=True) to download from it, or "
                "stream=True for audio in the answer."
            )
        from agentscope_rx.models.transport.fetch import fetched

        # without the key: the address is signed, and of another server
        audio_file = await fetched(url, self._transport.config, accept="audio/*")
        return AudioBlock(Base64Source.of(audio_file, "audio/wav"))


def _audio(answer: object) -> JsonObject | None:
    if not isinstance(answer, dict):
        raise malformed("it is not an object", answer)
    found = cast("JsonObject", answer)
    error = answered_error(found) if found.get("code") else None
    if error is not None:
        raise error
    return object_in(object_in(found, "output") or {}, "audio")
