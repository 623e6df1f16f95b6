"""`StructuredOutputState`: the progress of one run's request for a structured output. Pure state, no I/O.

| the model's answer                               | verdict                                                     |
|--------------------------------------------------|-------------------------------------------------------------|
| calls the response tool, accepted                | ACCEPTED                                                    |
| native, prompted: text that holds a valid object | ACCEPTED                                                    |
| an invalid call of the response tool, other text | AGAIN, `max_retries` times, with the problems or a reminder |
|                                                  | then FAILED; at once at the last chance                     |
| finish tool without an output: text              | PLAIN                                                       |
| calls of other tools                             | none: the run continues                                     |
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from pydantic_core import to_json

from agentscope_rx.agent.structured_output.config import Reminder
from agentscope_rx.agent.structured_output.extract import NoJsonError, extract_object
from agentscope_rx.agent.structured_output.request import OutputRequest
from agentscope_rx.agent.structured_output.response_tool import RESPONSE_TEXT, is_response
from agentscope_rx.agent.structured_output.schema import WRAPPED
from agentscope_rx.events import OutputChunkEvent, ReasoningChunkEvent
from agentscope_rx.events.kinds import appended
from agentscope_rx.messages import ContentBlock, Msg, TextBlock, ThinkingBlock, ToolResultBlock, ToolUseBlock
from agentscope_rx.messages.structured import STRUCTURED
from agentscope_rx.models.options import GenerateOptions, ToolChoice, ToolSchema
from agentscope_rx.models.wire.speaker_names import hint_message
from agentscope_rx.tools import InvalidArgumentsError

INSTRUCTION = (
    "When you have all the information that you need, give your final answer as one JSON object that fits this JSON "
    "schema, and nothing else:\n{schema}"
)
REMINDER = "Please call the {name!r} function to provide your response."
MEND = "Your answer is not what was asked for:\n{problems}\nGive the whole answer again, as one JSON object alone."
LAST = "You have used all your rounds. Give your final answer now, from what you have found out."

_AS_TEXT = "the answer was given in words, not by a call of {name!r}"
_NOT_GIVEN = "no answer was given"


class Verdict(StrEnum):
    """The judgement of an answer."""

    ACCEPTED = "accepted"
    PLAIN = "plain"
    AGAIN = "again"
    FAILED = "failed"


@dataclass(slots=True)
class StructuredOutputState:
    """The state of one run's request."""

    request: OutputRequest
    failures: int = 0
    problems: tuple[str, ...] = ()
    text: str = ""
    """The last answer that was not accepted."""
    hint: str | None = None
    """A message to the model in the next round only."""
    last: bool = False
    """True if the rounds are used up, and this is one further round for the output."""
    due: bool = False
    """True if that round was granted and has not begun."""
    limit: str | None = None
    """The name of the usage limit that has ended the rounds, if it was one."""
    refused: bool = False
    """True if the provider refuses a forced tool choice."""
    calls: set[str] = field(default_factory=set[str])
    """Ids of the calls of the response tool: they and their results are removed from memory at the end."""
    attempts: set[str] = field(default_factory=set[str])
    """Ids of the messages that were failed attempts: they are removed from memory at the end."""
    answer: Msg | None = None
    """The message of the round."""
    taken: ToolResultBlock | None = None
    """The result that holds the response."""
    missed: ToolResultBlock | None = None
    """The last result of an invalid call of the response tool in this round."""

    # --- the request to the model ----------------------------------------------------------------------------------

    @property
    def forced(self) -> bool:
        """True if the next round forces a call of the response tool."""
        output = self.request.output
        due = self.hint is not None and output is not None and output.reminder is Reminder.TOOL_CHOICE
        return due and self.request.mode == "tool" and not self.refused

    def options(self, options: GenerateOptions) -> GenerateOptions:
        """The agent's options with those of this request."""
        request = self.request
        if self.forced:
            return GenerateOptions(tool_choice=ToolChoice.specific(request.name)).over(options)
        if request.mode != "native" or request.output is None:
            return options
        about = {"name": request.name, "strict": None, "schema": request.shape.schema}
        return GenerateOptions(response_format={"type": "json_schema", "json_schema": about}).over(options)

    def system(self, message: Msg | None) -> Msg | None:
        """The system message; in the prompted mode with the schema."""
        if self.request.mode != "prompted":
            return message
        return appended(message, INSTRUCTION.format(schema=to_json(self.request.shape.schema).decode()))

    def hints(self) -> tuple[Msg, ...]:
        """The messages to the model in this round only."""
        return () if self.hint is None else (hint_message(self.hint),)

    def tools(self, schemas: Sequence[ToolSchema]) -> Sequence[ToolSchema]:
        """The tools of the round; at the last chance only the response tool."""
        return [each for each in schemas if self.owns(each.name)] if self.last else schemas

    def last_chance(self, limit: str | None = None) -> bool:
        """Grant one further round for the output after the rounds are used up. False if there is none, or no output.

        `limit` names the limit that has ended the rounds, None being `max_iters`: the granted round is not held to it.
        """
        self.limit = limit or self.limit
        if self.last or self.request.output is None:
            return False
        self.last = True
        self.due = limit is not None
        reminder = [REMINDER.format(name=self.request.name)] if self.request.mode == "tool" else []
        self.hint = " ".join([LAST, *reminder])
        return True

    def begins(self) -> bool:
        """True if the round that begins was granted past a limit; this takes the grant."""
        due, self.due = self.due, False
        return due

    def owns(self, tool: str) -> bool:
        """True if this is the name of the run's response tool."""
        return self.request.tool is not None and tool == self.request.name

    # --- the answer of the model ------------------------------------------------------------------------------

    def show(self, event: object) -> Iterator[object]:
        """The event and, if it holds a delta of the output, the OutputChunk of that."""
        yield event
        if type(event) is ReasoningChunkEvent and self.request.output is not None and self._is_output(event.delta):
            yield OutputChunkEvent(
                source=event.source,
                iteration=event.iteration,
                message_id=event.message_id,
                delta=event.delta,
                view=event.view,
                count=event.count,
                within=self.request.shape.field,
            )

    def _is_output(self, delta: ContentBlock | None) -> bool:
        if self.request.mode == "tool":
            return isinstance(delta, ToolUseBlock) and self.owns(delta.name)
        return isinstance(delta, TextBlock)

    def begin(self, answer: Msg) -> None:
        """Begin a new answer, before it is remembered."""
        self.answer = answer
        self.hint = None
        self.taken = self.missed = None
        self.calls.update(call.id for call in answer.tool_calls if self.owns(call.name))

    def read_text(self, answer: Msg) -> tuple[Verdict, Msg]:
        """The verdict on an answer without calls, and the message to remember."""
        request = self.request
        if request.output is None:
            return Verdict.PLAIN, answer
        if request.mode == "tool":
            given = {WRAPPED: answer.text} if request.finish else None
        else:
            try:
                given = extract_object(answer.text)
            except NoJsonError as error:
                return self._failed((str(error),), answer.text, MEND), self.attempt(answer)
        try:
            if given is None:
                raise InvalidArgumentsError(request.name, [_AS_TEXT.format(name=request.name)])
            read = request.shape.read(given, request.name)
        except InvalidArgumentsError as error:
            hint = REMINDER.format(name=request.name) if request.mode == "tool" else MEND
            return self._failed(error.problems, answer.text, hint), self.attempt(answer)
        return Verdict.ACCEPTED, self._reply(answer, request.shape.value(read), request.shape.text(read))

    def result(self, call: ToolUseBlock, result: ToolResultBlock) -> None:
        """Note a result that the hooks have seen. Of several responses the last one counts."""
        if call.id not in self.calls:
            return
        if is_response(result):
            self.taken = result
            return
        self.missed = result
        self.text = call.raw or to_json(call.input).decode()

    def results(self) -> Verdict | None:
        """The verdict on the results of a round; None if they hold no response, and need not."""
        if self.taken is not None:
            return Verdict.ACCEPTED
        if self.missed is not None:
            text = self.missed.text.removeprefix("Error: ")
            problems = tuple(line.removeprefix("- ") for line in text.split("\n") if line.startswith("- "))
            return self._failed(problems or (text,), self.text, None)
        if self.last:
            return self._failed((_NOT_GIVEN,), "", None)
        return None

    def reply(self, name: str) -> Msg:
        """The reply made of the accepted result, with the thinking of the round if its message is removed."""
        assert self.taken is not None
        assert self.answer is not None
        text = str(self.taken.metadata.get(RESPONSE_TEXT, ""))
        value = self.taken.metadata[STRUCTURED]
        if self.request.output is not None and not self.request.finish:
            # a hook may have changed the value
            text = to_json(value).decode()
        message = Msg.assistant((), name)
        if not any(call.id not in self.calls for call in self.answer.tool_calls):
            message = message.replace(content=self.answer.blocks(ThinkingBlock))
        return self._reply(message, value, text)

    def _reply(self, message: Msg, value: object, text: str) -> Msg:
        content = (*message.blocks(ThinkingBlock), TextBlock(text))
        if self.request.output is None:
            return message.replace(content=content)
        return message.replace(content=content, metadata={**message.metadata, STRUCTURED: value})

    def attempt(self, answer: Msg) -> Msg:
        """Note a failed or cut off attempt: in the modes with the output as text, its message is a trace to remove."""
        if self.request.mode != "tool" and not answer.tool_calls:
            self.attempts.add(answer.id)
        return answer

    def _failed(self, problems: tuple[str, ...], text: str, hint: str | None) -> Verdict:
        self.failures += 1
        self.problems = problems
        self.text = text
        if hint is not None:
            self.hint = hint.format(problems="\n".join(f"- {each}" for each in problems))
        output = self.request.output
        bound = None if output is None else output.max_retries
        return Verdict.FAILED if self.last or (bound is not None and self.failures > bound) else Verdict.AGAIN
