"""`CumulativeText`: messages that each hold the whole answer so far -> the new part of each.

A stream without `incremental_output` has such messages. An empty text is no change (the last message may leave the text
out); a text that does not continue the one before is a `ProtocolError`, because that one has been shown.
"""

from __future__ import annotations

from agentscope_rx.models.wire.json_codec import JsonObject, malformed, object_in, objects_in, text_in

_TORN = "\ufffd"


class CumulativeText:
    """The answer so far."""

    __slots__ = ("_parts", "_seen")

    def __init__(self) -> None:
        self._seen: dict[str, str] = {}
        self._parts = 0

    def new(self, message: JsonObject) -> JsonObject:
        """The message, reduced to its new content."""
        made = dict(message)
        for name in ("content", "reasoning_content"):
            value = made.get(name)
            if isinstance(value, str):
                made[name] = self._rest(name, value)
            elif isinstance(value, list):
                made[name] = self._new_parts(message)
        if made.get("tool_calls"):
            made["tool_calls"] = [self._new_call(at, call) for at, call in enumerate(objects_in(made, "tool_calls"))]
        return made

    def _new_parts(self, message: JsonObject) -> list[JsonObject]:
        parts = objects_in(message, "content")
        texts = [text for part in parts if (text := text_in(part, "text")) is not None]
        others = [part for part in parts if "text" not in part]
        fresh, self._parts = others[self._parts :], max(self._parts, len(others))
        return [{"text": self._rest("content", "".join(texts))}, *fresh]

    def _new_call(self, at: int, call: JsonObject) -> JsonObject:
        function = object_in(call, "function") or {}
        arguments = function.get("arguments")
        if not isinstance(arguments, str):
            return call
        key = f"call {call.get('index', at)}"
        known = key in self._seen
        rest = self._rest(key, arguments)
        made: dict[str, object] = {"index": at, **call, "function": {**function, "arguments": rest}}
        if known:
            # a second name at an index would be a second call
            made["function"] = {"arguments": rest}
        return made

    def _rest(self, name: str, text: str) -> str:
        seen = self._seen.setdefault(name, "")
        # half a character at the end becomes a whole one in the next message
        text = text.rstrip(_TORN)
        if not text.startswith(seen):
            if seen.startswith(text):
                return ""
            raise malformed(f"{name} does not continue the text before", text)
        self._seen[name] = text
        return text[len(seen) :]
