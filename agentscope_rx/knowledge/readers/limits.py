"""`ReadLimits`: how much one document may use while it is read. Some documents are made to harm."""

from __future__ import annotations

from dataclasses import fields

from agentscope_rx.errors import ConfigurationError
from agentscope_rx.frozen_values import dataclass

MIB = 1024 * 1024
LEAST_MEMORY = 256 * MIB
"""What a parser needs for itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadLimits:
    """The limits for reading one document. They protect you from documents that are made to harm.

    | limit | of | readers | beyond it |
    |---|---|---|---|
    | `size` | the bytes of the document | all | `DocumentTooLargeError` |
    | `text` | the characters of its sections together | all | `DocumentTooLargeError` |
    | `unpacked` | the bytes of the files in its archive together | DOCX, PPTX, XLSX | `DocumentTooLargeError` |
    | `memory` | the bytes of address space of its parser | with a parser | `DocumentTooLargeError` |
    | `seconds` | the time that its parser works | with a parser | `DocumentTimeoutError` |

    The readers with a parser are those of HTML, PDF, DOCX, PPTX and XLSX. It runs in a child process, which can write
    no files, but is no sandbox. The time in which no section is asked for does not count. `memory` holds on Linux only.
    """

    size: int = 64 * MIB
    text: int = 128 * MIB
    unpacked: int = 512 * MIB
    memory: int = 1024 * MIB
    seconds: float = 120.0

    def __post_init__(self) -> None:
        for each in fields(self):
            least = LEAST_MEMORY if each.name == "memory" else 0
            value: object = getattr(self, each.name)
            whole = isinstance(value, int) and not isinstance(value, bool)
            number = whole or (each.name == "seconds" and isinstance(value, float))
            if not number or not max(least, 1e-3) <= value < 2**62:  # pyright: ignore[reportOperatorIssue]
                what = f"at least {least:,}" if least else "more than 0"
                raise ConfigurationError(f"ReadLimits.{each.name} must be a number, {what}, not {value!r:.60}.")


DEFAULT_LIMITS = ReadLimits()
