"""`check_chat_model`: the laws of the `ChatModel` port, of `do_stream`: one attempt."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Callable, Coroutine, Sequence
from functools import partial

from agentscope_rx.errors import ConfigurationError, ModelError, UnsupportedOptionError
from agentscope_rx.frozen_values import dataclass
from agentscope_rx.messages import Msg, TextBlock, ToolResultBlock, ToolUseBlock
from agentscope_rx.models import ChatModel, ChatResponse, FinishReason, GenerateOptions, ToolChoice, ToolSchema
from agentscope_rx.models.accumulate import ResponseAccumulator
from agentscope_rx.models.chat_model import shows
from agentscope_rx.reactive import Flow, defer
from agentscope_rx.testing.kits.probe import Probe
from agentscope_rx.testing.kits.publisher import apply_rules
from agentscope_rx.testing.kits.publisher_rules import Publisher
from agentscope_rx.testing.kits.rules import Kit, KitReport, SkippedRule, check_factory, equal, name_of, raises, require
from agentscope_rx.testing.record import DroppedErrors

Make = Callable[[], ChatModel]
TOOLS = (
    ToolSchema(
        "look",
        "The weather of a city.",
        {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    ),
    ToolSchema("stop", "Stops.", {"type": "object", "properties": {}}),
)
"""The tools that a model is offered."""

OPTIONS: dict[str, GenerateOptions] = {
    "temperature": GenerateOptions(temperature=0.5),
    "top_p": GenerateOptions(top_p=0.5),
    "top_k": GenerateOptions(top_k=5),
    "max_tokens": GenerateOptions(max_tokens=100),
    "max_completion_tokens": GenerateOptions(max_completion_tokens=100),
    "frequency_penalty": GenerateOptions(frequency_penalty=0.5),
    "presence_penalty": GenerateOptions(presence_penalty=0.5),
    "seed": GenerateOptions(seed=1),
    "stop": GenerateOptions(stop=["END"]),
    "thinking_budget": GenerateOptions(thinking_budget=2000),
    "reasoning_effort": GenerateOptions(reasoning_effort="low"),
    "parallel_tool_calls": GenerateOptions(parallel_tool_calls=False),
    "stream": GenerateOptions(stream=True),
    "tool_choice": GenerateOptions(tool_choice=ToolChoice("auto")),
}
"""One set of options for each field that a provider may lack."""


def check_chat_model(
    make: Make,
    *,
    failing: Make | None = None,
    calling: Make | None = None,
    hanging: Make | None = None,
    closed: Callable[[], object] | None = None,
    requests: Callable[[], int] | None = None,
    unsupported: Sequence[str] = (),
    ahead: int | None = 0,
    name: str | None = None,
    real_time: bool = False,
) -> KitReport:
    """Check the models that `make` returns, each of which answers with some content, at every request.

    | argument      | gives                                                                                       |
    |---------------|---------------------------------------------------------------------------------------------|
    | `failing`     | a model whose request fails                                                                 |
    | `calling`     | a model whose answer calls one of the tools `look(city)` and `stop()`                       |
    | `hanging`     | a model whose answer never ends; `closed()` is then true once its response is closed        |
    | `requests`    | the number of requests made so far                                                          |
    | `unsupported` | the names of the options that it must refuse                                                |
    | `ahead`       | the number of increments that may come after demand is withheld, as one read may give       |
    """
    for role, each in (("make", make), ("failing", failing), ("calling", calling), ("hanging", hanging)):
        if role == "make" or each is not None:
            check_factory(each, "ChatModel", "lambda: MyModel(client)", role)
    unknown = sorted(set(unsupported) - set(OPTIONS))
    if isinstance(unsupported, str) or unknown:
        raise ConfigurationError(f"unsupported takes names of options, of {[*OPTIONS]}, not {unsupported!r:.80}.")
    kit = Kit(name or name_of(make), real_time=real_time)
    make = kit.named(make)
    case = _Case(make, failing, calling, hanging, closed, requests, tuple(unsupported))
    for rule, law, check in LAWS:
        kit.check(rule, law, partial(check, case))
    broken = None if failing is None else (lambda: request(failing()))
    apply_rules(kit, Publisher(lambda: request(make()), broken, ahead), "stream ")
    return kit.report()


@dataclass(frozen=True, slots=True)
class _Case:
    make: Make
    failing: Make | None
    calling: Make | None
    hanging: Make | None
    closed: Callable[[], object] | None
    requests: Callable[[], int] | None
    unsupported: tuple[str, ...]


def request(
    model: ChatModel,
    messages: Sequence[Msg] = (Msg.user("Hello"),),
    tools: Sequence[ToolSchema] = (),
    options: GenerateOptions | None = None,
) -> Flow[ChatResponse]:
    """One attempt of the model."""
    made = model.do_stream(messages, tools, options or GenerateOptions())
    is_flow = isinstance(made, Flow)  # pyright: ignore[reportUnnecessaryIsInstance]
    require(is_flow, f"do_stream returned {made!r:.80}, no Flow; an async generator needs from_async_iterable")
    return made


async def _answer(flow: Flow[ChatResponse]) -> list[ChatResponse]:
    chunks = [chunk async for chunk in flow]
    wrong = [chunk for chunk in chunks if not isinstance(chunk, ChatResponse)]  # pyright: ignore[reportUnnecessaryIsInstance]
    require(not wrong, f"it emitted {wrong[:1]!r:.200}, no ChatResponse")
    return chunks


async def _increments(case: _Case, dropped: DroppedErrors) -> None:
    chunks = await _answer(request(case.make()))
    require(any(map(shows, chunks)), f"the answer has no content: {chunks!r:.200}")
    texts = [text for chunk in chunks if (text := _text(chunk))]
    before = ""
    for number, text in enumerate(texts):
        cumulative = number > 0 and len(text) > len(texts[number - 1]) and text.startswith(before)
        require(not cumulative, f"increment {number} is {text!r:.80}: it repeats what came before it")
        before += text
    finished = [chunk.finish_reason for chunk in chunks if chunk.finish_reason is not None]
    require(len(finished) <= 1, f"the answer has {len(finished)} finish reasons: {finished}")
    typed = all(type(reason) is FinishReason for reason in finished)
    require(typed, f"the finish reason is {finished!r}, no FinishReason")


def _text(chunk: ChatResponse) -> str:
    return "".join(block.text for block in chunk.content if isinstance(block, TextBlock))


async def _usage(case: _Case, dropped: DroppedErrors) -> None:
    usages = [chunk.usage for chunk in await _answer(request(case.make())) if chunk.usage is not None]
    if not usages:
        raise SkippedRule("the answer has no usage")
    for field in ("input_tokens", "output_tokens", "cached_tokens", "reasoning_tokens"):
        counts: list[int] = [getattr(usage, field) for usage in usages]
        require(min(counts) >= 0, f"{field} is {min(counts)}")
        require(counts == sorted(counts), f"{field} falls from one usage to the next, which replaces it: {counts}")
    last = usages[-1]
    require(last.cached_tokens <= last.input_tokens, f"more tokens are cached than were sent: {last}")
    require(last.reasoning_tokens <= last.output_tokens, f"more tokens are for thinking than came: {last}")


async def _calls(case: _Case, dropped: DroppedErrors) -> None:
    if case.calling is None:
        raise SkippedRule("no model that calls tools was given")
    seen: set[str] = set()
    for _ in range(2):
        chunks = await _answer(request(case.calling(), tools=TOOLS))
        gather = ResponseAccumulator()
        for chunk in chunks:
            gather.feed(chunk)
        calls = [block for block in gather.blocks() if isinstance(block, ToolUseBlock)]
        require(calls, f"the answer calls no tool: {chunks!r:.200}")
        for call in calls:
            require(call.id and call.id not in seen, f"the id {call.id!r} of a call was there before")
            seen.add(call.id)
            require(call.name in {tool.name for tool in TOOLS}, f"{call.name!r} was called, which is no tool")
            require(call.input_error is None, f"the arguments of {call.name} are no JSON object: {call.input_error}")


async def _unchanged(case: _Case, dropped: DroppedErrors) -> None:
    messages, tools = conversation(), list(TOOLS)
    before = copy.deepcopy([message.to_json() for message in messages])
    options = GenerateOptions(max_tokens=100)
    await _answer(request(case.make(), messages, tools, options))
    equal([message.to_json() for message in messages], before, "the list of messages after the call")
    equal(tools, list(TOOLS), "the list of tools after the call")


def conversation() -> list[Msg]:
    """A conversation with all roles, and a call with its result."""
    call = ToolUseBlock("call_1", "look", {"city": "Paris"})
    return [
        Msg.system("Be brief."),
        Msg.user("Weather in Paris?", "Ann"),
        Msg.assistant([TextBlock("I look."), call], "Friday"),
        Msg.tool(ToolResultBlock("call_1", "look", (TextBlock("sunny"),))),
        Msg.user("Thanks. And now?", "Ann"),
    ]


async def _options(case: _Case, dropped: DroppedErrors) -> None:
    for field, options in OPTIONS.items():
        try:
            await _answer(request(case.make(), tools=TOOLS, options=options))
        except UnsupportedOptionError as refused:
            require(field in case.unsupported, f"it refused {field}, which is not among `unsupported`: {refused}")
        except ConfigurationError:
            # a combination or a value that this model does not take
            require(field not in case.unsupported, f"{field} was refused by another error than UnsupportedOptionError")
        else:
            require(field not in case.unsupported, f"{field} was taken, which is among `unsupported`")


async def _choice(case: _Case, dropped: DroppedErrors) -> None:
    before = case.requests() if case.requests else 0
    missing = GenerateOptions(tool_choice=ToolChoice.specific("missing"))
    required = GenerateOptions(tool_choice=ToolChoice("required"))
    # (`stream` defers, so that do_stream itself may raise)
    await raises(
        defer(lambda: request(case.make(), tools=TOOLS, options=missing)), ConfigurationError, "a missing tool"
    )
    await raises(
        defer(lambda: request(case.make(), options=required)), ConfigurationError, "a required call of no tool"
    )
    equal(case.requests() if case.requests else 0, before, "the number of requests")


async def _errors(case: _Case, dropped: DroppedErrors) -> None:
    if case.failing is None:
        raise SkippedRule("no failing model was given")
    await raises(request(case.failing()), ModelError, "the failing request")


async def _requests(case: _Case, dropped: DroppedErrors) -> None:
    if case.requests is None:
        raise SkippedRule("the number of requests is not known")
    before = case.requests()
    flow = request(case.make())
    for _ in range(10):
        await asyncio.sleep(0)
    equal(case.requests() - before, 0, "the number of requests before a subscription")
    await _answer(flow)
    equal(case.requests() - before, 1, "the number of requests of one subscription")
    await _answer(flow)
    equal(case.requests() - before, 2, "the number of requests of two subscriptions")
    if case.failing is not None:
        before = case.requests()
        await Probe().start(request(case.failing())).end()
        require(case.requests() - before <= 1, f"a failure was tried {case.requests() - before} times by do_stream")


async def _closed(case: _Case, dropped: DroppedErrors) -> None:
    if case.hanging is None:
        raise SkippedRule("no hanging model was given")
    first = asyncio.Event()
    probe = Probe(act=lambda probe: first.set()).start(request(case.hanging()))
    await first.wait()
    probe.dispose()
    await probe.end()
    probe.verify()
    if case.closed is not None:
        loop = asyncio.get_running_loop()
        require(await loop.run_in_executor(None, case.closed), "the response is open after a disposal")


LAWS: tuple[tuple[str, str, Callable[[_Case, DroppedErrors], Coroutine[object, object, None]]], ...] = (
    ("increments", "no chunk repeats what came before it, and there is at most one finish reason", _increments),
    ("usage", "usage is a total that replaces an earlier one", _usage),
    ("calls", "a tool call has an id of its own, the name of a tool and arguments as JSON", _calls),
    ("unchanged", "it takes all roles of a conversation, and changes no list that it is given", _unchanged),
    ("options", "an option is taken, or refused with UnsupportedOptionError", _options),
    ("tool choice", "a tool_choice that cannot be met is a ConfigurationError, before any request", _choice),
    ("errors", "a failure is a ModelError", _errors),
    ("requests", "each subscription is one request; do_stream retries nothing", _requests),
    ("closed", "a disposal closes the response", _closed),
)
