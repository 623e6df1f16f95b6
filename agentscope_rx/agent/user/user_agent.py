"""`UserAgent`: a person in a conversation. Called, it asks; the reply is what the person says.

    messages since the person last spoke --question--> input (a terminal, a web page, a test) --answer--> reply

It remembers as any agent does: what it observes, is asked and answers. So what others say between two of its turns is
shown when it is asked next (a person who is told nothing cannot answer), and its conversation can be saved.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import cast

from reactivex import operators as ops

from agentscope_rx.agent.agent import Agent, Stage
from agentscope_rx.agent.interrupt_reply import LastWords, last_words
from agentscope_rx.agent.persistence import StatePersistence
from agentscope_rx.agent.run import Cut, Run
from agentscope_rx.agent.shutdown import GracefulShutdown
from agentscope_rx.agent.structured_output import StructuredOutput
from agentscope_rx.agent.structured_output.config import output_of
from agentscope_rx.agent.structured_output.request import OutputRequest
from agentscope_rx.agent.tracer import Tracer
from agentscope_rx.agent.user.answer import UnfitError, reply_of
from agentscope_rx.agent.user.question import Question, UserInput
from agentscope_rx.agent.user.terminal import TerminalInput
from agentscope_rx.errors import AgentShuttingDownError, ConfigurationError, StructuredOutputError, UserInputError
from agentscope_rx.events import Event, PreCallEvent
from agentscope_rx.hooks import Hook
from agentscope_rx.memory import InMemoryMemory, Memory
from agentscope_rx.messages import GenerateReason, Msg, MsgRole
from agentscope_rx.reactive import (
    Flow,
    Tail,
    concat_map,
    just,
    recurse,
    tail,
    take_until,
    throw,
)
from agentscope_rx.tools.calls.lift import kind_of, lift

INTERRUPTED_REPLY = "Interrupted by user"
TOO_LATE_REPLY = "(no answer in time)"

ANSWERS = "answers"
"""The key in an answer's metadata for the id of the last message that the person had seen."""

_QUESTION = "question"
"""Under this name a run keeps the messages that it shows."""

_OUTPUT = "output"
"""Under this name a run keeps the shape that it asks for."""


class UserAgent(Agent):
    """An agent whose replies come from a person, through `input`: the terminal unless another is given.

    `input` is called with a `Question` and answers with text, blocks, a `Msg` or, if the call has an `output`, its
    value; or with an awaitable or Observable of it (the first value counts). A plain `def` runs on a worker thread. A
    value that does not fit is asked for again, at most `attempts` times in all. `handle_interrupt` may be overridden.
    """

    def __init__(
        self,
        name: str,
        input: UserInput | None = None,
        *,
        memory: Memory | None = None,
        hooks: Iterable[Hook] = (),
        attempts: int = 3,
        check_running: bool = True,
        tracer: Tracer | None = None,
        state_persistence: StatePersistence | None = None,
        shutdown: GracefulShutdown | None = None,
    ) -> None:
        super().__init__(
            name,
            memory if memory is not None else InMemoryMemory(),
            hooks=hooks,
            check_running=check_running,
            tracer=tracer,
            state_persistence=state_persistence,
            shutdown=shutdown,
        )
        if input is not None and not callable(input):
            raise ConfigurationError(
                f"UserAgent: input must be a function of a Question, such as TerminalInput(), not {input!r:.60}."
            )
        if type(attempts) is not int or attempts < 1:
            raise ConfigurationError(f"UserAgent: attempts must be a whole number of at least 1, not {attempts!r}.")
        self.input: UserInput = input if input is not None else TerminalInput()
        self.attempts = attempts
        self._kind = kind_of(self.input)

    # --- the stages of a run --------------------------------------------------------------------------------------

    def requested(self, output: object) -> OutputRequest | None:
        """The shape asked for; a person is asked in words, whatever the mode."""
        asked = output_of(output)
        return None if asked is None else OutputRequest(asked, "prompted")

    def ask(self, run: Run, request: OutputRequest) -> None:
        """Keep the request for the question."""
        run.extras[_OUTPUT] = request.output

    def admit(self, run: Run, event: PreCallEvent, history: Sequence[Msg]) -> Flow[Event]:
        """Note what the person is to be shown: what came since they last spoke, and the input."""
        messages = (*unseen(history, self.name), *event.input)
        run.extras[_QUESTION] = tuple({message.id: message for message in messages}.values())
        last = event.input or history[-1:]
        run.extras[ANSWERS] = last[-1].id if last else ""
        return super().admit(run, event, history)

    def route(self, run: Run) -> Stage:
        """Ask, and remember the answer."""
        messages = cast("tuple[Msg, ...]", run.extras[_QUESTION])
        output = cast("StructuredOutput | None", run.extras.get(_OUTPUT))
        question = Question(self.name, messages, run, output)
        asked = recurse(lambda: self._ask(question, 1)).pipe(take_until(run.interrupt), ops.to_list())
        return asked.pipe(concat_map(lambda said: self._answered(run, said)))

    def _ask(self, question: Question, attempt: int) -> Flow[Msg | Tail[Msg]]:
        def read(answer: object) -> Msg | Tail[Msg]:
            try:
                return reply_of(answer, question)
            except UnfitError as error:
                problems = error.problems
            if attempt >= self.attempts:
                raise StructuredOutputError(self.name, problems, attempts=attempt)
            again = Question(question.name, question.messages, question.run, question.output, problems)
            return tail(lambda: self._ask(again, attempt + 1))

        answers: Flow[object] = lift(self._kind, lambda: self.input(question)).pipe(ops.take(1))
        return answers.pipe(concat_map(read))

    def _answered(self, run: Run, said: list[Msg]) -> Stage:
        if said:
            return self._remembered(run, said[0], said[0].generate_reason)
        if not run.interrupted:
            raise UserInputError(f"The input of {self.name!r} ended without an answer.")
        if run.cut is Cut.DEADLINE:
            return self._remembered(run, Msg(self.name, TOO_LATE_REPLY, MsgRole.USER), GenerateReason.LIMIT_REACHED)
        run.interrupted_by = run.interrupt_source
        if run.cut is Cut.SHUTDOWN:
            return self._shut_down(run)
        return last_words(lambda: self.handle_interrupt(run)).pipe(
            concat_map(lambda message: self._remembered(run, message, GenerateReason.INTERRUPTED))
        )

    def _shut_down(self, run: Run) -> Stage:
        """Fail without an answer: in another process `call()` asks the same again."""
        conversation = run.conversation
        conversation.cut_off = run.given
        saved_as = None if conversation.binding is None else conversation.binding.key
        return throw(AgentShuttingDownError(self.name, run.id, saved_as))

    def _remembered(self, run: Run, message: Msg, reason: GenerateReason) -> Stage:
        if message.name == self.name:
            message = message.replace(metadata={**message.metadata, ANSWERS: run.extras[ANSWERS]})
        final = run.final(message, reason)
        return cast("Stage", run.replied(final))

    def handle_interrupt(self, run: Run) -> LastWords:
        """The reply of an interrupted run: the message given to `interrupt`, else a sentence that says so."""
        return just(run.interrupt_message or Msg(self.name, INTERRUPTED_REPLY, MsgRole.USER))


def unseen(history: Sequence[Msg], name: str) -> list[Msg]:
    """What the person of this name has not been shown yet: also what came while they were thinking of their answer."""
    begin = 0
    for index in range(len(history) - 1, -1, -1):
        if _is_answer(history[index], name):
            seen = history[index].metadata[ANSWERS]
            before = (at for at in range(index - 1, -1, -1) if history[at].id == seen)
            begin = next(before, index) + 1 if seen else 0
            break
    return [message for message in history[begin:] if not _is_answer(message, name)]


def _is_answer(message: Msg, name: str) -> bool:
    return message.role is MsgRole.USER and message.name == name and ANSWERS in message.metadata
