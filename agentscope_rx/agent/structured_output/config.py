"""`StructuredOutput`: the shape of a reply, how the model is asked for it, and the treatment of failures.

agent.call(msg, output=Weather)                                        a type, or a JSON schema (a dict)
agent.call(msg, output=StructuredOutput(Weather, mode="tool", max_retries=1, on_failure="text"))
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from enum import StrEnum
from typing import Literal, cast, get_args

from agentscope_rx.agent.structured_output.schema import OutputSchema, output_schema_of
from agentscope_rx.errors import ConfigurationError
from agentscope_rx.frozen_values import dataclass
from agentscope_rx.tools.base import check_name

OutputMode = Literal["auto", "native", "tool", "prompted"]
"""How the model is asked: by its own JSON mode, by a tool, or in the prompt. "auto" chooses."""

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

    `schema` is a type (a pydantic model, a dataclass, a TypedDict, `list[int]`, a union, a `Literal`, a scalar, ...) or
    a JSON schema as a dict. JSON is read strictly: a date is an ISO string, and `"3"` is no int. A null for an optional
    field that cannot be null means "not given". A type without a schema is a `ConfigurationError`.

    | `mode`       | the model gets                                                         | `auto` takes it          |
    |--------------|------------------------------------------------------------------------|--------------------------|
    | `"native"`   | the schema, which the provider's JSON mode enforces                    | if the model has it      |
    | `"tool"`     | a tool `generate_response`, for this run only, that takes the value    | otherwise                |
    | `"prompted"` | the schema in the system message; the answer is plain or fenced JSON  | if the model has no tools |

    `model.output_modes` lists a model's modes; for a server with OpenAI's JSON mode set `native_output=True`.

    - **Invalid answers.** The model gets the problems at most `max_retries` times; then the run fails with a
      `StructuredOutputError`, or ends with the plain answer (`on_failure="text"`).
    - **Text instead of the tool.** The model gets a reminder for one round, and the provider is asked to force the
      call; `reminder="prompt"` never forces. After `max_iters` rounds one more asks for the output only.
    - **At a limit** with `on_limit="summary"` one attempt takes the place of the summary. If it fails, a plain answer
      has reason `LIMIT_REACHED` or `MAX_ITERATIONS`.
    - **Other ends**, such as an interruption or calls that wait, have their ordinary reply: `Msg.has_structured` is
      False.
    - **Pending calls.** A run that waits keeps its request, also when it is saved. The call that continues it asks
      again, or for its own `output=`; attempts start anew. The saved schema is checked in a process without the type.
    - **Memory** keeps the reply only. Calls of the response tool, invalid answers and reminders leave it at the end of
      the run; a `MemoryEvent` lists them. Other calls stay, with their results.
    - **Names.** `name` and `description` are those of the response tool or of the schema; a tool of the agent with this
      name is a `ConfigurationError`.
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
