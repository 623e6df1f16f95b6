"""`Reasoning`: a model's thinking from the fields that servers use for it.

| field               | who                                  | read as                                             |
|---------------------|--------------------------------------|-----------------------------------------------------|
| `reasoning_content` | DeepSeek, Qwen, GLM, vLLM, xAI       | text                                                |
| `reasoning`         | OpenRouter, Groq, newer vLLM, Ollama | text                                                |
| `reasoning_details` | OpenRouter                           | text if none of the above has it; always kept whole |

`reasoning_details` (signatures, encrypted parts) are collected unchanged, because the server needs them back, and
emitted once, as the metadata of the last piece of thinking.
"""

from __future__ import annotations

from collections.abc import Iterator

from agentscope_rx.messages import ThinkingBlock
from agentscope_rx.models.wire.json_codec import JsonObject, Pieces, objects_in, text_in, writable

DETAILS = "reasoning_details"
"""The key of a thinking block's metadata under which they are kept."""

_TEXTS = ("text", "summary")


class Reasoning:
    """The thinking of one answer."""

    __slots__ = ("_details", "_text")

    def __init__(self) -> None:
        self._text = Pieces()
        self._details: list[dict[str, object]] = []

    @property
    def at_rest(self) -> bool:
        """True if nothing is held back."""
        return self._text.at_rest and not self._details

    def feed(self, delta: JsonObject) -> Iterator[ThinkingBlock]:
        """The piece of thinking in one delta, if there is any."""
        details = objects_in(delta, DETAILS)
        text = text_in(delta, "reasoning_content") or text_in(delta, "reasoning")
        if not text:
            text = "".join(text_in(item, name) or "" for item in details for name in _TEXTS)
        for item in details:
            self._keep(item)
        text = self._text.take(text)
        if text:
            yield ThinkingBlock(text)

    def close(self) -> Iterator[ThinkingBlock]:
        """The thinking held back until other content begins or the answer ends."""
        text = self._text.rest()
        if self._details:
            details, self._details = self._details, []
            signature = next((s for item in details if isinstance(s := item.get("signature"), str) and s), None)
            yield ThinkingBlock(text, signature, {DETAILS: [writable(item) for item in details]})
        elif text:
            yield ThinkingBlock(text)

    def _keep(self, item: JsonObject) -> None:
        """Add an item, or continue the last one with a piece of the same."""
        last = self._details[-1] if self._details else None
        if last is None or any(last.get(key) != item.get(key) for key in ("type", "index")) or "data" in item:
            self._details.append(dict(item))
            return
        for key, value in item.items():
            if key in _TEXTS and isinstance(value, str):
                last[key] = f"{last.get(key) or ''}{value}"
            elif value is not None:
                last[key] = value
