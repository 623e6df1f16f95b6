"""`UserAgent`: a person as an agent. A call asks the person; the answer is the reply.

    messages since the last reply --question--> input (a terminal, a web page, a test) --answer--> reply

Like any agent it remembers the messages that it observes, its input and its replies. So a question shows the messages
that others have sent since its last reply, and its conversation can be saved.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from os import PathLike
from typing import cast

from reactivex import operators as ops

from agentscope_rx.agent.agent import Agent
from agentscope_rx.agent.interruption import Cut, LastWords, interrupt_reply
from agentscope_rx.agent.run import Run, Stage
from agentscope_rx.agent.shutdown import GracefulShutdown
from agentscope_rx.agent.state_persistence import StatePersistence
from agentscope_rx.agent.structured_output import StructuredOutput
from agentscope_rx.agent.structured_output.config import output_of
from agentscope_rx.agent.structured_output.request import OutputRequest
from agentscope_rx.agent.user.answer import Question, UnfitError, UserInput, reply_of
from agentscope_rx.agent.user.terminal import TerminalInput
from agentscope_rx.agent.when_busy import QUEUE_LIMIT, WhenBusy
from agentscope_rx.errors import AgentShuttingDownError, ConfigurationError, StructuredOutputError, UserInputError
from agentscope_rx.events import Event, PreCallEvent
from agentscope_rx.hooks import Hook
from agentscope_rx.hooks.base import Tracer
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
from agentscope_rx.session import Session
from agentscope_rx.tools.calls.lift import kind_of, lift

INTERRUPTED_REPLY = "Interrupted by user"
TOO_LATE_REPLY = "(no answer in time)"

ANSWERS = "answers"
"""The key in a reply's metadata for the id of the last message that the person was shown."""

_QUESTION = "question"
"""The key in `run.extras` of the messages to show."""

_OUTPUT = "output"
"""The key in `run.extras` of the requested shape."""


class UserAgent(Agent):
    """An agent whose replies come from a person, through `input`: the terminal unless another is given.

    `input` gets a `Question` and returns text, blocks, a `Msg` or, if the call has an `output`, its value; or an
    awaitable or Observable of these (the first value counts). A plain `def` runs on a worker thread. If a value does
    not fit, the person is asked again, up to `attempts` times in all. Override `handle_interrupt` for another reply to
    an interruption. `session` and `session_key` are as for `ReActAgent`.
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
        when_busy: WhenBusy = "error",
        queue_limit: int = QUEUE_LIMIT,
        tracer: Tracer | None = None,
        state_persistence: StatePersistence | None = None,
        shutdown: GracefulShutdown | None = None,
        session: Session | str | PathLike[str] | None = None,
        session_key: str | None = None,
    ) -> None:
        super().__init__(
            name,
            memory if memory is not None else InMemoryMemory(),
            hooks=hooks,
            check_running=check_running,
            when_busy=when_busy,
            queue_limit=queue_limit,
            tracer=tracer,
            state_persistence=state_persistence,
            shutdown=shutdown,
            session=session,
            session_key=session_key,
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
        """The request for the shape; its mode has no meaning for a person."""
        requested = output_of(output)
        return None if requested is None else OutputRequest(requested, "prompted")

    def ask(self, run: Run, request: OutputRequest) -> None:
        """Keep the request for the question."""
        run.extras[_OUTPUT] = request.output

    def admit(self, run: Run, event: PreCallEvent, history: Sequence[Msg]) -> Flow[Event]:
        """Note the messages to show: those since the last reply, and the input."""
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
        answers = recurse(lambda: self._ask(question, 1)).pipe(take_until(run.interruption.event), ops.to_list())
        return answers.pipe(concat_map(lambda found: self._answered(run, found)))

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

    def _answered(self, run: Run, answers: list[Msg]) -> Stage:
        if answers:
            return self._end_with(run, answers[0], answers[0].generate_reason)
        if not run.interrupted:
            raise UserInputError(f"The input of {self.name!r} ended without an answer.")
        if run.interruption.cut is Cut.DEADLINE:
            return self._end_with(run, Msg(self.name, TOO_LATE_REPLY, MsgRole.USER), GenerateReason.LIMIT_REACHED)
        run.interruption.ended_by = run.interruption.source
        if run.interruption.cut is Cut.SHUTDOWN:
            return self._shut_down(run)
        return interrupt_reply(lambda: self.handle_interrupt(run)).pipe(
            concat_map(lambda message: self._end_with(run, message, GenerateReason.INTERRUPTED))
        )

    def _shut_down(self, run: Run) -> Stage:
        """Fail without an answer: `call()`, also in another process, asks the same question again."""
        conversation = run.conversation
        conversation.cut_off = run.input.given
        saved_as = None if conversation.binding is None else conversation.binding.key
        return throw(AgentShuttingDownError(self.name, run.id, saved_as))

    def _end_with(self, run: Run, message: Msg, reason: GenerateReason) -> Stage:
        if message.name == self.name:
            message = message.replace(metadata={**message.metadata, ANSWERS: run.extras[ANSWERS]})
        final = run.final(message, reason)
        return run.end_with(final)

    def handle_interrupt(self, run: Run) -> LastWords:
        """The reply of an interrupted run: the message given to `interrupt`, else a fixed text."""
        return just(run.interruption.message or Msg(self.name, INTERRUPTED_REPLY, MsgRole.USER))


def unseen(history: Sequence[Msg], name: str) -> list[Msg]:
    """The messages that this person was not shown yet, including those that came while a question was open."""
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
