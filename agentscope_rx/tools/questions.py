"""`ask_user`: a tool by which the model asks the user; `UserQuestion`: the question for a program that shows it.

    model     ask_user(question="Which city?", options=["Berlin", "Paris"])
    run       ends, TOOL_SUSPENDED; the placeholder's metadata has the question as data
    program   for question in questions_of(reply): show(question.text, question.options)
              agent.call(question.answer("Berlin"))                      or answer_question(call, "Berlin")
    model     reads "Berlin" as the result, and goes on

An answer is checked: it is one of the options, or own words if these are allowed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import Annotated, Final, Never, TypeGuard, cast

from pydantic import Field

from agentscope_rx.errors import InvalidInputError, ToolError, ToolSuspend
from agentscope_rx.frozen_values import dataclass
from agentscope_rx.messages import Msg, TextBlock, ToolResultBlock, ToolResultKind, ToolUseBlock
from agentscope_rx.messages.frozen import shown
from agentscope_rx.tools.function_tool import tool

ASK_USER: Final = "ask_user"
QUESTION: Final = "question"
"""The key of the question in a placeholder's metadata."""
MAX_OPTIONS = 50

Option = Annotated[str, Field(min_length=1, max_length=500)]


@tool(name=ASK_USER, read_only=True)
async def ask_user(
    question: Annotated[str, Field(description="The question, with all that is needed to answer it.", min_length=1)],
    options: Annotated[list[Option], Field(description="Answers to choose from.", max_length=MAX_OPTIONS)] = [],  # noqa: B006 - never changed
    allow_free_text: Annotated[bool, Field(description="The user may answer in own words.")] = True,
    multiple: Annotated[bool, Field(description="The user may choose several options.")] = False,
) -> Never:
    """Ask the user a question, and wait for the answer.

    Use it if you need a decision or a fact that only the user has, and not for what you can find out yourself.
    """
    asked = UserQuestion("", question.strip(), tuple(each.strip() for each in options), allow_free_text, multiple)
    if problem := asked.problem():
        raise ToolError(problem)
    raise ToolSuspend(asked.text, **{QUESTION: asked.to_dict()})


@dataclass(frozen=True, slots=True)
class UserQuestion:
    """A question that waits for the user. `call_id` is the id of the call, `tool` the name of its tool.

    The run has ended with reason `TOOL_SUSPENDED`; the placeholder has the question in `metadata["question"]`, as data
    for an interface. Give `answer(...)` to the next call: one of the options (case and spaces do not matter), own words
    if `allow_free_text`, a list if `multiple`. `decline(reason)` tells the model that there is no answer.
    `agent.call()` without input asks again. A result that you make by hand is not checked against the options.
    """

    call_id: str
    text: str
    options: tuple[str, ...] = ()
    allow_free_text: bool = True
    multiple: bool = False
    tool: str = ASK_USER

    @classmethod
    def of(cls, pending: ToolUseBlock | ToolResultBlock) -> UserQuestion:
        """The question of a pending call, or of its placeholder; `InvalidInputError` if the call has no question."""
        stored: object = pending.input if isinstance(pending, ToolUseBlock) else pending.metadata.get(QUESTION)
        if isinstance(stored, Mapping):
            given = cast("Mapping[str, object]", stored)
            text, options = given.get(QUESTION), given.get("options") or ()
            if isinstance(text, str) and isinstance(options, Sequence):
                return cls(
                    pending.id,
                    text.strip(),
                    tuple(str(each).strip() for each in cast("Sequence[object]", options)),
                    given.get("allow_free_text") is not False,
                    given.get("multiple") is True,
                    pending.name,
                )
        raise InvalidInputError(
            f"Call {pending.id!r} of {pending.name!r} asks the user nothing. Questions are the calls of {ASK_USER}: "
            "see questions_of(reply)."
        )

    def to_dict(self) -> dict[str, object]:
        """The question as plain JSON, in the form of a placeholder's metadata."""
        return {
            QUESTION: self.text,
            "options": list(self.options),
            "allow_free_text": self.allow_free_text,
            "multiple": self.multiple,
        }

    def problem(self) -> str:
        """Why the question cannot be asked; '' if it can."""
        folded = [each.casefold() for each in self.options]
        if not self.text:
            return "The question is empty."
        if not all(folded) or len(set(folded)) < len(folded):
            return "Each option must be a text of its own: none empty, none twice."
        if not folded and not self.allow_free_text:
            return "Without options the user cannot answer: give options, or allow_free_text=true."
        if not folded and self.multiple:
            return "multiple=true needs options to choose from."
        return ""

    def check(self, answer: str | Sequence[str]) -> tuple[str, ...]:
        """The answers in the spelling of the options; `InvalidInputError` if they do not answer the question."""
        given = list(answer) if _is_list(answer) else [answer]
        if not self.multiple and len(given) != 1:
            raise InvalidInputError(f"{self._asked()} takes one answer, not {len(given)}.")
        if not given:
            raise InvalidInputError(f"{self._asked()} needs at least one answer. {self._choices()}")
        return tuple(dict.fromkeys(map(self._checked, given)))

    def answer(self, answer: str | Sequence[str]) -> Msg:
        """The message that answers the question, for `agent.call`; `InvalidInputError` like `check`."""
        found = self.check(answer)
        value: object = list(found) if self.multiple else found[0]
        result = ToolResultBlock(self.call_id, self.tool, (TextBlock("\n".join(found)),), metadata={"answer": value})
        return Msg.tool(result)

    def decline(self, reason: str = "") -> Msg:
        """The message that declines to answer: a result of kind `rejected`."""
        text = f"The user did not answer. {reason}".strip()
        call = ToolUseBlock(self.call_id, self.tool)
        return Msg.tool(ToolResultBlock.error(call, ToolResultKind.REJECTED, text))

    def _checked(self, answer: object) -> str:
        if not isinstance(answer, str) or not answer.strip():
            raise InvalidInputError(f"{self._asked()} needs text as its answer, not {shown(answer, 60)}.")
        known = {each.casefold(): each for each in self.options}
        folded = answer.strip().casefold()
        if folded in known:
            return known[folded]
        if self.allow_free_text:
            return answer.strip()
        near = get_close_matches(folded, known, 1, 0.7)
        meant = f" Did you mean {known[near[0]]!r}?" if near else ""
        raise InvalidInputError(f"{answer!r:.80} does not answer {self._asked()}.{meant} {self._choices()}")

    def _asked(self) -> str:
        return f"the question {self.text!r:.120}"

    def _choices(self) -> str:
        return f"The options are {', '.join(map(repr, self.options))}."


def _is_list(answer: object) -> TypeGuard[Sequence[object]]:
    return isinstance(answer, Sequence) and not isinstance(answer, str)


def questions_of(reply: Msg) -> tuple[UserQuestion, ...]:
    """The questions of a reply that waits, in order; those of sub-agents, too."""
    waiting = ToolResultKind.SUSPENDED
    return tuple(
        UserQuestion.of(result)
        for result in reply.tool_results
        if result.kind is waiting and isinstance(result.metadata.get(QUESTION), Mapping)
    )


def answer_question(call: ToolUseBlock | ToolResultBlock | UserQuestion, answer: str | Sequence[str]) -> Msg:
    """The message that answers a pending call of `ask_user`, or its question, for `agent.call`; a list has several.

    `InvalidInputError` if the call asks nothing, or the answer is none of the options and own words are not allowed.
    """
    question = call if isinstance(call, UserQuestion) else UserQuestion.of(call)
    return question.answer(answer)
