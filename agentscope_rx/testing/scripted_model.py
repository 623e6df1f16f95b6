"""`ScriptedModel`: a model that answers from a script, records its requests, and knows the turns not yet played."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import aclosing
from enum import Enum
from inspect import isawaitable
from itertools import count
from typing import Final, Self, cast, get_args

from agentscope_rx.errors import AgentScopeError, ConfigurationError, ModelConnectionError
from agentscope_rx.frozen_values import dataclass
from agentscope_rx.messages import Msg, TextBlock, ToolUseBlock
from agentscope_rx.models.chat_model import ChatModel, OutputSupport
from agentscope_rx.models.options import ExecutionConfig, GenerateOptions, ToolSchema
from agentscope_rx.models.response import ChatResponse, ChunkBlock
from agentscope_rx.reactive import Flow, from_async_iterable
from agentscope_rx.testing.marbles import Marble, check_elements, marbles_of


@dataclass(frozen=True, slots=True)
class Delay:
    """A step of a `ScriptedModel` that waits for these seconds, on the loop's clock."""

    seconds: float


@dataclass(frozen=True, slots=True)
class _Until:
    """A step that waits until so many seconds after the request."""

    seconds: float


class Hang(Enum):
    """The type of `HANG`."""

    HANG = "hang"


HANG: Final = Hang.HANG
"""A step of a `ScriptedModel` that never ends: the model is silent until the run is stopped."""

PlainStep = str | ChunkBlock | ChatResponse | Delay | _Until | Hang | Exception | asyncio.Event
Reply = PlainStep | Sequence[PlainStep]
Step = PlainStep | Callable[["ScriptedRequest"], Reply | Awaitable[Reply]]
Turn = Step | Sequence[Step]


class ScriptExhaustedError(AgentScopeError, AssertionError):
    """A scripted or recorded model was called after its last turn."""


@dataclass(frozen=True, slots=True)
class ScriptedRequest:
    """The arguments of a model call, as `ScriptedModel.requests` holds them."""

    messages: Sequence[Msg]
    tools: Sequence[ToolSchema]
    options: GenerateOptions


_ids = count(1)


def call(name: str, id: str | None = None, /, **arguments: object) -> ToolUseBlock:
    """A tool call, with a new id unless one is given: `call("weather", "c1", city="Paris")`."""
    return ToolUseBlock(f"call_{next(_ids)}" if id is None else id, name, arguments)


_ONCE = ExecutionConfig(max_attempts=1)


class ScriptedModel(ChatModel):
    """A model that plays one turn of its script for each attempt, and records the requests.

        model = ScriptedModel(
            call("weather", city="Paris"),              # turn 1: one tool call
            ["It is ", Delay(0.5), "sunny."],           # turn 2: text in two chunks, half a second apart
            ModelConnectionError("broken pipe"),        # turn 3: fails
        )

    A turn is one step or a list of steps:

    | step                         | plays as                                                              |
    |------------------------------|-----------------------------------------------------------------------|
    | a `str`                      | a chunk of text                                                       |
    | a `ToolUseBlock`, `call()`   | a whole tool call                                                     |
    | any other chunk block        | a chunk with it (`ThinkingBlock`, `ToolUseDelta`, ...)                |
    | a `ChatResponse`             | that chunk (usage, finish reason, ...)                                |
    | `Delay(seconds)`             | a wait on the loop's clock                                            |
    | `HANG`                       | silence until the run is stopped                                      |
    | an `asyncio.Event`           | a wait until it is set                                                |
    | a function                   | the steps that it returns for the `ScriptedRequest`; it may be async  |
    | an exception                 | the failure of this attempt                                           |

    A call after the last turn is a `ScriptExhaustedError`; with `repeat` the script begins again. The model makes one
    attempt, unless an execution config enables retries. `output_modes` are the ways of asking for structured output
    that it supports: "tool" and "prompted" by default.
    """

    provider = "scripted"

    def __init__(
        self,
        *turns: Turn,
        repeat: bool = False,
        model_name: str = "scripted",
        execution_config: ExecutionConfig | None = None,
        output_modes: Iterable[OutputSupport] | None = None,
    ) -> None:
        super().__init__(model_name, execution_config=(execution_config or ExecutionConfig()).over(_ONCE))
        if output_modes is not None:
            self.output_modes: frozenset[OutputSupport] = frozenset(output_modes)
        self.turns: tuple[tuple[Step, ...], ...] = tuple(_steps(turn) for turn in turns)
        self.repeat = repeat
        self.requests: list[ScriptedRequest] = []
        """All requests so far, in order."""
        self.closed: list[ScriptedRequest] = []
        """Requests whose answer was closed before its end: by an interruption, a deadline or a disposal."""

    @classmethod
    def marbles(
        cls,
        *turns: str,
        values: Mapping[str, Turn] | None = None,
        frame: float = 0.1,
        error: Exception | None = None,
        repeat: bool = False,
        model_name: str = "scripted",
        execution_config: ExecutionConfig | None = None,
        output_modes: Iterable[OutputSupport] | None = None,
    ) -> Self:
        """A model whose turns are marble diagrams, of `frame` seconds a character: `marbles("--a-b-|", "-(a,b)-#")`.

        The syntax is that of `reactivex.from_marbles`: `-` is silence, `|` the end, `#` an error, and the elements of
        `(a,b)` come at once. A group takes the time of all of its characters, brackets and commas included; spaces
        take none. `values` has the step, or the steps, of an element; an element without one is a chunk of text.
        `error` is the failure of `#`, a `ModelConnectionError` by default. A turn without `|` or `#` never ends.

        Raises `ConfigurationError` for a value that no diagram uses.
        """
        steps = values or {}
        diagrams = [_marbles(turn, steps, frame) for turn in turns]
        script = [_marble_turn(*each, steps, error) for each in zip(turns, diagrams, strict=True)]
        unused = set(steps).difference(marble.element for marbles in diagrams for marble in marbles)
        if unused:
            raise ConfigurationError(
                f"No marble diagram has the elements {sorted(unused)}, for which values are given."
            )
        return cls(
            *script,
            repeat=repeat,
            model_name=model_name,
            execution_config=execution_config,
            output_modes=output_modes,
        )

    @property
    def unplayed(self) -> int:
        """The number of turns that were not played yet."""
        return max(0, len(self.turns) - len(self.requests))

    def assert_complete(self) -> None:
        """Raise `AssertionError` if turns are left."""
        if self.unplayed:
            left = ", ".join(repr(turn) for turn in self.turns[len(self.requests) :])
            raise AssertionError(f"{self.unplayed} of {len(self.turns)} turns were not played: {left:.300}")

    def do_stream(
        self, messages: Sequence[Msg], tools: Sequence[ToolSchema], options: GenerateOptions
    ) -> Flow[ChatResponse]:
        """Plays the next turn."""

        def begin() -> AsyncIterator[ChatResponse]:
            number = len(self.requests)
            if options.tool_choice is not None:
                # as real models do
                options.tool_choice.check(tools)
            # a list may change later; the agent's own sequences are views that do not
            asked = tuple(messages) if isinstance(messages, list) else messages
            request = ScriptedRequest(asked, tuple(tools), options)
            self.requests.append(request)
            if self.repeat and self.turns:
                number %= len(self.turns)
            if number >= len(self.turns):
                raise ScriptExhaustedError(
                    f"The script has {len(self.turns)} turns, and this is request {number + 1}. "
                    f"The conversation ends with: {messages[-1] if messages else None!r:.200}"
                )
            return self._played(self.turns[number], request)

        return from_async_iterable(begin)

    async def _played(self, steps: Sequence[Step], request: ScriptedRequest) -> AsyncIterator[ChatResponse]:
        try:
            async with aclosing(_play(steps, request, asyncio.get_running_loop().time())) as answer:
                async for chunk in answer:
                    yield chunk
        except (asyncio.CancelledError, GeneratorExit):
            self.closed.append(request)
            raise


def _steps(turn: Turn) -> tuple[Step, ...]:
    # a dict is iterable, but its keys are no steps
    several = isinstance(turn, Iterable) and not isinstance(turn, (str, dict))
    steps = tuple(cast("Iterable[Step]", turn)) if several else (cast("Step", turn),)
    known = (str, ChatResponse, Delay, _Until, Hang, Exception, asyncio.Event, *get_args(ChunkBlock))
    for step in steps:
        made = callable(step) and not isinstance(step, type)
        if not made and not isinstance(step, known):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigurationError(
                f"{step!r:.80} is not a step of a script. Use a str, a block, a ChatResponse, Delay, HANG, an error, "
                "an asyncio.Event or a function of the request."
            )
    return steps


def _marbles(diagram: str, values: Mapping[str, Turn], frame: float) -> list[Marble]:
    marbles = marbles_of(diagram, frame)
    if not diagram.strip():
        raise ConfigurationError("A marble diagram must not be empty. A turn that never answers is '-'.")
    check_elements(diagram, marbles, set(values))
    return marbles


def _marble_turn(
    diagram: str, marbles: Sequence[Marble], values: Mapping[str, Turn], error: Exception | None
) -> list[Step]:
    steps: list[Step] = []
    for marble in marbles:
        steps.append(_Until(marble.at))
        if marble.kind == "next":
            steps += _steps(values.get(marble.element, marble.element))
        elif marble.kind == "error":
            steps.append(error or ModelConnectionError(f"The marble diagram {diagram!r} ends with an error."))
    if not marbles or marbles[-1].kind == "next":
        steps.append(HANG)
    return steps


async def _play(steps: Sequence[Step], request: ScriptedRequest, began: float) -> AsyncGenerator[ChatResponse]:
    for step in steps:
        if isinstance(step, str):
            yield ChatResponse((TextBlock(step),))
        elif isinstance(step, ChatResponse):
            yield step
        elif isinstance(step, Delay):
            await asyncio.sleep(step.seconds)
        elif isinstance(step, _Until):
            await asyncio.sleep(began + step.seconds - asyncio.get_running_loop().time())
        elif isinstance(step, Hang):
            await asyncio.get_running_loop().create_future()
        elif isinstance(step, Exception):
            raise step
        elif isinstance(step, asyncio.Event):
            await step.wait()
        elif callable(step):
            made = step(request)
            several = _steps(cast("Turn", await made if isawaitable(made) else made))
            async with aclosing(_play(several, request, began)) as answer:
                async for chunk in answer:
                    yield chunk
        else:
            yield ChatResponse((step,))
