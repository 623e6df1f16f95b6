"""The shape of `finish="tool"`: the text of the answer in the field `response`, and a structured output beside it.

| output                                             | the model gives                          |
|----------------------------------------------------|------------------------------------------|
| none                                               | `{"response": "..."}`                    |
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
"""The field beside the text, for an output that is not an object."""

_TEXT = {"type": "string", "description": "The answer, in words."}


class FinishShape(OutputSchema):
    """Text, and the output `asked` beside it if there is one."""

    __slots__ = ("_inner",)

    def __init__(self, asked: object = None) -> None:
        self._inner = _beside(asked) if asked is not None else None
        inner: Mapping[str, object] = {} if self._inner is None else self._inner.schema
        fields: Mapping[str, object] = {} if self._inner is None else self._inner.properties
        required = cast("Sequence[str]", inner.get("required", ()))
        schema: dict[str, object] = {
            **inner,
            "type": "object",
            "properties": {WRAPPED: _TEXT, **fields},
            "required": [WRAPPED, *required],
        }
        super().__init__(schema, None if self._inner is None else self._inner.field)

    def read(self, given: Mapping[str, object], name: str) -> dict[str, object]:
        """The object, checked: the text first."""
        plain = thaw(given)
        text = plain.pop(WRAPPED, None)
        problems = [] if isinstance(text, str) else [_no_text_problem(text)]
        rest: dict[str, object] = {}
        if self._inner is not None:
            try:
                rest = self._inner.read(plain, name)
            except InvalidArgumentsError as error:
                problems += error.problems
        if problems:
            raise InvalidArgumentsError(name, problems)
        return {WRAPPED: text, **rest}

    def value(self, read: Mapping[str, object]) -> object:
        """The output beside the text; None if none was requested."""
        if self._inner is None:
            return None
        return self._inner.value({name: value for name, value in read.items() if name != WRAPPED})

    def text(self, read: Mapping[str, object]) -> str:
        """The text of the answer."""
        return str(read[WRAPPED])

    def _check(self, given: Mapping[str, object], name: str) -> None:
        self.read(given, name)


def _beside(asked: object) -> OutputSchema:
    shape = output_schema_of(asked)
    return shape if shape.field is None and WRAPPED not in shape.properties else output_schema_of(asked, BESIDE)


def _no_text_problem(given: object) -> str:
    if given is None:
        return missing(WRAPPED)
    return f"{WRAPPED}: must be of type string; given {given_text(given)}"
