"""`OpenCall`: one call on a session. It is a task of its own, which may outlive the run that made the call.

    begin ---- progress ---- progress ---- result
                     question ... answer               the run ends with the question, and comes back later

Waiting for a call gives its result, its error, or the first open question. Cancelling a call notifies the server.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextvars import ContextVar, copy_context
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from mcp_types import (
    HEADER_MISMATCH,
    CallToolResult,
    ElicitRequest,
    ElicitRequestParams,
    ElicitResult,
    ErrorData,
    InputRequiredResult,
    InputResponses,
)

from agentscope_rx.errors import McpConnectionError, McpError
from agentscope_rx.messages.frozen import thaw
from agentscope_rx.reactive import OneShotEvent, from_callable, spawn_background
from agentscope_rx.tools.context import ToolContext
from agentscope_rx.tools.mcp.elicitation import Answer, Question
from agentscope_rx.tools.mcp.session import McpSession

if TYPE_CHECKING:
    from reactivex import abc

CURRENT: ContextVar[OpenCall | None] = ContextVar("agentscope_rx_mcp_call", default=None)
"""The call of the current request, where the transport keeps the context of its answers."""

MAX_ROUNDS = 20
"""How many rounds of questions a server of the newer protocol may ask in one call."""


class _Resumed(NamedTuple):
    """An answer, and the responses and state that go back to the server with it."""

    answer: Answer
    responses: InputResponses
    state: str | None


class OpenCall:
    """One call of one tool. Used on the library's loop."""

    def __init__(self, session: McpSession, server: str, question_timeout: float, run_id: str) -> None:
        self.session = session
        self.run_id = run_id
        self.progress: Callable[[str], Awaitable[None]] | None = None
        self._pending_progress: str | None = None
        self._emitting = False
        self.given: list[Answer] = []
        """Answers to questions that the server will ask again."""
        self.done: OneShotEvent = OneShotEvent()
        self._name = ""
        self._server = server
        self._question_timeout = question_timeout
        self._changed = asyncio.Event()
        self._questions: list[Question] = []
        self._result: CallToolResult | None = None
        self._error: Exception | None = None
        self._task: abc.DisposableBase | None = None
        self._started = False

    def begin(self, name: str, arguments: Mapping[str, object]) -> None:
        """Start the call."""
        self._name = name
        self.session.calls.add(self)
        self._task = spawn_background(
            from_callable(lambda: self._run(name, dict(arguments))), f"a call of MCP tool {name!r}", copy_context()
        )

    async def follow(self, context: ToolContext) -> CallToolResult | Question:
        """Like `next`, with progress emitted through the context. Cancelling the wait cancels the call."""
        self.progress = context.send
        try:
            return await self.next()
        except asyncio.CancelledError:
            await self.cancel()
            raise
        finally:
            self.progress = None

    async def next(self) -> CallToolResult | Question:
        """The result or an open question; raises the call's error."""
        while True:
            if self.done.fired:
                if self._error is not None:
                    raise self._error
                assert self._result is not None
                return self._result
            self._questions = [each for each in self._questions if each.open]
            if self._questions:
                return self._questions[0]
            self._changed.clear()
            await self._changed.wait()

    def answer(self, answer: Answer) -> bool:
        """Answer an open question; False if it is not open here."""
        for question in self._questions:
            if question.token == answer.question.token and question.answer is not None and question.open:
                question.answer.set_result(answer.result)
                return True
        return False

    async def cancel(self) -> None:
        """End the call, notify the server, and return when its task has ended."""
        if self._task is not None:
            self._task.dispose()
        if not self._started:
            # a task that is cancelled before its first step never runs
            self._finish()
        await self.done.wait()

    async def fail(self, error: Exception) -> None:
        """End the call with this error."""
        if not self.done.fired:
            self._error = error
            await self.cancel()

    @property
    def failed(self) -> bool:
        """True if the call has ended with an error."""
        return self._error is not None

    async def ask(self, question: Question) -> ElicitResult:
        """Report the question to the waiting run and wait for the answer; after the timeout it is cancelled."""
        for given in self.given:
            if question.same(given.question):
                self.given.remove(given)
                return given.result
        if question.answer is None:
            question.answer = asyncio.get_running_loop().create_future()
        self.add_question(question)
        try:
            async with asyncio.timeout(self._question_timeout):
                return await asyncio.shield(question.answer)
        except TimeoutError:
            question.answer.cancel()
            self._changed.set()
            return ElicitResult(action="cancel")

    def add_question(self, question: Question) -> None:
        """Add an open question that may belong to this call."""
        self._questions.append(question)
        self._changed.set()

    async def _run(self, name: str, arguments: dict[str, Any]) -> None:
        self._started = True
        CURRENT.set(self)
        try:
            self._result = await self._rounds(name, arguments)
        except Exception as error:
            # the error given to `fail` says more than the cancellation
            self._error = self._error or error
        finally:
            self._finish()

    def _finish(self) -> None:
        if self._result is None and self._error is None:
            self._error = McpError(f"The call of MCP tool {self._name!r} was cancelled.", server=self._server)
        self.session.calls.discard(self)
        self.done.fire()
        self._changed.set()

    async def _rounds(self, name: str, arguments: dict[str, Any]) -> CallToolResult:
        resumed = self._resumed()
        responses, state = (None, None) if resumed is None else (resumed.responses, resumed.state)
        listed = False
        for _ in range(MAX_ROUNDS):
            try:
                result = await self._round(name, arguments, responses, state)
            except McpConnectionError:
                raise
            except McpError as error:
                if error.code == HEADER_MISMATCH and not listed:
                    # the SDK learns from the listing which arguments to repeat in headers
                    listed = True
                    await self.session.ask(lambda session: session.list_tools())
                elif resumed is not None:
                    # the server has forgotten the question: call again, and answer when it asks again
                    self.given.append(resumed.answer)
                    resumed, responses, state = None, None, None
                else:
                    raise
                continue
            if isinstance(result, CallToolResult):
                return result
            resumed = None
            responses, state = await self._responses(result), result.request_state
        raise McpError(
            f"MCP server {self._server!r} asked more than {MAX_ROUNDS} rounds of questions in a call of {name!r}.",
            server=self._server,
        )

    async def _round(
        self, name: str, arguments: dict[str, Any], responses: InputResponses | None, state: str | None
    ) -> CallToolResult | InputRequiredResult:
        return await self.session.ask(
            lambda session: session.call_tool(
                name,
                arguments,
                progress_callback=self._on_progress,
                input_responses=responses,
                request_state=state,
                allow_input_required=True,
            )
        )

    def _resumed(self) -> _Resumed | None:
        """The answer that a server of the newer protocol waits for, with the state that it gave."""
        for given in self.given:
            resume = given.question.resume
            if resume is not None:
                self.given.remove(given)
                answered = thaw(cast("Mapping[str, Any]", resume["answered"]))
                responses = cast("InputResponses", {**answered, str(resume["key"]): given.result})
                state = resume["state"]
                return _Resumed(given, responses, None if state is None else str(state))
        return None

    async def _responses(self, result: InputRequiredResult) -> InputResponses | None:
        if not result.input_requests:
            # the server asks to be called again soon
            await asyncio.sleep(0.05)
            return None
        responses: InputResponses = {}
        for key, request in result.input_requests.items():
            if isinstance(request, ElicitRequest) and not self.session.has_handler:
                resume = {"key": key, "state": result.request_state, "answered": _plain(responses)}
                responses[key] = await self.ask(Question.of(self._server, request.params, resume))
                continue
            answered = await self.session.dispatch(key, request)
            if isinstance(answered, ErrorData):
                raise McpError(
                    f"MCP server {self._server!r} made a request that was refused: {answered.message}",
                    server=self._server,
                )
            responses[key] = answered
        return responses

    async def _on_progress(self, progress: float, total: float | None, message: str | None) -> None:
        # a server may report faster than the run reads: meanwhile only the latest report is kept
        self._pending_progress = progress_text(progress, total, message)
        if self._emitting:
            return
        self._emitting = True
        try:
            while self._pending_progress is not None and self.progress is not None:
                text, self._pending_progress = self._pending_progress, None
                await self.progress(text)
        finally:
            self._emitting = False


def progress_text(progress: float, total: float | None, message: str | None) -> str:
    """A progress report as text: the server's message, or the numbers."""
    if message:
        return message
    return f"{progress:g}" if total is None else f"{progress:g}/{total:g}"


def owners_of_question(session: McpSession) -> list[OpenCall]:
    """The calls that a question on this session may belong to; none if they belong to different runs."""
    current = CURRENT.get()
    if current is not None and current in session.calls:
        return [current]
    calls = list(session.calls)
    runs = {call.run_id for call in calls}
    return calls if len(calls) == 1 or (len(runs) == 1 and "" not in runs) else []


async def elicit_in_call(session: McpSession, server: str, params: ElicitRequestParams) -> ElicitResult | ErrorData:
    """Pass a question that came during a call to its run, and give the answer."""
    owners = owners_of_question(session)
    if not owners:
        return ErrorData(
            code=-32600, message="Several calls are in progress, and the question names none of them. Ask again."
        )
    first, *others = owners
    question = Question.of(server, params)
    question.answer = asyncio.get_running_loop().create_future()
    for other in others:
        # it may belong to any of them, and none may keep its run waiting
        other.add_question(question)
    return await first.ask(question)


def _plain(responses: InputResponses) -> dict[str, Any]:
    return {key: each.model_dump(by_alias=True, mode="json", exclude_none=True) for key, each in responses.items()}
