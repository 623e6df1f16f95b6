"""The port to a text-to-speech model: chunks of audio for a text, or for a stream of text.

synthesize(text)            at most max_characters a request, split after sentences
synthesize(flow of text)    sentence by sentence, as each is complete

sentences -- each: defer(do_synthesize) |> timeout |> retry -- one after the other --> AudioBlock, AudioBlock, ...
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator

from reactivex import Observable

from agentscope_rx.messages import AudioBlock
from agentscope_rx.models.attempts import attempts
from agentscope_rx.models.checks import check_count
from agentscope_rx.models.options import ExecutionConfig
from agentscope_rx.models.speech.sentences import Sentences
from agentscope_rx.reactive import (
    Flow,
    concat_map,
    defer,
    flat_map_iterable,
    flow,
    from_iterable,
)


class TTSModel(ABC):
    """A text-to-speech model. Subclass it and implement `do_synthesize`; users call `synthesize`.

    An attempt is repeated only while nothing of its sentence has been emitted. Deadlines and retries are those of
    `execution_config`.
    """

    provider: str = "custom"

    def __init__(
        self, model_name: str, *, max_characters: int = 1_000, execution_config: ExecutionConfig | None = None
    ) -> None:
        check_count("max_characters", max_characters, minimum=20)
        self.model_name = model_name
        self.max_characters = max_characters
        self.execution_config = execution_config

    @abstractmethod
    def do_synthesize(self, text: str) -> Flow[AudioBlock]:
        """One attempt to speak one piece of text (never blank): a cold Flow, without retry or deadline.

        Signals: chunks of audio, to be played one after the other; one `ModelError`.
        Cancels: the request, or the program.
        """

    def synthesize(self, text: str | Observable[str]) -> Flow[AudioBlock]:
        """Speak a text, or a stream of text sentence by sentence, each as soon as it is complete.

        Signals: chunks of audio in the order of the text, none for blank text; a `ModelError`, or the stream's error.
        A sentence is retried only while none of its audio has been emitted.
        Cancels: the request in progress, and the stream of text. (The stream is not slowed down: sentences are queued.)
        """
        if isinstance(text, str):
            return from_iterable(self._pieces(text)).pipe(concat_map(self._bounded))

        def begin() -> Flow[AudioBlock]:
            sentences = Sentences(longest=min(300, self.max_characters))
            whole = flow(text).pipe(flat_map_iterable(sentences.take, sentences.rest))
            return whole.pipe(flat_map_iterable(_speakable), concat_map(self._bounded))

        return defer(begin)

    def _pieces(self, text: str) -> Iterator[str]:
        sentences = Sentences(longest=self.max_characters)
        piece = ""
        for sentence in (*sentences.take(text), *sentences.rest()):
            if len(piece) + len(sentence) > self.max_characters:
                yield from _speakable(piece)
                piece = ""
            piece += sentence
        yield from _speakable(piece)

    def _bounded(self, text: str) -> Flow[AudioBlock]:
        return attempts(lambda: self.do_synthesize(text), self.execution_config, self.model_name, self.provider)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.model_name!r})"


def _speakable(text: str) -> Iterable[str]:
    """The text, stripped; nothing if it has no letter or digit."""
    stripped = text.strip()
    return (stripped,) if any(letter.isalnum() for letter in stripped) else ()
