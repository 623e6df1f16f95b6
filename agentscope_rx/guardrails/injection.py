"""`InjectionHints`: finds phrases that are common in injected instructions.

A hint, and no protection: an attacker need not use these phrases, and a text about injections does. What protects is
that untrusted results can do nothing: see `UntrustedResults`.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator

from agentscope_rx.guardrails.text_guardrail import Span, TextAction, TextGuardrail
from agentscope_rx.guardrails.verdict import Kind

_WHICH = (
    r"(?:all\s+|any\s+|the\s+|your\s+|my\s+|of\s+)*(?:previous|prior|earlier|above|preceding|former|existing|other)?\s*"
)
_WHAT = r"(?:instructions?|prompts?|rules|directions|guidelines|commands|context)"
PHRASES = re.compile(
    rf"\b(?:ignore|disregard|forget|override|bypass)\s+{_WHICH}{_WHAT}\b"
    r"|\byou\s+are\s+now\s+(?:a|an|in|the)\b"
    r"|\b(?:new|updated|real|actual)\s+(?:system\s+)?(?:instructions?|prompt)\s*:"
    r"|\b(?:reveal|print|show|repeat|output)\s+(?:me\s+)?(?:your|the)\s+(?:system\s+prompt|hidden\s+instructions?)"
    r"|\bdo\s+not\s+(?:tell|inform|mention|alert|notify)\b[^.\n]{0,30}\b(?:user|human|operator)\b"
    r"|<\|(?:im_start|im_end|system|endoftext)\|>|\[/?INST\]|<</?SYS>>|</?(?:system|assistant)>",
    re.IGNORECASE,
)


class InjectionHints(TextGuardrail):
    """Warns of phrases that are common in injected instructions, removes them, or stops."""

    reach = 120

    def __init__(
        self,
        *,
        kinds: Collection[Kind] = ("tool_result",),
        action: TextAction = "warn",
        template: str = "[removed]",
        tools: Collection[str] | None = None,
    ) -> None:
        super().__init__(kinds, action, template, tools)

    def find(self, text: str, before: str = "") -> Iterator[Span]:
        """The phrases in the text."""
        return (Span(*match.span(), "a phrase of injected instructions") for match in PHRASES.finditer(text))
