"""`OpenCall`: one call as its session knows it: a task that may outlive the run that asked for it.

    begin ---- progress ---- progress ---- result
                     question ... answer               the run takes the question for the result, and comes back later

Whoever waits for it gets the result, an error or the first question that is open. Cancelled, it tells the server.
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
from agentscope_rx.tools.mcp.question import Answer, Question
from agentscope_rx.tools.mcp.session import McpSession, fired

if TYPE_CHECKING:
    from reactivex import abc

CURRENT: ContextVar[OpenCall | None] = ContextVar("agentscope_rx_mcp_call", default=None)
"""The call that a request to the server was made for, as far as the transport carries it back."""

MAX_ROUNDS = 20
"""How often a server of the newer protocol may ask for more in one call."""


class _Resumed(NamedTuple):
    """An answer, and all that goes back to the server with it."""

    answer: Answer
    back: tuple[InputResponses, str | None]


class OpenCall:
    """One call of one tool. For the library's loop."""

    def __init__(self, session: McpSession, server: str, patience: float, run_id: str) -> None:
        self.session = session
        self.run_id = run_id
        self.progress: Callable[[str], Awaitable[None]] | None = None
        self._unshown: str | None = None
        self._showing = False
        self.given: list[Answer] = []
        """What has been answered before it is asked."""
        self.done = OneShotEvent()
        self._name = ""
        self._server = server
        self._patience = patience
        self._moved = asyncio.Event()
        self._questions: list[Question] = []
        self._result: CallToolResult | None = None
        self._error: Exception | None = None
        self._task: abc.DisposableBase | None = None
        self._lives = False

    def begin(self, name: str, arguments: Mapping[str, object]) -> None:
        """Send it."""
        self._name = name
        self.session.calls.add(self)
        self._task = spawn_background(
            from_callable(lambda: self._live(name, dict(arguments))), f"a call of MCP tool {name!r}", copy_context()
        )

    async def follow(self, context: ToolContext) -> CallToolResult | Question:
        """As `next`, with progress emitted through the context; who leaves while it waits cancels the call."""
        self.progress = context.send
        try:
            return await self.next()
        except asyncio.CancelledError:
            await self.cancel()
            raise
        finally:
            self.progress = None

    async def next(self) -> CallToolResult | Question:
        """The result, or a question that is open; the call's error."""
        while True:
            if self.done.fired:
                if self._error is not None:
                    raise self._error
                assert self._result is not None
                return self._result
            self._questions = [each for each in self._questions if each.open]
            if self._questions:
                return self._questions[0]
            self._moved.clear()
            await self._moved.wait()

    def answer(self, answer: Answer) -> bool:
        """Give the answer to the question that it is for; False if that is not open here."""
        for question in self._questions:
            if question.token == answer.question.token and question.answer is not None and question.open:
                question.answer.set_result(answer.result)
                return True
        return False

    async def cancel(self) -> None:
        """End it, tell the server, and return when its task has ended."""
        if self._task is not None:
            self._task.dispose()
        if not self._lives:
            # a task that is cancelled before its first step has none at all
            self._over()
        await fired(self.done)

    async def fail(self, error: Exception) -> None:
        """End it with this error."""
        if not self.done.fired:
            self._error = error
            await self.cancel()

    @property
    def failed(self) -> bool:
        """Whether it has ended with an error."""
        return self._error is not None

    async def ask(self, question: Question) -> ElicitResult:
        """Let whoever waits for the call know, and wait for the answer; after a while the question is called off."""
        for given in self.given:
            if question.same(given.question):
                self.given.remove(given)
                return given.result
        if question.answer is None:
            question.answer = asyncio.get_running_loop().create_future()
        self.put(question)
        try:
            async with asyncio.timeout(self._patience):
                return await asyncio.shield(question.answer)
        except TimeoutError:
            question.answer.cancel()
            self._moved.set()
            return ElicitResult(action="cancel")

    def put(self, question: Question) -> None:
        """Note a question that may be this call's."""
        self._questions.append(question)
        self._moved.set()

    async def _live(self, name: str, arguments: dict[str, Any]) -> None:
        self._lives = True
        CURRENT.set(self)
        try:
            self._result = await self._rounds(name, arguments)
        except Exception as error:
            # one that was given before says more
            self._error = self._error or error
        finally:
            self._over()

    def _over(self) -> None:
        if self._result is None and self._error is None:
            self._error = McpError(f"The call of MCP tool {self._name!r} was cancelled.", server=self._server)
        self.session.calls.discard(self)
        self.done.fire()
        self._moved.set()

    async def _rounds(self, name: str, arguments: dict[str, Any]) -> CallToolResult:
        resumed = self._resumed()
        responses, state = (None, None) if resumed is None else resumed.back
        listed = False
        for _ in range(MAX_ROUNDS):
            try:
                result = await self._round(name, arguments, responses, state)
            except McpConnectionError:
                raise
            except McpError as error:
                if error.code == HEADER_MISMATCH and not listed:
                    # what the arguments are to be repeated in is known from the listing
                    listed = True
                    await self.session.ask(lambda session: session.list_tools())
                elif resumed is not None:
                    # the server has forgotten the question: the call from its beginning, with the answer at hand
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
            f"MCP server {self._server!r} asked for more {MAX_ROUNDS} times in one call of {name!r}.",
            server=self._server,
        )

    async def _round(
        self, name: str, arguments: dict[str, Any], responses: InputResponses | None, state: str | None
    ) -> CallToolResult | InputRequiredResult:
        return await self.session.ask(
            lambda session: session.call_tool(
                name,
                arguments,
                progress_callback=self._progressed,
                input_responses=responses,
                request_state=state,
                allow_input_required=True,
            )
        )

    def _resumed(self) -> _Resumed | None:
        """The answer that a server of the newer protocol waits for, with what it gave to keep."""
        for given in self.given:
            resume = given.question.resume
            if resume is not None:
                self.given.remove(given)
                answered = thaw(cast("Mapping[str, Any]", resume["answered"]))
                responses = cast("InputResponses", {**answered, str(resume["key"]): given.result})
                state = resume["state"]
                return _Resumed(given, (responses, None if state is None else str(state)))
        return None

    async def _responses(self, result: InputRequiredResult) -> InputResponses | None:
        if not result.input_requests:
            # the server wants to be asked again, and soon
            await asyncio.sleep(0.05)
            return None
        responses: InputResponses = {}
        for key, request in result.input_requests.items():
            if isinstance(request, ElicitRequest) and not self.session.asks_itself:
                resume = {"key": key, "state": result.request_state, "answered": _plain(responses)}
                responses[key] = await self.ask(Question.of(self._server, request.params, resume))
                continue
            answered = await self.session.dispatch(key, request)
            if isinstance(answered, ErrorData):
                raise McpError(
                    f"MCP server {self._server!r} asked for what it cannot have: {answered.message}",
                    server=self._server,
                )
            responses[key] = answered
        return responses

    async def _progressed(self, progress: float, total: float | None, message: str | None) -> None:
        # a server may tell of more than is read: while there is no room, the latest takes the place of those before
        self._unshown = progress_text(progress, total, message)
        if self._showing:
            return
        self._showing = True
        try:
            while self._unshown is not None and self.progress is not None:
                text, self._unshown = self._unshown, None
                await self.progress(text)
        finally:
            self._showing = False


def progress_text(progress: float, total: float | None, message: str | None) -> str:
    """How far a call is, in words: what the server says, else the numbers."""
    if message:
        return message
    return f"{progress:g}" if total is None else f"{progress:g}/{total:g}"


def owner_of(session: McpSession) -> list[OpenCall]:
    """The calls that a question of this session may belong to; none if they are of different runs."""
    current = CURRENT.get()
    if current is not None and current in session.calls:
        return [current]
    calls = list(session.calls)
    runs = {call.run_id for call in calls}
    return calls if len(calls) == 1 or (len(runs) == 1 and "" not in runs) else []


async def elicited(session: McpSession, server: str, params: ElicitRequestParams) -> ElicitResult | ErrorData:
    """What to answer to a question that came in the middle of a call."""
    owners = owner_of(session)
    if not owners:
        return ErrorData(
            code=-32600, message="Several calls are in progress: whose question this is cannot be told. Ask again."
        )
    first, *others = owners
    question = Question.of(server, params)
    question.answer = asyncio.get_running_loop().create_future()
    for other in others:
        # one of them is meant: none may keep its run waiting
        other.put(question)
    return await first.ask(question)


def _plain(responses: InputResponses) -> dict[str, Any]:
    return {key: each.model_dump(by_alias=True, mode="json", exclude_none=True) for key, each in responses.items()}
