"""The shape of `finish="tool"`: the answer in words, in the field `response`, and what else is asked for beside it.

| asked for                                          | the model gives                          |
|----------------------------------------------------|------------------------------------------|
| nothing                                            | `{"response": "..."}`                    |
| an object without a field `response`               | `{"response": "...", <its fields>}`      |
| anything else                                      | `{"response": "...", "output": ...}`     |
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import cast

from agentscope_rx.agent.structured_output.schema import WRAPPED, OutputSchema, output_schema_of
from agentscope_rx.messages.frozen import thaw
from agentscope_rx.tools.arguments import InvalidArgumentsError, given_text, missing

BESIDE = "output"
"""The field beside the words, for what is not an object of fields."""

_WORDS = {"type": "string", "description": "The answer, in words."}


class FinishShape(OutputSchema):
    """Words, and the shape `asked` beside them if there is one."""

    __slots__ = ("_inner",)

    def __init__(self, asked: object = None) -> None:
        self._inner = _beside(asked) if asked is not None else None
        inner: Mapping[str, object] = {} if self._inner is None else self._inner.schema
        fields: Mapping[str, object] = {} if self._inner is None else self._inner.properties
        required = cast("Sequence[str]", inner.get("required", ()))
        schema: dict[str, object] = {
            **inner,
            "type": "object",
            "properties": {WRAPPED: _WORDS, **fields},
            "required": [WRAPPED, *required],
        }
        super().__init__(schema, None if self._inner is None else self._inner.field)

    def read(self, given: Mapping[str, object], name: str) -> dict[str, object]:
        """The object, checked: the words first."""
        plain = thaw(given)
        words = plain.pop(WRAPPED, None)
        problems = [] if isinstance(words, str) else [_wordless(words)]
        rest: dict[str, object] = {}
        if self._inner is not None:
            try:
                rest = self._inner.read(plain, name)
            except InvalidArgumentsError as error:
                problems += error.problems
        if problems:
            raise InvalidArgumentsError(name, problems)
        return {WRAPPED: words, **rest}

    def value(self, read: Mapping[str, object]) -> object:
        """What was asked for beside the words; None if nothing was."""
        if self._inner is None:
            return None
        return self._inner.value({name: value for name, value in read.items() if name != WRAPPED})

    def text(self, read: Mapping[str, object]) -> str:
        """The words."""
        return str(read[WRAPPED])

    def _check(self, given: Mapping[str, object], name: str) -> None:
        self.read(given, name)


def _beside(asked: object) -> OutputSchema:
    shape = output_schema_of(asked)
    return shape if shape.field is None and WRAPPED not in shape.properties else output_schema_of(asked, BESIDE)


def _wordless(given: object) -> str:
    if given is None:
        return missing(WRAPPED)
    return f"{WRAPPED}: must be of type string; given {given_text(given)}"
