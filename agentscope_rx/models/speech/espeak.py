"""`EspeakTTSModel`: eSpeak NG on this machine, a process for each sentence; 100 languages, no network.

The program is installed separately: `apt install espeak-ng`, `brew install espeak-ng`.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import struct
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from subprocess import PIPE, Popen

from agentscope_rx.errors import ConfigurationError, ModelError, SetupError
from agentscope_rx.messages import AudioBlock, Base64Source
from agentscope_rx.models.options import ExecutionConfig
from agentscope_rx.models.speech.tts_model import TTSModel
from agentscope_rx.reactive import ENGINE_WORKERS, Flow, from_callable, on_worker

END_SECONDS = 5.0
"""How long the system may take to end a process."""


class EspeakTTSModel(TTSModel):
    """eSpeak NG on this machine, a process for each sentence; 100 languages, no network.

    Install the program: `apt install espeak-ng`, `brew install espeak-ng`. `voice` is a language or a voice (see
    `espeak-ng --voices`), `speed` is in words per minute, `pitch` 0 to 99. Each sentence is one WAV.
    """

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
        call = _Call((program, *self._arguments), text.encode())
        try:
            code, audio, stderr = await on_worker(call.run, ENGINE_WORKERS)
        except asyncio.CancelledError:
            call.end()
            await on_worker(call.wait, ENGINE_WORKERS)
            raise
        message = stderr.decode(errors="replace").strip()
        if code != 0 or audio[:4] != b"RIFF":
            raise ModelError(f"{self.program} failed (exit code {code}): {message[:500] or 'no sound'}")
        return AudioBlock(Base64Source.of(_with_length(audio), "audio/wav"))


class _Call:
    """One process, started, fed and read on a worker thread; `end` kills it at any time.

    asyncio's own processes leave their pipes open, or never end, if the loop closes while they start.
    """

    def __init__(self, words: Sequence[str], given: bytes) -> None:
        self._words = words
        self._given = given
        self._process: Popen[bytes] | None = None
        self._left = False
        self._running = threading.Lock()

    def run(self) -> tuple[int, bytes, bytes]:
        """Block until the process has ended: its exit code, its output, and its error output."""
        with (
            self._running,
            Popen(self._words, stdin=PIPE, stdout=PIPE, stderr=PIPE, start_new_session=True) as process,  # noqa: S603 - the program that the caller names
        ):
            # each thread writes its own field before it reads the other's, so that one of them sees both
            self._process = process
            if self._left:
                _kill(process)
            audio, stderr = process.communicate(self._given)
            return process.returncode, audio, stderr

    def end(self) -> None:
        """Kill the process, now or as soon as it has started."""
        self._left = True
        if self._process is not None:
            _kill(self._process)

    def wait(self) -> None:
        """Block until the process has ended, for a limited time."""
        if self._running.acquire(timeout=END_SECONDS):
            self._running.release()


def _kill(process: Popen[bytes]) -> None:
    """End the process and those that it has started: they hold its pipes."""
    if process.returncode is None:
        with suppress(ProcessLookupError, PermissionError):
            if sys.platform == "win32":
                process.kill()
            else:
                os.killpg(process.pid, signal.SIGKILL)


def _with_length(sound: bytes) -> bytes:
    """The WAV file with its length in the header: eSpeak does not know it when it writes to a pipe."""
    at = sound.find(b"data", 12)
    if at < 0:
        return sound
    length = len(sound) - at - 8
    head = sound[:4] + struct.pack("<I", len(sound) - 8) + sound[8 : at + 4]
    return head + struct.pack("<I", length) + sound[at + 8 :]
