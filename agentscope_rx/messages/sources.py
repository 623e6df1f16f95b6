"""The sources of the bytes of an image, audio, video or file; a video can also be given as frames.

| source         | content                       | read from JSON                                                |
|----------------|-------------------------------|---------------------------------------------------------------|
| `URLSource`    | an address, for the vendor    | yes                                                           |
| `Base64Source` | the bytes                     | yes                                                           |
| `FileSource`   | the path of a local file      | refused unless it is below a given root (see `reading`)       |

A local file has its own type, because a message may come from a network and must not open files of this machine.
"""

from __future__ import annotations

import base64
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, cast
from urllib.parse import urlsplit

from pydantic import Discriminator, GetCoreSchemaHandler
from pydantic_core import core_schema

from agentscope_rx.errors import InvalidInputError
from agentscope_rx.frozen_values import dataclass
from agentscope_rx.messages.frozen import EMPTY, check_encodable, encodable, shown
from agentscope_rx.messages.local_file import MAX_FILE_BYTES, checked_root, read_file, resolved_beneath

FILE_ROOT = "file_root"
"""The key in a pydantic context for the folder below which `FileSource`s can be read from JSON."""
LOCK_FILES = "lock_files"
"""The key in that context to read other `FileSource`s as locked ones instead of refusing them."""

# a single letter before a colon is a drive
_ADDRESS = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):.", re.DOTALL)

_Own = core_schema.ValidatorFunctionWrapHandler
_Info = core_schema.ValidationInfo[Any]


@dataclass(frozen=True, slots=True)
class URLSource:
    """An address with a scheme: `https:`, `http:`, `data:`, or a vendor's own, such as `gs:`, `s3:` or `oss:`.

    The vendor gets it unchanged and fetches it; this library does not. For a local file use `FileSource`.
    """

    url: str
    type: Literal["url"] = "url"

    def __post_init__(self) -> None:
        if not isinstance(self.url, str) or not self.url:  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InvalidInputError(f"URLSource needs a url, as a str, not {shown(self.url)}.")
        check_encodable(self.url, "URLSource.url")
        if is_local(self.url):
            raise InvalidInputError(
                f"URLSource takes an address with a scheme, such as https:, data: or gs:, not {self.url[:80]!r}. "
                "A local file is named in code, with FileSource(path), or sent as data, with Base64Source."
            )

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> core_schema.CoreSchema:
        return _schema(cls, "url", "url", _read_url_source)


@dataclass(frozen=True, slots=True)
class Base64Source:
    """Data in base64 with its media type, such as `image/png`."""

    media_type: str
    data: str
    type: Literal["base64"] = "base64"

    def __post_init__(self) -> None:
        if not (self.media_type and self.data and isinstance(self.data, str)):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InvalidInputError(
                "Base64Source needs a media_type (such as 'image/png') and data in base64. Base64Source.of takes bytes."
            )
        check_encodable(self.media_type, "Base64Source.media_type")
        check_encodable(self.data, "Base64Source.data")

    @classmethod
    def of(cls, data: bytes, media_type: str) -> Base64Source:
        """The source of these bytes."""
        return cls(media_type, base64.b64encode(data).decode("ascii"))

    @classmethod
    def of_file(cls, path: str | os.PathLike[str], media_type: str, *, max_bytes: int = MAX_FILE_BYTES) -> Base64Source:
        """The source of this file's bytes, read now; `InvalidInputError` if it has more than `max_bytes`."""
        return cls.of(read_file(path, max_bytes), media_type)

    def decode(self) -> bytes:
        """The bytes; `InvalidInputError` if the data is not base64."""
        try:
            return base64.b64decode(self.data, validate=True)
        except ValueError as error:
            raise InvalidInputError(f"The data of this {self.media_type} source is not base64: {error}") from error


@dataclass(frozen=True, slots=True, init=False)
class FileSource:
    """A local file. It is read when a model is called, and sent as data.

    Only regular files are read, at most 50 MiB each and 100 MiB in a request. `path` becomes absolute. With `root` a
    relative path starts in this folder, and the file must lie below it after links are followed.

    A message from outside must not open your files, so JSON does not bring them back without `file_root`:

    | reader                                                                        | without      | with it     |
    |-------------------------------------------------------------------------------|--------------|-------------|
    | `Msg.from_json`, `from_dict`, tool arguments, structured output, HTTP service | refused      | files below |
    | `Agent.load`, `Agent.bind`, `event_from_json`, `event_from_dict`              | locked       | files below |

    Your pydantic models refuse it, too, unless you validate with `context={"file_root": folder}`. A `locked` source is
    kept and saved again, but a request to a model with it is an `InvalidInputError`; `FileSource(source.path)` in your
    own code unlocks it. Copies and pickles keep `root` and `locked`; JSON has only the path.
    """

    path: str
    root: str | None = None
    locked: bool = False
    type: Literal["file"] = "file"

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        root: str | os.PathLike[str] | None = None,
        locked: bool = False,
        type: Literal["file"] = "file",
    ) -> None:
        named = os.fspath(path) if isinstance(path, (str, os.PathLike)) else None  # pyright: ignore[reportUnnecessaryIsInstance]
        if not isinstance(named, str) or not named:  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InvalidInputError(f"FileSource needs the path of a file, not {path!r:.80}.")
        folder = None if locked else checked_root(root)
        put = object.__setattr__
        put(self, "path", encodable(named) if locked else _checked_path(named, folder))
        put(self, "root", folder)
        put(self, "locked", bool(locked))
        put(self, "type", type)

    def read(self, max_bytes: int = MAX_FILE_BYTES) -> bytes:
        """The bytes of the file, read now; blocks. `InvalidInputError` if it cannot be read, is too large or locked."""
        if self.locked:
            raise InvalidInputError(
                f"The file {self.path} is locked: its path comes from saved state, which is not trusted to open files. "
                "Load with file_root=<the folder of such files> (agent.load, agent.bind), or replace it by "
                "FileSource(path)."
            )
        return read_file(self.path, max_bytes, self.root)

    def __post_init__(self) -> None:
        # not called by __init__, but by a codec that sets the slots itself
        raise _refusal(self.path)

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> core_schema.CoreSchema:
        return _schema(cls, "file", "path", _read_file_source)


def is_local(url: str) -> bool:
    """True for a path or a `file:` URL, False for another address."""
    found = _ADDRESS.match(url)
    return found is None or found[1].lower() == "file"


def reading(file_root: str | os.PathLike[str] | None, *, lock: bool = False) -> dict[str, object]:
    """The pydantic context to read messages from JSON.

    Files below `file_root` become `FileSource`s. Others are refused, or with `lock` become locked ones.
    """
    return {FILE_ROOT: checked_root(file_root), LOCK_FILES: lock}


def _schema(
    cls: type[Any], tag: str, field: str, read: core_schema.WithInfoWrapValidatorFunction
) -> core_schema.CoreSchema:
    """The schema that pydantic makes of such a dataclass, wrapped in `read`.

    It is written out because pydantic shares the schema of a dataclass by its `ref`, without a wrapper around it:
    where a class is used twice, `read` would be missing the second time. Here the shared schema includes `read`.
    """
    kind = core_schema.with_default_schema(core_schema.literal_schema([tag]), default=tag)
    schemas = {field: core_schema.str_schema(), "type": kind}
    fields = [core_schema.dataclass_field(name, schema) for name, schema in schemas.items()]
    arguments = core_schema.dataclass_args_schema(cls.__name__, fields)
    made = core_schema.dataclass_schema(cls, arguments, list(schemas), post_init=True, slots=True)
    ref = f"{cls.__module__}.{cls.__qualname__}:{id(cls)}"
    return core_schema.with_info_wrap_validator_function(read, made, ref=ref)


def _read_url_source(value: Any, own: _Own, info: _Info) -> object:
    path = _path_of_old(value) if _asks_to_lock(info.context) else None
    return own(value) if path is None else _read_back(path, info.context)


def _read_file_source(value: Any, own: _Own, info: _Info) -> object:
    if isinstance(value, FileSource):
        return value
    path = _mapping(value).get("path")
    if not isinstance(path, str) or not path:
        raise InvalidInputError("The source of a file needs its path, as text.")
    return _read_back(path, info.context)


def _read_back(path: str, context: object) -> FileSource:
    """The source for a path in JSON, if the context allows it."""
    root = cast("str | None", _mapping(context).get(FILE_ROOT))
    lock = _asks_to_lock(context)
    if root is None and not lock:
        raise _refusal(path)
    try:
        return FileSource(path, root=root, locked=root is None)
    except InvalidInputError:
        if lock:
            return FileSource(path, locked=True)
        raise


def _refusal(path: str) -> InvalidInputError:
    return InvalidInputError(
        f"{path[:80]!r} is a local file, and a message from outside may not open local files. Send its bytes, as a "
        "base64 source; or let the program that reads the message allow a folder of files (file_root=)."
    )


def _asks_to_lock(context: object) -> bool:
    return _mapping(context).get(LOCK_FILES) is True


def _mapping(value: object) -> Mapping[str, object]:
    return cast("Mapping[str, object]", value) if isinstance(value, Mapping) else EMPTY


def _path_of_old(value: object) -> str | None:
    """The path in a saved `URLSource` of an older release, which could hold one; None for anything else."""
    url = _mapping(value).get("url")
    if not isinstance(url, str) or not url or not is_local(url):
        return None
    # it brings an HTTP client, which would take part of the time that the library takes to import
    from urllib.request import url2pathname

    try:
        return url2pathname(urlsplit(url).path) if url[:5].lower() == "file:" else url
    except ValueError:
        # not a valid file URL; it is kept as a locked path
        return url


def _checked_path(path: str, root: str | None) -> str:
    if _ADDRESS.match(path) and ("://" in path or path[:5].lower() == "file:"):
        raise InvalidInputError(f"FileSource takes a path, not a URL: {path[:80]!r}. An address is a URLSource.")
    if "\0" in path or path != encodable(path):
        raise InvalidInputError(f"The path {path[:80]!r} has characters that JSON or the system cannot take.")
    try:
        whole = str(Path(root or "", path).absolute())
    except OSError as error:
        raise InvalidInputError(f"The path {path[:80]!r} is relative, and there is no working directory.") from error
    if root is not None:
        resolved_beneath(root, whole)
    return whole


SOURCE_TYPES = (URLSource, Base64Source, FileSource)

Source = Annotated[URLSource | Base64Source | FileSource, Discriminator("type")]
"""The source of the data of a picture, sound, video or file. pydantic chooses the class by `type`."""


@dataclass(frozen=True, slots=True)
class FramesSource:
    """A video as pictures, in their order; `VideoBlock.fps` is their number per second."""

    frames: tuple[Source, ...]
    type: Literal["frames"] = "frames"

    def __post_init__(self) -> None:
        object.__setattr__(self, "frames", tuple(self.frames))
        if not self.frames or not all(isinstance(frame, SOURCE_TYPES) for frame in self.frames):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InvalidInputError(f"FramesSource needs the sources of its pictures, not {shown(self.frames)}.")


VideoSource = Annotated[URLSource | Base64Source | FileSource | FramesSource, Discriminator("type")]
