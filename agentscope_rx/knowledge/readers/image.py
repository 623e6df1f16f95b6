"""`ImageReader`: pictures, with a text by a model that can see them."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import ClassVar

from agentscope_rx.errors import ConfigurationError, DamagedDocumentError
from agentscope_rx.knowledge.document import DocumentSource, Section
from agentscope_rx.knowledge.reader import Reader
from agentscope_rx.knowledge.readers.formats.parts import clean
from agentscope_rx.knowledge.readers.limits import MIB, ReadLimits
from agentscope_rx.knowledge.readers.opening import opened
from agentscope_rx.messages import Base64Source, ImageBlock, Msg, TextBlock
from agentscope_rx.models.accumulate import ResponseAccumulator, accumulated
from agentscope_rx.models.chat_model import ChatModel
from agentscope_rx.reactive import ENGINE_WORKERS, Flow, concat_map, just, on_worker
from agentscope_rx.tools.files.encoding import image_type

DESCRIBE = (
    "Describe this picture for a search index, in at most 200 words: what it shows, names, numbers and labels in it, "
    "and all text in it, word for word. Answer with the description alone."
)
"""The default prompt."""
LIMITS = ReadLimits(size=10 * MIB)


class ImageReader(Reader):
    """Reads PNG, JPEG, GIF and WebP as one section with the picture.

    Its text is the description by the model `describe`, which must accept images. Without one, it is the document's
    title, or the words of its name. Pictures are not unpacked here.
    """

    suffixes: ClassVar[tuple[str, ...]] = (".png", ".jpg", ".jpeg", ".gif", ".webp")
    media_types: ClassVar[tuple[str, ...]] = ("image/png", "image/jpeg", "image/gif", "image/webp")

    def __init__(
        self, *, describe: ChatModel | None = None, prompt: str = DESCRIBE, limits: ReadLimits = LIMITS
    ) -> None:
        capabilities = None if describe is None else describe.capabilities
        if describe is not None and capabilities is not None and not capabilities.images:
            raise ConfigurationError(
                f"The model {describe.model_name} cannot see pictures: describe needs one that can."
            )
        self.describe = describe
        self.prompt = prompt
        self.limits = limits

    @property
    def fingerprint(self) -> str:
        """The kind of reader, and the model that describes."""
        return f"ImageReader({self.describe.model_name if self.describe is not None else ''})"

    def read(self, source: DocumentSource) -> Flow[Section]:
        """Read the picture on a worker thread, and let the model describe it.

        Signals: one section; a `DocumentError`; an error of the model; `DamagedDocumentError` if it writes nothing.
        Cancels: the model's answer.
        """
        return on_worker(lambda: self._image(source), ENGINE_WORKERS).pipe(
            concat_map(lambda image: self._section(source, image))
        )

    def _image(self, source: DocumentSource) -> ImageBlock:
        with opened(source, self.limits) as file:
            data = file.read(self.limits.size + 1)
        media_type = image_type(data[:64])
        if media_type is None:
            raise DamagedDocumentError(source.document.id, "it is no picture in PNG, JPEG, GIF or WebP")
        return ImageBlock(Base64Source.of(data, media_type))

    def _section(self, source: DocumentSource, image: ImageBlock) -> Flow[Section]:
        if self.describe is None:
            return just(Section(text=_named(source), kind="image", image=image))
        question = Msg.user((image, TextBlock(self.prompt)))

        def described(answer: ResponseAccumulator) -> Flow[Section]:
            text = clean(Msg.assistant(answer.blocks(complete=True)).text.strip())
            if not text:
                raise DamagedDocumentError(source.document.id, "the model wrote no description of it")
            return just(Section(text=text, kind="image", image=image))

        return accumulated(self.describe.stream((question,))).pipe(concat_map(described))


def _named(source: DocumentSource) -> str:
    """The title, or the words of the name."""
    document = source.document
    stem = PurePosixPath(document.id.replace("\\", "/")).stem
    return document.title.strip() or " ".join(stem.replace("_", " ").replace("-", " ").split()) or document.id
