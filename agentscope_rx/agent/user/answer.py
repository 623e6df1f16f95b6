"""From what an input answered to the person's message: checked, under their name, with the value if one was asked for.

Pure: what the input is, and how often it is asked, is not known here.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import cast

from pydantic_core import PydanticSerializationError, to_json

from agentscope_rx.agent.structured_output.schema import OutputSchema
from agentscope_rx.agent.user.question import Question
from agentscope_rx.errors import InvalidInputError, UserInputError
from agentscope_rx.messages import GenerateReason, Msg, MsgRole, TextBlock
from agentscope_rx.messages.structured import STRUCTURED
from agentscope_rx.tools.arguments import InvalidArgumentsError


class UnfitError(Exception):
    """The value is not of the shape that was asked for; `problems` say why."""

    def __init__(self, problems: Iterable[str]) -> None:
        super().__init__()
        self.problems = tuple(problems)


def reply_of(answer: object, question: Question) -> Msg:
    """The person's message; `UnfitError` if it lacks the value asked for, `UserInputError` if it is none at all."""
    if question.output is None:
        return _message(answer, question.name)
    shape = question.output.shape
    read = _read(answer, shape)
    if isinstance(answer, Msg) and answer.content:
        said = _message(answer, question.name)
    else:
        # the others hear the value, in the only form that all of them read
        said = Msg(question.name, shape.text(read), MsgRole.USER)
    return said.replace(
        metadata={**said.metadata, STRUCTURED: shape.value(read)}, generate_reason=GenerateReason.STRUCTURED_OUTPUT
    )


def _message(answer: object, name: str) -> Msg:
    if isinstance(answer, Msg):
        return answer.replace(name=name, role=MsgRole.USER)
    if answer is None:
        raise UserInputError(f"The input of {name!r} answered with None; answer with '' if nothing was said.")
    try:
        return Msg(name, answer, MsgRole.USER)  # pyright: ignore[reportArgumentType]
    except InvalidInputError as error:
        raise UserInputError(
            f"The input of {name!r} answered with {answer!r:.60}, which is neither text, blocks nor a Msg."
        ) from error


def _read(answer: object, shape: OutputSchema) -> dict[str, object]:
    """The object of the shape that the answer gives, checked."""
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
        raise UnfitError((f"{plain!r:.60} has no form as JSON: {error}",)) from error


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


_WORDS = {"yes": True, "y": True, "no": False, "n": False}


def readings(text: str, *, alone: bool = True) -> Iterable[object]:
    """What somebody who typed this may mean, the most exact first: JSON, yes or no, the words, a list by commas.

    If it is not one value `alone` but an object with fields: JSON only.
    """
    stripped = text.strip()
    parsed, value = _parsed(stripped)
    if parsed and (value == "" or not isinstance(value, str)):
        yield value
    if not alone:
        if not parsed:
            yield stripped
        return
    if stripped.lower() in _WORDS:
        yield _WORDS[stripped.lower()]
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
