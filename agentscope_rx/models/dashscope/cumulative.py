"""`CumulativeText`: messages that each tell the answer from its beginning -> what is new in each.

That is what a stream without `incremental_output` holds. An empty text takes nothing back (the last message may leave
out what was said); a text that is no continuation of the one before is a `ProtocolError`: it has been shown.
"""

from __future__ import annotations

from agentscope_rx.models.wire.json_codec import JsonObject, malformed, object_in, objects_in, text_in

_TORN = "\ufffd"


class CumulativeText:
    """The answer as far as it has been told."""

    __slots__ = ("_parts", "_told")

    def __init__(self) -> None:
        self._told: dict[str, str] = {}
        self._parts = 0

    def new(self, message: JsonObject) -> JsonObject:
        """The message with what is new in it alone."""
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
        known = key in self._told
        rest = self._rest(key, arguments)
        made: dict[str, object] = {"index": at, **call, "function": {**function, "arguments": rest}}
        if known:
            # a second name at an index would be a second call
            made["function"] = {"arguments": rest}
        return made

    def _rest(self, name: str, text: str) -> str:
        told = self._told.setdefault(name, "")
        # half a character at the end becomes a whole one in the next message
        text = text.rstrip(_TORN)
        if not text.startswith(told):
            if told.startswith(text):
                return ""
            raise malformed(f"{name} takes back what was told before", text)
        self._told[name] = text
        return text[len(told) :]
