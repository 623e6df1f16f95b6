"""`InjectionHints`: finds phrases that are common in injected instructions.

A hint, and no protection: an attacker need not use these phrases, and a text about injections does. What protects is
that untrusted results can do nothing: see `UntrustedResults`.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator

from agentscope_rx.guardrails.text_guardrail import Span, TextAction, TextGuardrail
from agentscope_rx.guardrails.verdict import Kind

_GAP = r"\s{1,8}"
"""White space between two words; with a bound, so that no text takes long."""
_BEFORE = r"(?:previous|prior|earlier|above|preceding|former|existing|other)"
_WHICH = rf"(?:(?:all|any|the|your|my|of){_GAP}){{0,4}}(?:{_BEFORE}{_GAP})?"
_WHAT = r"(?:instructions?|prompts?|rules|directions|guidelines|commands|context)"
PHRASES = re.compile(
    "|".join(
        (
            rf"\b(?:ignore|disregard|forget|override|bypass){_GAP}{_WHICH}{_WHAT}\b",
            rf"\byou{_GAP}are{_GAP}now{_GAP}(?:a|an|in|the)\b",
            rf"\b(?:new|updated|real|actual){_GAP}(?:system{_GAP})?(?:instructions?|prompt)\s?:",
            rf"\b(?:reveal|print|show|repeat|output){_GAP}(?:me{_GAP})?(?:your|the){_GAP}system{_GAP}prompt",
            rf"\bdo{_GAP}not{_GAP}(?:tell|inform|mention|alert|notify)\b[^.\n]{{0,30}}\b(?:user|human|operator)\b",
            r"<\|(?:im_start|im_end|system|endoftext)\|>|\[/?INST\]|<</?SYS>>|</?(?:system|assistant)>",
        )
    ),
    re.IGNORECASE,
)


class InjectionHints(TextGuardrail):
    """Warns of phrases that are common in injected instructions; or, by `action`, replaces them or stops.

    It gives a hint, not protection: an attacker need not use these phrases, and a text about injections does. For
    protection restrict what the agent may do after it has read untrusted results: see `UntrustedResults`.
    """

    reach = 120

    def __init__(
        self,
        *,
        kinds: Iterable[Kind] = ("tool_result",),
        action: TextAction = "warn",
        template: str = "[removed]",
        tools: Collection[str] | None = None,
    ) -> None:
        super().__init__(kinds, action, template, tools)

    def find(self, text: str, before: str = "") -> Iterator[Span]:
        """The phrases in the text."""
        return (Span(*match.span(), "a phrase of injected instructions") for match in PHRASES.finditer(text))
