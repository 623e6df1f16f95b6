"""`merge_speakers`: a conversation of several agents, in the two roles that models know. Pure; for every provider.

`MultiAgentModel` has the table of its rules. The model's own messages are in the history under its name. So the last
message is never the model's, which it would be asked to continue.

A text cannot impersonate another speaker: the `<` of `<history>` or `</history>` in a text becomes `&lt;`, and if a
later line begins like a speaker's line, all its later lines are indented by two spaces. All other text is unchanged.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import groupby

from agentscope_rx.messages import ContentBlock, Msg, MsgRole, TextBlock, ToolResultBlock, ToolUseBlock, results_first
from agentscope_rx.models.chat_model import ChatModel
from agentscope_rx.models.options import GenerateOptions, ToolSchema
from agentscope_rx.models.wire.media import MediaBlock
from agentscope_rx.models.wire.speaker_names import AS_IT_IS
from agentscope_rx.models.wrappers.base import PromptTransformModel

HEADING = (
    "# Conversation\nBetween the <history> tags is what was said, in order. Each entry begins with its speaker's name."
)

_CACHE = "cache_control"
_TAG = re.compile(r"<(?=/?history>)", re.IGNORECASE)


class MultiAgentModel(PromptTransformModel):
    """A model for conversations of several agents: it merges their messages into the two roles that models know.

        ReActAgent("Cook", MultiAgentModel("openai:gpt-5-mini"), "You are the cook, Cook.")

    | in the conversation                                   | in the request                                      |
    |-------------------------------------------------------|-----------------------------------------------------|
    | messages of users and assistants in a row (a run)     | one user message: `name: text` lines in `<history>` |
    | media in a run                                        | in their place between the lines                    |
    | thinking in a run                                     | nothing: thinking is private                        |
    | tool calls and results, with the text beside them     | unchanged: the model's own work                     |
    | a system message                                      | unchanged, in its place                             |
    | a message with `AS_IT_IS` in its metadata             | unchanged                                           |
    | a run of one message, of a user named "user"          | unchanged: the role names the speaker               |
    | `cache_control` in the metadata of a message of a run | ends the run, and is set on its user message        |

    The model's own messages are in the history under its name. `heading` explains the history; it is sent once, with
    the first run. Memory keeps the original messages. A text cannot impersonate another speaker: its `<history>` is
    escaped, and later lines that begin like a speaker's are indented.
    """

    def __init__(self, model: ChatModel | str, *, heading: str = HEADING) -> None:
        super().__init__(model)
        self.heading = heading

    def rewrite(self, messages: Sequence[Msg], tools: Sequence[ToolSchema], options: GenerateOptions) -> Sequence[Msg]:
        """The messages with each run of speakers merged."""
        return merge_speakers(messages, heading=self.heading)


def merge_speakers(messages: Sequence[Msg], *, heading: str = HEADING) -> list[Msg]:
    """The conversation in two roles. Idempotent: a merged conversation is returned unchanged."""
    merged: list[Msg] = []
    spoofed = _spoofed(messages)
    runs = _runs(results_first(messages))
    for conversation, run in runs:
        if not conversation or (len(run) == 1 and _is_plain(run[0])):
            merged += run
            continue
        content = _history(run, spoofed, heading)
        if content:
            merged.append(_merged(run, content))
            heading = ""
    return merged


def _runs(messages: Iterable[Msg]) -> list[tuple[bool, list[Msg]]]:
    """The messages in runs, each with a flag that is True for conversation."""
    breaks = 0

    def run_of(message: Msg) -> tuple[bool, int]:
        nonlocal breaks
        key = (_is_conversation(message), breaks)
        breaks += bool(message.metadata.get(_CACHE))
        return key

    return [(key[0], list(run)) for key, run in groupby(messages, run_of)]


def _is_conversation(message: Msg) -> bool:
    if message.role not in (MsgRole.USER, MsgRole.ASSISTANT) or message.metadata.get(AS_IT_IS):
        return False
    return not any(isinstance(block, (ToolUseBlock, ToolResultBlock)) for block in message.content)


def _is_plain(message: Msg) -> bool:
    return message.role is MsgRole.USER and _speaker(message).lower() == MsgRole.USER.value


def _speaker(message: Msg) -> str:
    return " ".join(message.name.split()) or message.role.value


def _spoofed(messages: Iterable[Msg]) -> re.Pattern[str]:
    """Matches a later line of a text that begins like a line of one of the speakers."""
    names = sorted({_speaker(message) for message in messages})
    return re.compile(rf"\n[^\S\n]*(?:{'|'.join(map(re.escape, names))})[^\S\n]*:")


def _history(run: Sequence[Msg], spoofed: re.Pattern[str], heading: str) -> list[ContentBlock]:
    """The blocks of a run: lines, with the media between them; empty if it has no text and no media."""
    parts: list[list[str] | MediaBlock] = [[]]

    def add_line(line: str) -> None:
        if not isinstance(parts[-1], list):
            parts.append([])
        lines = parts[-1]
        assert isinstance(lines, list)
        lines.append(line)

    for message in run:
        speaker, named = _speaker(message), False
        for block in message.content:
            if isinstance(block, TextBlock) and block.text.strip():
                add_line(f"{speaker}: {_guarded(block.text, spoofed)}")
                named = True
            elif isinstance(block, MediaBlock):
                if not named:
                    add_line(f"{speaker}:")
                named = True
                parts.append(block)
    if parts == [[]]:
        return []
    return _tagged(parts, heading)


def _guarded(text: str, spoofed: re.Pattern[str]) -> str:
    text = _TAG.sub("&lt;", text)
    return text.replace("\n", "\n  ") if spoofed.search(text) else text


def _tagged(parts: Sequence[list[str] | MediaBlock], heading: str) -> list[ContentBlock]:
    opening = f"{heading}\n<history>\n" if heading else "<history>\n"
    blocks: list[ContentBlock] = []
    for part in parts:
        if isinstance(part, list):
            blocks.append(TextBlock(("" if blocks else opening) + "\n".join(part)))
        else:
            blocks.append(part)
    last = blocks[-1]
    if isinstance(last, TextBlock):
        blocks[-1] = TextBlock(f"{last.text}\n</history>")
    else:
        blocks.append(TextBlock("</history>"))
    return blocks


def _merged(run: Sequence[Msg], content: Sequence[ContentBlock]) -> Msg:
    # id and time of the first message make the result deterministic
    mark = run[-1].metadata.get(_CACHE)
    metadata: dict[str, object] = {AS_IT_IS: True} if not mark else {AS_IT_IS: True, _CACHE: mark}
    first = run[0]
    return Msg("user", content, MsgRole.USER, id=first.id, timestamp=first.timestamp, metadata=metadata)
