"""`StructuredOutputState`: how far one run has got with its request for an output. Pure state, no I/O.

| the model's answer                               | so                                                          |
|--------------------------------------------------|-------------------------------------------------------------|
| calls the response tool, accepted                | ACCEPTED                                                    |
| native, prompted: words that hold a valid object | ACCEPTED                                                    |
| calls the response tool in vain; other words     | AGAIN, `max_retries` times, with the problems or a reminder |
|                                                  | then FAILED; at once if it was the last chance              |
| the finish tool is there for words alone: words  | PLAIN                                                       |
| calls other tools                                | nothing: it goes on working                                 |
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from pydantic_core import to_json

from agentscope_rx.agent.structured_output.config import Reminder
from agentscope_rx.agent.structured_output.extract import NoJsonError, extract_object
from agentscope_rx.agent.structured_output.request import OutputRequest
from agentscope_rx.agent.structured_output.response_tool import SAID, accepted
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

_IN_WORDS = "the answer was given in words, not by a call of {name!r}"
_NOT_GIVEN = "no answer was given"


class Verdict(StrEnum):
    """What follows an answer."""

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
    """The last answer that was not accepted, in words."""
    hint: str | None = None
    """What the model is told before the next round, in that round only."""
    last: bool = False
    """Whether the rounds are used up, and this is the one more that the output is worth."""
    due: bool = False
    """Whether that one round has been granted, and not begun."""
    limit: str | None = None
    """The usage limit that has ended the rounds, if it was one, in words."""
    refused: bool = False
    """Whether the provider takes no forced choice."""
    calls: set[str] = field(default_factory=set[str])
    """Ids of the calls of the response tool: with their results they leave memory at the end."""
    attempts: set[str] = field(default_factory=set[str])
    """Ids of the messages that were answers in vain: they leave memory at the end."""
    answer: Msg | None = None
    """The message of the round."""
    taken: ToolResultBlock | None = None
    """The result that brought the response."""
    missed: ToolResultBlock | None = None
    """The last result of the round's calls of the response tool that did not."""

    # --- how the model is asked ----------------------------------------------------------------------------------

    @property
    def forced(self) -> bool:
        """Whether the next round forces a call of the response tool."""
        output = self.request.output
        due = self.hint is not None and output is not None and output.reminder is Reminder.TOOL_CHOICE
        return due and self.request.mode == "tool" and not self.refused

    def options(self, options: GenerateOptions) -> GenerateOptions:
        """The agent's options with what this request adds to them."""
        request = self.request
        if self.forced:
            return GenerateOptions(tool_choice=ToolChoice.specific(request.name)).over(options)
        if request.mode != "native" or request.output is None:
            return options
        about = {"name": request.name, "strict": None, "schema": request.shape.schema}
        return GenerateOptions(response_format={"type": "json_schema", "json_schema": about}).over(options)

    def system(self, message: Msg | None) -> Msg | None:
        """The system message; in the prompted mode it says what is asked for."""
        if self.request.mode != "prompted":
            return message
        return appended(message, INSTRUCTION.format(schema=to_json(self.request.shape.schema).decode()))

    def hints(self) -> tuple[Msg, ...]:
        """What the model is told in this round only."""
        return () if self.hint is None else (hint_message(self.hint),)

    def tools(self, schemas: Sequence[ToolSchema]) -> Sequence[ToolSchema]:
        """The tools of the round; at the last chance the response tool alone."""
        return [each for each in schemas if self.owns(each.name)] if self.last else schemas

    def last_chance(self, limit: str | None = None) -> bool:
        """Whether there is one more round now that they are used up: once, if an output is asked for.

        `limit` is what has ended the others, if it was not `max_iters`: the round is to begin yet, past it.
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
        """Whether the round that begins is one that was granted past a limit; it is so once."""
        due, self.due = self.due, False
        return due

    def owns(self, tool: str) -> bool:
        """Whether this is the name of the run's response tool."""
        return self.request.tool is not None and tool == self.request.name

    # --- what is made of the answer ------------------------------------------------------------------------------

    def shown(self, event: object) -> Iterator[object]:
        """The event and, if it brings a piece of the output, the event of that."""
        yield event
        if type(event) is ReasoningChunkEvent and self.request.output is not None and self._brings(event.delta):
            yield OutputChunkEvent(
                source=event.source,
                iteration=event.iteration,
                message_id=event.message_id,
                delta=event.delta,
                view=event.view,
                count=event.count,
                within=self.request.shape.field,
            )

    def _brings(self, delta: ContentBlock | None) -> bool:
        if self.request.mode == "tool":
            return isinstance(delta, ToolUseBlock) and self.owns(delta.name)
        return isinstance(delta, TextBlock)

    def begin(self, answer: Msg) -> None:
        """Take note of an answer, before it is remembered."""
        self.answer = answer
        self.hint = None
        self.taken = self.missed = None
        self.calls.update(call.id for call in answer.tool_calls if self.owns(call.name))

    def words(self, answer: Msg) -> tuple[Verdict, Msg]:
        """What follows an answer without calls, and what becomes of it."""
        request = self.request
        if request.output is None:
            return Verdict.PLAIN, answer
        if request.mode == "tool":
            given = {WRAPPED: answer.text} if request.finish else None
        else:
            try:
                given = extract_object(answer.text)
            except NoJsonError as error:
                return self._in_vain((str(error),), answer.text, MEND), self.attempt(answer)
        try:
            if given is None:
                raise InvalidArgumentsError(request.name, [_IN_WORDS.format(name=request.name)])
            read = request.shape.read(given, request.name)
        except InvalidArgumentsError as error:
            hint = REMINDER.format(name=request.name) if request.mode == "tool" else MEND
            return self._in_vain(error.problems, answer.text, hint), self.attempt(answer)
        return Verdict.ACCEPTED, self._reply(answer, request.shape.value(read), request.shape.text(read))

    def result(self, call: ToolUseBlock, result: ToolResultBlock) -> None:
        """Take note of a result that the hooks have seen; of several responses the last one counts."""
        if call.id not in self.calls:
            return
        if accepted(result):
            self.taken = result
            return
        self.missed = result
        self.text = call.raw or to_json(call.input).decode()

    def results(self) -> Verdict | None:
        """What follows the results of a round; None if it brought no response, and need not have."""
        if self.taken is not None:
            return Verdict.ACCEPTED
        if self.missed is not None:
            text = self.missed.text.removeprefix("Error: ")
            problems = tuple(line.removeprefix("- ") for line in text.split("\n") if line.startswith("- "))
            return self._in_vain(problems or (text,), self.text, None)
        if self.last:
            return self._in_vain((_NOT_GIVEN,), "", None)
        return None

    def reply(self, name: str) -> Msg:
        """The reply that the accepted result amounts to; the round's thinking comes with it, unless it stays there."""
        assert self.taken is not None
        assert self.answer is not None
        said = str(self.taken.metadata.get(SAID, ""))
        value = self.taken.metadata[STRUCTURED]
        if self.request.output is not None and not self.request.finish:
            # a hook may have changed the value
            said = to_json(value).decode()
        message = Msg.assistant((), name)
        if not any(call.id not in self.calls for call in self.answer.tool_calls):
            message = message.replace(content=self.answer.blocks(ThinkingBlock))
        return self._reply(message, value, said)

    def _reply(self, message: Msg, value: object, said: str) -> Msg:
        content = (*message.blocks(ThinkingBlock), TextBlock(said))
        if self.request.output is None:
            return message.replace(content=content)
        return message.replace(content=content, metadata={**message.metadata, STRUCTURED: value})

    def attempt(self, answer: Msg) -> Msg:
        """An answer in vain, or cut off: in the modes where words are the output, they are a trace of it."""
        if self.request.mode != "tool" and not answer.tool_calls:
            self.attempts.add(answer.id)
        return answer

    def _in_vain(self, problems: tuple[str, ...], text: str, hint: str | None) -> Verdict:
        self.failures += 1
        self.problems = problems
        self.text = text
        if hint is not None:
            self.hint = hint.format(problems="\n".join(f"- {each}" for each in problems))
        output = self.request.output
        bound = None if output is None else output.max_retries
        return Verdict.FAILED if self.last or (bound is not None and self.failures > bound) else Verdict.AGAIN
