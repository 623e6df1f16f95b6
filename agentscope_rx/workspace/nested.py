"""`NestedInstructions`: the AGENTS.md of a sub-folder, in the result of the first tool call that uses a path below it.

    read_file(path="web/api/app.py")
        result: the file | web/AGENTS.md | web/api/AGENTS.md            once in a conversation
    edit_file(path="web/api/app.py", ...)
        result: the change                                              nothing new

The text stands in a result and not in the system message, so that what is before it stays in the prompt cache, and not
in a hint, which lasts one round. It is shown again when the file has changed, or when the message with it is no longer
sent whole (a compaction). A tool's own text cannot look like it: `<` before one of its tags becomes `&lt;`.

| an AGENTS.md                                                     | is shown                     |
|------------------------------------------------------------------|------------------------------|
| in the folder of a path argument that exists, or above it        | yes                          |
| of the workspace itself                                          | no: it is in the system message |
| in hidden, skipped and denied folders                            | no: others have written it   |
| that is the very path, or cannot be read                         | no                           |
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from typing import Final, cast

from agentscope_rx.errors import InvalidInputError, WorkspaceError
from agentscope_rx.events import PostActingEvent
from agentscope_rx.frozen_values import dataclass
from agentscope_rx.memory.short_forms import has_short_forms
from agentscope_rx.messages import COMPRESSED, HIDDEN, Msg, TextBlock, ToolResultBlock
from agentscope_rx.parts import Part
from agentscope_rx.reactive import ENGINE_WORKERS, Flow, on_worker
from agentscope_rx.tools.files import Workspace
from agentscope_rx.tools.files.paths import folded
from agentscope_rx.workspace.file_watch import FileWatch
from agentscope_rx.workspace.layout import AGENTS
from agentscope_rx.workspace.sections import AGENTS_TAG, CONTEXT_TAGS, Section, fitted, shown_path

ARGUMENTS: Final = ("path", "file_path", "target", "folder", "cwd")
"""The arguments of tools that are taken for paths, if they are text."""
DEPTH: Final = 32
_FOLDERS: Final = 512
"""The folders that a conversation keeps in mind."""
_ABOUT: Final = (
    "Instructions of the user for everything below {folder}/, shown because that folder is used here for the first "
    "time or they have changed. They count more than those for folders above it."
)


@dataclass(frozen=True, slots=True)
class _Shown:
    """The text (its digest) that the message `message` has, which is at `at` in memory or behind that."""

    digest: str
    message: str
    at: int


State = Mapping[str, _Shown]


def _dump(state: State) -> object:
    return {folder: [each.digest, each.message, each.at] for folder, each in state.items()}


def _read(saved: object) -> State:
    try:
        items = cast("Mapping[str, Sequence[object]]", saved).items()
        return {folder: _Shown(str(digest), str(message), cast("int", at)) for folder, (digest, message, at) in items}
    except (AttributeError, TypeError, ValueError) as error:
        raise InvalidInputError(f"This is no state of nested instructions: {saved!r:.60}.") from error


class NestedInstructions:
    """Adds the texts to results. Its state is in the conversation of each event."""

    def __init__(
        self, workspace: Workspace, max_tokens: int, count: Callable[[str], int], clock: Callable[[], float]
    ) -> None:
        self._workspace = workspace
        self._max_tokens = max_tokens
        self._count = count
        self._watch = FileWatch(workspace, clock=clock)
        self._part: Part[State] = Part("workspace_instructions", 1, {}, dump=_dump, read=_read)

    def files_of(self, event: PostActingEvent) -> tuple[str, ...]:
        """The AGENTS.md that may be in the folders which the call has used, outermost first; no file is accessed."""
        if event.result.kind is not None:
            return ()
        found: dict[str, None] = {}
        for name in ARGUMENTS:
            value = event.tool_use.input.get(name)
            if isinstance(value, str):
                found.update(dict.fromkeys(self._above(value)))
        return tuple(found)

    def _above(self, path: str) -> list[str]:
        try:
            parts = self._workspace.parts(path)
        except WorkspaceError:
            return []
        itself = bool(parts) and folded(parts[-1]) == folded(AGENTS)
        folders = parts[:-2] if itself else parts
        if not all(map(self._workspace.is_listed, folders)):
            return []
        return ["/".join((*folders[:depth], AGENTS)) for depth in range(1, min(len(folders), DEPTH) + 1)]

    def read(self, files: Sequence[str]) -> Flow[dict[str, str]]:
        """The texts of those files that have one.

        Signals: one mapping; `WorkspaceError` if the workspace is gone.
        Cancels: the waiting for the files.
        """

        def look() -> dict[str, str]:
            found = self._watch.look(files)
            return {path: content.text for path, content in found.items() if content.text.strip()}

        return on_worker(look, ENGINE_WORKERS)

    def added(self, event: PostActingEvent, texts: Mapping[str, str]) -> PostActingEvent:
        """The event with the texts that this conversation has not seen in its result."""

        def claim(state: State) -> tuple[State, list[str]]:
            new = {
                path: _Shown(_digest(text), event.message.id, len(event.history))
                for path, text in texts.items()
                if not _is_sent(state.get(path), _digest(text), event)
            }
            if not new:
                return state, []
            kept = [(path, each) for path, each in state.items() if path not in new]
            return dict([*kept, *new.items()][-_FOLDERS:]), list(new)

        # (innermost first: it counts most)
        new = self._part.change(event.source, claim) if texts else []
        sections = [Section(AGENTS_TAG, texts[path], path, _about(path)) for path in new]
        text = fitted(sections, range(len(sections) - 1, -1, -1), self._max_tokens, self._count)
        if not text:
            return event
        return event.with_result(event.result.replace(output=(*event.result.output, TextBlock(text))))


def cleaned(event: PostActingEvent) -> PostActingEvent:
    """The event, with no tag of a context in the text of its result."""
    result = event.result
    output = tuple(
        TextBlock(plain)
        if isinstance(block, TextBlock) and (plain := CONTEXT_TAGS.escaped(block.text)) != block.text
        else block
        for block in result.output
    )
    if all(new is old for new, old in zip(output, result.output, strict=True)):
        return event
    return event.with_result(result.replace(output=output))


def without_instructions(result: ToolResultBlock) -> ToolResultBlock:
    """The result without what was added here."""
    if len(result.output) < 2:
        return result
    last = result.output[-1]
    ours = isinstance(last, TextBlock) and last.text.startswith(_BEGINNING)
    return result.replace(output=result.output[:-1]) if ours else result


_BEGINNING: Final = "<workspace_context>\n"


def _about(path: str) -> str:
    return _ABOUT.format(folder=shown_path(path.rpartition("/")[0]))


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _is_sent(shown: _Shown | None, digest: str, event: PostActingEvent) -> bool:
    """True if requests still have this text."""
    if shown is None or shown.digest != digest:
        return False
    for message in islice(event.history, shown.at, None):
        if message.id == shown.message:
            return _is_whole(message)
    return False


def _is_whole(message: Msg) -> bool:
    return not ({HIDDEN, COMPRESSED} & message.marks) and not has_short_forms(message)
