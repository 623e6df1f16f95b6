"""Stores results that are too large to be shown: `evicted`, and `FolderEvictor`, which keeps them in files.

result --too large--> store(call, result) --reference--> head [... The whole is in: reference] tail
                                          --X----------> head [... ask for less at a time ...] tail
"""

from __future__ import annotations

import hashlib
import logging
import mimetypes
import os
from functools import partial
from pathlib import Path
from uuid import uuid4

from reactivex import operators as ops

from agentscope_rx.errors import ConfigurationError, ToolError
from agentscope_rx.messages import Base64Source, TextBlock, ToolResultBlock, ToolUseBlock
from agentscope_rx.reactive import Flow, catch, concat_map, just, timeout
from agentscope_rx.tools.calls.lift import kind_of, lift
from agentscope_rx.tools.calls.signals import ToolEvent
from agentscope_rx.tools.results.result_limit import ResultLimit, cut

_log = logging.getLogger("agentscope_rx")


def evicted(limit: ResultLimit, call: ToolUseBlock, result: ToolResultBlock) -> Flow[ToolEvent]:
    """Emits the result within its limit, after the whole is stored if it is larger and there is an evictor.

    Signals: one result, completion; if the evictor fails or takes too long, the result is cut and says so.
    Cancels: the storing.
    """
    if limit.holds(result):
        return just(result)
    if limit.evictor is None:
        return just(cut(result, limit))
    store = limit.store

    def stored_at(reference: object) -> ToolEvent:
        if not isinstance(reference, str) or not reference.strip():
            raise ToolError(f"{store!r:.100} must return the place of the result as a str, not {reference!r:.60}.")
        if limit.chars is not None and len(reference) > limit.chars // 2:
            raise ToolError(f"{store!r:.100} returned a reference of {len(reference)} characters, which is too long.")
        return cut(result, limit, reference)

    def failed(error: Exception) -> Flow[ToolEvent]:
        _log.warning("A result of tool %s could not be stored and is cut", call.name, exc_info=error)
        return just(cut(result, limit, error=f"{type(error).__name__}: {error}"))

    stored = lift(kind_of(store), partial(store, call, result))
    return stored.pipe(timeout(total=limit.patience), ops.last(), concat_map(stored_at), catch(failed))


class FolderEvictor:
    """Stores each result in a folder: its text in one file, each of its media in another.

    `shown_as` is the folder's name for the model, such as its path in the workspace of the file tools. File names come
    from the tool, the call and the content, so no file leaves the folder and none replaces another. Each file appears
    whole. Nothing deletes them.
    """

    def __init__(self, path: str | Path, *, shown_as: str | None = None) -> None:
        if not isinstance(path, (str, Path)) or not str(path):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigurationError(f"FolderEvictor needs the path of a folder, not {path!r:.60}.")
        self.path: Path = Path(path)
        self.shown_as: str = self.path.as_posix() if shown_as is None else shown_as.rstrip("/")

    def __repr__(self) -> str:
        return f"FolderEvictor({str(self.path)!r})"

    def store(self, call: ToolUseBlock, result: ToolResultBlock, /) -> str:
        """Write the files; returns their names."""
        # (imported here: few programs store results)
        from agentscope_rx.session.durable import make_folder

        make_folder(self.path)
        files: list[tuple[str, bytes]] = []
        if any(isinstance(block, TextBlock) for block in result.output):
            files.append((".txt", result.text.encode()))
        for block in result.output:
            if not isinstance(block, TextBlock) and isinstance(block.source, Base64Source):
                files.append((_suffix(block.source.media_type), block.source.decode()))
        return ", ".join(self._write(call, suffix, data) for suffix, data in files)

    def _write(self, call: ToolUseBlock, suffix: str, data: bytes) -> str:
        from agentscope_rx.session.durable import write_file
        from agentscope_rx.session.manifest import file_name

        digest = hashlib.sha256(data).hexdigest()[:12]
        name = f"{file_name(call.name)}-{file_name(call.id)}-{digest}{suffix}"
        # under a unique name: calls with the same content may come at once
        fresh = self.path / f".{uuid4().hex}.tmp"
        try:
            write_file(fresh, data)
            os.replace(fresh, self.path / name)
        finally:
            fresh.unlink(missing_ok=True)
        return f"{self.shown_as}/{name}" if self.shown_as else name


def _suffix(media_type: str) -> str:
    found = mimetypes.guess_extension(media_type)
    return found if found is not None and found[1:].isalnum() else ".bin"
