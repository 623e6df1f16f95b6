"""`FileTools`: the files of a workspace as tools. Results are bounded text (or an image), with a hint how to go on.

| tool              | does                                                       |
|-------------------|------------------------------------------------------------|
| `read_file`       | numbered lines, from `offset`; images as images            |
| `list_directory`  | the names in a folder, with sizes                          |
| `glob`            | files whose path matches a pattern                         |
| `grep`            | lines that match a regular expression                      |
| `write_file`      | creates or overwrites a file                               |
| `edit_file`       | replaces an exact piece of text                            |
| `move_file`       | renames, never over an existing file                       |
| `delete_file`     | a file, or an empty folder                                 |
"""

from __future__ import annotations

import os
from collections.abc import Collection, Generator, Iterable
from typing import Annotated, Any, Protocol, cast

from pydantic import Field

from agentscope_rx.errors import ConfigurationError, ToolError
from agentscope_rx.messages import Base64Source, ImageBlock, TextBlock
from agentscope_rx.reactive import ENGINE_WORKERS
from agentscope_rx.tools.effects import Effects
from agentscope_rx.tools.files.dirfd import FileKind
from agentscope_rx.tools.files.edit import changes, replaced
from agentscope_rx.tools.files.encoding import PLAIN, decoded, image_type, line_count, lines_of, style_of
from agentscope_rx.tools.files.globs import Glob
from agentscope_rx.tools.files.paths import shown
from agentscope_rx.tools.files.search import Search, Walk
from agentscope_rx.tools.files.workspace import Workspace
from agentscope_rx.tools.function_tool import FunctionTool, tool

MAX_LINES = 2_000
MAX_TEXT = 50_000
"""How many characters of a file one result holds."""
MAX_LINE = 2_000
MAX_ENTRIES = 500

WRITING = ("write_file", "edit_file", "move_file", "delete_file")
REMOVING = ("move_file", "delete_file")

_SUFFIX = {FileKind.FOLDER: "/", FileKind.LINK: "  (a link)", FileKind.OTHER: "  (not a file)"}

_FILE = Effects(paths=("path",), confined=True)
_BELOW = Effects(paths=("path",), below=True, confined=True)
_MOVE = Effects(paths=("path", "target"), below=True, confined=True)

FilePath = Annotated[str, Field(description="The file, relative to the working directory.", examples=["src/app.py"])]
FolderPath = Annotated[str, Field(description="The folder, relative to the working directory.", examples=["src"])]


class HasWorkspace(Protocol):
    """A `Backend`, or another object that has a workspace."""

    @property
    def workspace(self) -> Workspace:
        """The workspace."""
        ...


class FileTools:
    """Tools for the files of one workspace. `read_only=True` leaves out the tools that write.

    | tool | arguments | result |
    |---|---|---|
    | `read_file` | `path`, `offset=1`, `limit=2000` | numbered lines and the next `offset`; an image for a picture |
    | `list_directory` | `path="."` | names with sizes, sorted, at most 500 |
    | `glob` | `pattern`, `path="."` | matching paths, sorted, at most 500 in 10 s |
    | `grep` | `pattern`, `path="."`, `glob`, `ignore_case`, `context` | `path:line: text`, at most 200 in 10 s |
    | `write_file` | `path`, `content` | makes folders as needed; keeps mode, encoding and line ends |
    | `edit_file` | `path`, `old_string`, `new_string`, `replace_all` | the change as a diff, or where the text occurs |
    | `move_file`, `delete_file` | `path`, `target` | need approval, unless `requires_approval=False` |

    `requires_approval=True` means every tool that writes; a list of names, those tools. `backend` takes the place of
    the workspace, which is then the backend's.

    - **No tool inserts at a line number**: numbers are wrong after the first of two edits. `edit_file` finds its place
      by the text, which must occur exactly once.
    - **Writes are atomic**: a file is written under another name, then renamed, which breaks a hard link. Edits of one
      file wait for each other in this process. A write of another process meanwhile is detected, and nothing is
      changed.
    - **Bounds**: an answer has at most 50,000 characters. A search examines at most 50,000 files and 50,000 folders.
      Regular expressions run in a child process with 10 s and 1 GiB, because Python's `re` cannot be interrupted.
    - **A refusal** is a `WorkspaceError`, a result of kind `failed` with the reason; its `reason` is one word for
      programs.
    """

    def __init__(
        self,
        workspace: Workspace | str | os.PathLike[str] | None = None,
        read_only: bool = False,
        *,
        requires_approval: Collection[str] | bool = REMOVING,
        backend: HasWorkspace | None = None,
    ) -> None:
        self.workspace: Workspace = _workspace(workspace, backend)
        self.read_only = read_only
        for name in _names(requires_approval):
            bound: FunctionTool[..., object] = getattr(self, name)
            bound.requires_approval = True
            self.__dict__[name] = bound
        for name in set(REMOVING) - set(_names(requires_approval)):
            bound = getattr(self, name)
            bound.requires_approval = False
            self.__dict__[name] = bound
        for name in WRITING if read_only else ():
            # hides the tool by a plain function, which is not registered
            self.__dict__[name] = _refuse

    def __repr__(self) -> str:
        return f"<FileTools in {str(self.workspace.root)!r}{', read only' if self.read_only else ''}>"

    # --- reading --------------------------------------------------------------------------------------------------

    @tool(read_only=True, effects=_FILE)
    def read_file(
        self,
        path: FilePath,
        offset: Annotated[int, Field(description="The first line, counted from 1; from the end if negative.")] = 1,
        limit: Annotated[int, Field(description="How many lines at most.", ge=1)] = MAX_LINES,
    ) -> object:
        """Read a file: its lines with line numbers (which are not part of it), or an image."""
        data = self.workspace.read(path)
        if media_type := image_type(data):
            return [
                TextBlock(f"{path} ({media_type}, {len(data):,} bytes)"),
                ImageBlock(Base64Source.of(data, media_type)),
            ]
        text, style = decoded(data, path)
        lines = lines_of(text)
        if not lines:
            return f"The file {shown(path)} is empty."
        first = offset if offset > 0 else max(1, len(lines) + 1 + offset) if offset < 0 else 1
        if first > len(lines):
            raise ToolError(f"{shown(path)} has {len(lines)} lines; there is no line {first}.")
        return numbered(lines, first, min(limit, MAX_LINES), str(style))

    @tool(read_only=True, effects=_FILE)
    def list_directory(self, path: FolderPath = ".") -> str:
        """List a folder: files with their sizes in bytes, folders with a / at the end."""
        entries = self.workspace.entries(path)
        if not entries:
            return f"The folder {shown(path)} is empty."
        lines = _fitting(
            f"{each.path}{_SUFFIX[each.kind]}" if each.kind in _SUFFIX else f"{each.path}  ({each.size:,})"
            for each in entries[:MAX_ENTRIES]
        )
        if len(entries) > len(lines):
            lines.append(f"... and {len(entries) - len(lines)} more. Find files by name with glob.")
        return "\n".join(lines)

    @tool(read_only=True, effects=_BELOW)
    def glob(
        self,
        pattern: Annotated[
            str,
            Field(
                description="* and ? within a name, ** for folders at any depth, {a,b} for either.",
                examples=["**/*.py", "src/**/test_*.{js,ts}"],
            ),
        ],
        path: FolderPath = ".",
    ) -> str:
        """Find files by a pattern of their path. Sorted, without hidden files."""
        wanted = Glob(pattern)
        start = 0 if self.workspace.kind(path) is FileKind.FILE else len(self.workspace.parts(path))
        walk = Walk(self.workspace, path)
        found: list[str] = []
        for entry in walk:
            if wanted.matches(entry.path.split("/")[start:]):
                found.append(entry.path)
                if len(found) > MAX_ENTRIES:
                    break
        if not found:
            hint = (
                f" Try '**/{pattern}' for folders at any depth." if "/" not in pattern and "**" not in pattern else ""
            )
            cut = f" ({walk.cut})" if walk.cut else ""
            return f"No file matches {pattern!r}. Files visited: {walk.files}{cut}.{hint}"
        fitting = _fitting(found[:MAX_ENTRIES])
        if len(found) > len(fitting):
            fitting.append(f"... and more. Only the first {len(fitting)} are shown; give a narrower pattern.")
        elif walk.cut:
            fitting.append(f"... {walk.cut[:1].upper()}{walk.cut[1:]}.")
        return "\n".join(fitting)

    @tool(read_only=True, effects=_BELOW)
    def grep(
        self,
        pattern: Annotated[
            str, Field(description="A regular expression, for each line.", examples=["def \\w+_test", "TODO"])
        ],
        path: Annotated[str, Field(description="The file or folder to search in.")] = ".",
        glob: Annotated[
            str | None, Field(description="Only matching files; without a / by name alone.", examples=["*.py"])
        ] = None,
        ignore_case: bool = False,
        context: Annotated[int, Field(description="Lines to show before and after each match.", ge=0, le=20)] = 0,
    ) -> object:
        """Search the text of files; results are path:line: text."""
        only = None if glob is None else Glob(glob if "/" in glob else f"**/{glob}")
        # annotated as an object, not as a generator: only the last value is the result, the others are progress
        return self._grep(Search(pattern, ignore_case=ignore_case, context=context), path, only)

    def _grep(self, search: Search, path: str, only: Glob | None) -> Generator[str]:
        start = 0 if self.workspace.kind(path) is FileKind.FILE else len(self.workspace.parts(path))
        walk = Walk(self.workspace, path)
        for entry in walk:
            if search.cut:
                break
            if only is not None and not only.matches(entry.path.split("/")[start:]):
                continue
            search.file(entry.path, lambda entry=entry: self.workspace.read(entry.path))
            if search.files % 500 == 0:
                yield f"{search.files} files searched"
        search.cut = search.cut or walk.cut
        yield search.result()

    # --- writing --------------------------------------------------------------------------------------------------

    @tool(effects=_FILE)
    def write_file(
        self, path: FilePath, content: Annotated[str, Field(description="The whole text of the file.")]
    ) -> str:
        """Create a file, with the folders above it, or overwrite it."""
        note = ""

        def written(head: bytes | None) -> bytes:
            nonlocal note
            style = PLAIN if head is None else style_of(head) or PLAIN
            # an existing file keeps its line ends, a new one has those of the text
            text = content if head is None or style.newline == "\n" else style.lines_ended(content)
            try:
                data = style.encode(text)
            except UnicodeEncodeError:
                data, note = PLAIN.encode(_clean(text)), f" It is UTF-8 now: {style.encoding} cannot encode all of it."
            else:
                note = f" ({style})" if str(style) else ""
            return data

        new = self.workspace.write(path, written)
        lines = line_count(content)
        return f"{'Made' if new else 'Replaced'} {shown(path)}: {lines} lines.{note}"

    @tool(effects=_FILE)
    def edit_file(
        self,
        path: FilePath,
        old_string: Annotated[str, Field(description="The exact text to replace, which must occur only once.")],
        new_string: Annotated[str, Field(description="The new text.")],
        replace_all: Annotated[bool, Field(description="Replace every occurrence.")] = False,
    ) -> str:
        """Replace a piece of a file's text; gives the changed lines."""
        report = ""

        def changed(data: bytes) -> bytes:
            nonlocal report
            text, style = decoded(data, path)
            most = self.workspace.max_write
            edited, count = replaced(text, old_string, new_string, every=replace_all, path=path, max_size=most)
            try:
                after = style.encode(edited)
            except UnicodeEncodeError as error:
                raise ToolError(
                    f"{shown(path)} has the encoding {style.encoding}, which has no {edited[error.start]!r}. "
                    "Use other characters, or overwrite the file with write_file."
                ) from None
            report = f"Edited {shown(path)}: {count} {'place' if count == 1 else 'places'}.\n{changes(text, edited)}"
            return after

        self.workspace.update(path, changed)
        return report

    @tool(requires_approval=True, effects=_MOVE)
    def move_file(
        self,
        path: Annotated[str, Field(description="The file or folder, relative to the working directory.")],
        target: Annotated[str, Field(description="Its new path, which must not exist yet.")],
    ) -> str:
        """Move or rename a file or folder."""
        self.workspace.move(path, target)
        return f"Moved {shown(path)} to {shown(target)}."

    @tool(requires_approval=True, effects=_FILE)
    def delete_file(self, path: FilePath) -> str:
        """Delete a file or an empty folder."""
        self.workspace.delete(path)
        return f"Deleted {shown(path)}."


def _fitting(lines: Iterable[str]) -> list[str]:
    """As many of the lines as one result holds, at least one."""
    taken: list[str] = []
    room = MAX_TEXT
    for line in lines:
        room -= len(line) + 1
        if room < 0 and taken:
            break
        taken.append(line)
    return taken


for _each in vars(FileTools).values():
    if isinstance(_each, FunctionTool):
        # these tools always end, so that they run on threads which stuck tools cannot occupy
        cast("FunctionTool[..., object]", _each).default_executor = ENGINE_WORKERS


def _refuse(*_: Any, **__: Any) -> str:
    raise ToolError("These file tools are read-only. Nothing was written.")


def _workspace(workspace: Workspace | str | os.PathLike[str] | None, backend: HasWorkspace | None) -> Workspace:
    if (workspace is None) == (backend is None):
        raise ConfigurationError("FileTools takes a workspace (a folder), or a backend=..., and not both.")
    if backend is not None:
        found: object = getattr(backend, "workspace", None)
        if not isinstance(found, Workspace):
            raise ConfigurationError(f"backend takes a Backend, such as LocalBackend('project'), not {backend!r:.60}.")
        return found
    if isinstance(getattr(workspace, "workspace", None), Workspace):
        raise ConfigurationError("Give a backend by its name: FileTools(backend=...).")
    return workspace if isinstance(workspace, Workspace) else Workspace(cast("str", workspace))


def _names(requires_approval: Collection[str] | bool) -> tuple[str, ...]:
    if isinstance(requires_approval, bool):
        return WRITING if requires_approval else ()
    names = (requires_approval,) if isinstance(requires_approval, str) else tuple(requires_approval)
    known = [name for name, each in vars(FileTools).items() if isinstance(each, FunctionTool)]
    for name in names:
        if name not in known:
            raise ConfigurationError(f"requires_approval names {name!r}; the file tools are {', '.join(known)}.")
    return cast("tuple[str, ...]", names)


def _clean(text: str) -> str:
    """Replace lone surrogates, which no encoding has."""
    return text.encode("utf-8", "replace").decode()


def numbered(lines: list[str], first: int, limit: int, style: str = "", room: int = MAX_TEXT) -> str:
    """Numbered lines, as many as fit into `room` characters, with a note if there are more."""
    taken: list[str] = []
    for number, line in enumerate(lines[first - 1 : first - 1 + limit], first):
        cut = line if len(line) <= MAX_LINE else f"{line[:MAX_LINE]}... ({len(line) - MAX_LINE} more characters)"
        if len(cut) + 8 > room and taken:
            break
        taken.append(f"{number:>6}\t{cut}")
        room -= len(cut) + 8
    last = first + len(taken) - 1
    notes = [f"Encoding: {style}."] if style else []
    if first > 1 or last < len(lines):
        more = f" Read on with offset={last + 1}." if last < len(lines) else ""
        notes.append(f"Lines {first} to {last} of {len(lines)}.{more}")
    return "\n".join(taken) + (f"\n({' '.join(notes)})" if notes else "")
