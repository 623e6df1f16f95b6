"""`EspeakTTSModel`: eSpeak NG on this machine, a process for each sentence; WAV in, no network, 100 languages.

It is no Python package: `apt install espeak-ng`, `brew install espeak-ng`.
"""

from __future__ import annotations

import asyncio
import shutil
import struct
from contextlib import suppress

from agentscope_rx.errors import ConfigurationError, ModelError, SetupError
from agentscope_rx.messages import AudioBlock, Base64Source
from agentscope_rx.models.options import ExecutionConfig
from agentscope_rx.models.speech.tts_model import TTSModel
from agentscope_rx.reactive import Flow, from_callable


class EspeakTTSModel(TTSModel):
    """`voice` is a language or a voice of eSpeak's (`espeak-ng --voices`), `speed` words a minute, `pitch` 0 to 99."""

    provider = "espeak"

    def __init__(
        self,
        voice: str = "en",
        *,
        speed: int = 175,
        pitch: int = 50,
        program: str = "espeak-ng",
        execution_config: ExecutionConfig | None = None,
    ) -> None:
        super().__init__("espeak-ng", execution_config=execution_config)
        if not voice or voice.startswith("-"):
            raise ConfigurationError(f"voice is a language such as 'en' or 'de', not {voice!r}.")
        if not (20 <= speed <= 1_000 and 0 <= pitch <= 99):
            raise ConfigurationError(f"speed is 20 to 1000, pitch 0 to 99; not {speed!r} and {pitch!r}.")
        self.voice = voice
        self.program = program
        self._arguments = ("-v", voice, "-s", str(speed), "-p", str(pitch), "-b", "1", "--stdin", "--stdout")

    def do_synthesize(self, text: str) -> Flow[AudioBlock]:
        """One process, one WAV.

        Signals: one chunk; `SetupError` if the program is not installed; a `ModelError` with what it complained of.
        Cancels: the process, and waits for its end.
        """
        return from_callable(lambda: self._spoken(text))

    async def _spoken(self, text: str) -> AudioBlock:
        program = shutil.which(self.program)
        if program is None:
            raise SetupError(
                f"There is no program {self.program!r}. Install eSpeak NG (apt install espeak-ng, brew install "
                "espeak-ng), or say where it is: EspeakTTSModel(program=...)."
            )
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(program, *self._arguments, stdin=pipe, stdout=pipe, stderr=pipe)
        try:
            sound, complaint = await process.communicate(text.encode())
        finally:
            if process.returncode is None:
                with suppress(ProcessLookupError):
                    process.kill()
                await process.wait()
        said = complaint.decode(errors="replace").strip()
        if process.returncode != 0 or sound[:4] != b"RIFF":
            raise ModelError(
                f"{self.program} did not speak (exit code {process.returncode}): {said[:500] or 'no sound'}"
            )
        return AudioBlock(Base64Source.of(_sized(sound), "audio/wav"))


def _sized(sound: bytes) -> bytes:
    """The WAV with its true length: what is written to a pipe does not know it yet."""
    at = sound.find(b"data", 12)
    if at < 0:
        return sound
    length = len(sound) - at - 8
    head = sound[:4] + struct.pack("<I", len(sound) - 8) + sound[8 : at + 4]
    return head + struct.pack("<I", length) + sound[at + 8 :]
