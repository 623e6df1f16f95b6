"""`Question`: a question to a person. `reply_of`: the person's message made of the answer.

The answer is checked, and put under the person's name, with its value if one was requested. This module is pure: it
knows neither the input nor the number of attempts.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import cast

from pydantic_core import PydanticSerializationError, to_json
from reactivex import abc

from agentscope_rx.agent.run import Run
from agentscope_rx.agent.structured_output import StructuredOutput
from agentscope_rx.agent.structured_output.schema import OutputSchema
from agentscope_rx.errors import InvalidInputError, UserInputError
from agentscope_rx.frozen_values import dataclass
from agentscope_rx.messages import ContentBlock, GenerateReason, Msg, MsgRole, TextBlock
from agentscope_rx.messages.structured import STRUCTURED
from agentscope_rx.tools.arguments import InvalidArgumentsError


@dataclass(frozen=True, slots=True)
class Question:
    """A question to a person: for a reply to `messages`, or for a value of the shape `output`.

    `messages` are those since the person's last reply, and the input of this call. `problems` are those of the last
    answer, if the question is repeated. `run.context` is the call's `RuntimeContext`.
    """

    name: str
    messages: tuple[Msg, ...]
    run: Run
    output: StructuredOutput | None = None
    problems: tuple[str, ...] = ()


AnswerValue = str | Msg | ContentBlock | Iterable[ContentBlock] | Mapping[str, object] | object
"""Text, blocks or a message; with `output` also the value itself, or its JSON text."""

Answer = AnswerValue | Awaitable[AnswerValue] | abc.ObservableBase[AnswerValue]
"""An answer, or an awaitable or Observable of one; the first value counts."""

UserInput = Callable[[Question], Answer]
"""The source of a person's answers: a function of the question. A plain `def` has a worker thread, and may block."""


class UnfitError(Exception):
    """The value does not have the requested shape; `problems` give the reasons."""

    def __init__(self, problems: Iterable[str]) -> None:
        super().__init__()
        self.problems: tuple[str, ...] = tuple(problems)


def reply_of(answer: object, question: Question) -> Msg:
    """The person's message; `UnfitError` if it lacks the requested value, `UserInputError` if it is no message."""
    if question.output is None:
        return _message(answer, question.name)
    shape = question.output.shape
    read = _read(answer, shape)
    if isinstance(answer, Msg) and answer.content:
        message = _message(answer, question.name)
    else:
        # other agents read the value as text
        message = Msg(question.name, shape.text(read), MsgRole.USER)
    return message.replace(
        metadata={**message.metadata, STRUCTURED: shape.value(read)}, generate_reason=GenerateReason.STRUCTURED_OUTPUT
    )


def _message(answer: object, name: str) -> Msg:
    if isinstance(answer, Msg):
        return answer.replace(name=name, role=MsgRole.USER)
    if answer is None:
        raise UserInputError(f"The input of {name!r} answered with None; answer with '' for an empty reply.")
    try:
        return Msg(name, answer, MsgRole.USER)  # pyright: ignore[reportArgumentType]
    except InvalidInputError as error:
        raise UserInputError(
            f"The input of {name!r} answered with {answer!r:.60}, which is neither text, blocks nor a Msg."
        ) from error


def _read(answer: object, shape: OutputSchema) -> dict[str, object]:
    """The answer as an object of the shape, checked."""
    plain = answer
    if isinstance(answer, Msg):
        plain = answer.metadata.get(STRUCTURED, answer.text)
    elif isinstance(answer, TextBlock):
        plain = answer.text
    if isinstance(plain, str):
        return _first_fitting(readings(plain, alone=shape.field is not None), shape)
    try:
        return fitting(json.loads(to_json(plain)), shape)
    except (PydanticSerializationError, ValueError) as error:
        raise UnfitError((f"{plain!r:.60} cannot be written as JSON: {error}",)) from error


def _first_fitting(values: Iterable[object], shape: OutputSchema) -> dict[str, object]:
    problems: list[tuple[str, ...]] = []
    for value in values:
        try:
            return fitting(value, shape)
        except UnfitError as error:
            problems.append(error.problems)
    raise UnfitError(problems[0])


def fitting(value: object, shape: OutputSchema) -> dict[str, object]:
    """The value as an object of the shape, checked; else `UnfitError`."""
    given = value if shape.field is None else {shape.field: value}
    if not isinstance(given, dict):
        raise UnfitError((f"an object with {', '.join(shape.properties)} is needed, not {given!r:.60}",))
    return whole(cast("dict[str, object]", given), shape)


def whole(given: dict[str, object], shape: OutputSchema) -> dict[str, object]:
    """The fields, checked together; else `UnfitError`."""
    try:
        return shape.read(given, "answer")
    except InvalidArgumentsError as error:
        raise UnfitError(error.problems) from None


_BOOLEANS = {"yes": True, "y": True, "no": False, "n": False}


def readings(text: str, *, alone: bool = True) -> Iterable[object]:
    """The possible meanings of typed text, the most exact first: JSON, yes or no, the text, a comma-separated list.

    Text for an object with fields, rather than for one value `alone`, is read as JSON only.
    """
    stripped = text.strip()
    parsed, value = _parsed(stripped)
    if parsed and (value == "" or not isinstance(value, str)):
        yield value
    if not alone:
        if not parsed:
            yield stripped
        return
    if stripped.lower() in _BOOLEANS:
        yield _BOOLEANS[stripped.lower()]
    yield text if not parsed or value != "" else value
    parts = [part.strip() for part in stripped.split(",") if part.strip()]
    yield [value if parsed else part for part in parts for parsed, value in [_parsed(part)]]
    yield parts


def _parsed(text: str) -> tuple[bool, object]:
    try:
        return True, json.loads(text, parse_constant=_refused)
    except ValueError:
        return False, None


def _refused(constant: str) -> object:
    raise ValueError(constant)
