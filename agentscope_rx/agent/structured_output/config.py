"""`StructuredOutput`: the shape of a reply, how the model is asked for it, and the treatment of failures.

agent.call(msg, output=Weather)                                        a type, or a JSON schema (a dict)
agent.call(msg, output=StructuredOutput(Weather, mode="tool", max_retries=1, on_failure="text"))
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal, cast, get_args

from agentscope_rx.agent.structured_output.schema import OutputSchema, output_schema_of
from agentscope_rx.errors import ConfigurationError
from agentscope_rx.tools.base import check_name

OutputMode = Literal["auto", "native", "tool", "prompted"]
"""How the model is asked: by its own JSON mode, by a tool, in the prompt; auto is the first that it supports."""

RESPONSE_TOOL = "generate_response"
"""The name of the tool by which a model gives its response."""

DESCRIPTION = (
    "Generate the final structured response. Call this function when you have all the information needed to provide "
    "a complete answer."
)


class Reminder(StrEnum):
    """The reaction to an answer in text instead of a call of the response tool.

    TOOL_CHOICE: a hint, and a tool choice that forces the call. PROMPT: the hint only.
    """

    TOOL_CHOICE = "tool_choice"
    PROMPT = "prompt"


@dataclass(frozen=True, slots=True)
class StructuredOutput:
    """The type of a reply's value, and how the model is asked for it.

    `schema` is a type (a pydantic model, a dataclass, a TypedDict, `list[int]`, a union, a scalar, ...) or a JSON
    schema as a dict. Invalid answers are returned to the model at most `max_retries` times; then the run
    fails with a `StructuredOutputError`, or ends with the plain answer if `on_failure="text"`. `name` and
    `description` are shown to the model, as those of the response tool or of the schema.
    """

    schema: object
    mode: OutputMode = field(default="auto", kw_only=True)
    reminder: Reminder | Literal["tool_choice", "prompt"] = field(default=Reminder.TOOL_CHOICE, kw_only=True)
    max_retries: int = field(default=3, kw_only=True)
    on_failure: Literal["error", "text"] = field(default="error", kw_only=True)
    name: str = field(default=RESPONSE_TOOL, kw_only=True)
    description: str = field(default=DESCRIPTION, kw_only=True)
    shape: OutputSchema = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        _check_one_of("mode", self.mode, get_args(OutputMode))
        _check_one_of("on_failure", self.on_failure, ("error", "text"))
        _check_one_of("reminder", self.reminder, tuple(Reminder))
        object.__setattr__(self, "reminder", Reminder(self.reminder))
        retries: object = self.max_retries
        if type(retries) is not int or retries < 0:
            raise ConfigurationError(f"max_retries must be a whole number of at least 0, not {retries!r}.")
        check_name(self.name)
        if not isinstance(self.description, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigurationError(f"description must be a str, not {self.description!r:.60}.")
        object.__setattr__(self, "shape", output_schema_of(self.schema))


def output_of(given: object) -> StructuredOutput | None:
    """The `StructuredOutput` that `output=` means; `ConfigurationError` if it is no shape. None requests nothing."""
    if given is None or isinstance(given, StructuredOutput):
        return given
    return StructuredOutput(cast("type | Mapping[str, object]", given))


def _check_one_of(name: str, given: object, known: tuple[str, ...]) -> None:
    if given not in known:
        raise ConfigurationError(f"{name} must be one of {', '.join(map(repr, map(str, known)))}, not {given!r:.60}.")
