"""`EspeakTTSModel`: eSpeak NG on this machine, a process for each sentence; 100 languages, no network.

The program is installed separately: `apt install espeak-ng`, `brew install espeak-ng`.
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
    """`voice` is a language or a voice (see `espeak-ng --voices`), `speed` is in words per minute, `pitch` 0 to 99."""

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
            raise ConfigurationError(f"voice must be a language such as 'en' or 'de', not {voice!r}.")
        if not (20 <= speed <= 1_000 and 0 <= pitch <= 99):
            raise ConfigurationError(f"speed must be 20 to 1000 and pitch 0 to 99, not {speed!r} and {pitch!r}.")
        self.voice = voice
        self.program = program
        self._arguments = ("-v", voice, "-s", str(speed), "-p", str(pitch), "-b", "1", "--stdin", "--stdout")

    def do_synthesize(self, text: str) -> Flow[AudioBlock]:
        """One process per text, one WAV file.

        Signals: one chunk; `SetupError` if the program is not installed; a `ModelError` with its error output.
        Cancels: the process; waits until it has ended.
        """
        return from_callable(lambda: self._spoken(text))

    async def _spoken(self, text: str) -> AudioBlock:
        program = shutil.which(self.program)
        if program is None:
            raise SetupError(
                f"The program {self.program!r} was not found. Install eSpeak NG (apt install espeak-ng, brew install "
                "espeak-ng), or set its path: EspeakTTSModel(program=...)."
            )
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(program, *self._arguments, stdin=pipe, stdout=pipe, stderr=pipe)
        try:
            audio, stderr = await process.communicate(text.encode())
        finally:
            if process.returncode is None:
                with suppress(ProcessLookupError):
                    process.kill()
                await process.wait()
        message = stderr.decode(errors="replace").strip()
        if process.returncode != 0 or audio[:4] != b"RIFF":
            raise ModelError(f"{self.program} failed (exit code {process.returncode}): {message[:500] or 'no sound'}")
        return AudioBlock(Base64Source.of(_with_length(audio), "audio/wav"))


def _with_length(sound: bytes) -> bytes:
    """The WAV file with its length in the header: eSpeak does not know it when it writes to a pipe."""
    at = sound.find(b"data", 12)
    if at < 0:
        return sound
    length = len(sound) - at - 8
    head = sound[:4] + struct.pack("<I", len(sound) - 8) + sound[8 : at + 4]
    return head + struct.pack("<I", length) + sound[at + 8 :]
