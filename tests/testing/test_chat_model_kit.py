"""`check_chat_model`: the scripted model and a model over HTTP keep the laws, and each kind of fault is found."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from agentscope_rx.errors import ModelConnectionError, UnsupportedOptionError
from agentscope_rx.messages import ChatUsage, Msg, TextBlock
from agentscope_rx.models import ChatModel, ChatResponse, ExecutionConfig, FinishReason, OpenAIChatModel, ToolUseDelta
from agentscope_rx.reactive import Flow, defer, from_async_iterable, just
from agentscope_rx.testing import HANG, Delay, ScriptedModel, call, check_chat_model
from tests.models.conftest import Loopback, Reply, loopback
from tests.testing.faults import broken

DONE = ChatResponse(usage=ChatUsage(3, 2), finish_reason=FinishReason.STOP)
ANSWER = ["It is ", Delay(1), "sunny", Delay(1), " in ", Delay(1), "Paris.", DONE]


def answering() -> ScriptedModel:
    return ScriptedModel(ANSWER, repeat=True)


def failing() -> ScriptedModel:
    return ScriptedModel(["It is", ModelConnectionError("lost")], repeat=True)


def calling() -> ScriptedModel:
    return ScriptedModel(lambda request: call("look", city="Paris"), repeat=True)


def test_the_scripted_model_keeps_the_laws():
    hung: list[ScriptedModel] = []

    def hanging() -> ScriptedModel:
        hung.append(ScriptedModel(["It", HANG], repeat=True))
        return hung[-1]

    report = check_chat_model(
        answering, failing=failing, calling=calling, hanging=hanging, closed=lambda: len(hung[-1].closed) == 1
    )
    assert dict(report.skipped).keys() == {"requests"}
    one = answering()
    report = check_chat_model(lambda: one, requests=lambda: len(one.requests), name="one model for all")
    assert {"requests", "stream 1.11", "stream loops, second"} <= set(report.checked)


# --- over HTTP --------------------------------------------------------------------------------------------------------


def piece(finish: str | None = None, **delta: object) -> dict[str, object]:
    return {"id": "c1", "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}


async def talk(reply: Reply) -> None:
    """Answers by the last message and the tools: an error, a call, a silence, or three pieces of text."""
    last = str(reply.asked.body["messages"][-1])  # type: ignore[index]
    if "fail" in reply.asked.target:
        reply.json(500, {"error": {"message": "broken"}})
        return
    reply.start()
    if "hang" in reply.asked.target:
        reply.send(piece(content="One moment"))
        await reply.until_client_leaves()
        return
    if "call" in reply.asked.target:
        number = len(reply.server.asked)
        function = {"name": "look", "arguments": '{"city": '}
        reply.send(piece(tool_calls=[{"index": 0, "id": f"c{number}", "type": "function", "function": function}]))
        reply.send(piece("tool_calls", tool_calls=[{"index": 0, "function": {"arguments": '"Paris"}'}}]))
    else:
        reply.send(piece(content="It is "), piece(content="sunny "), piece("stop", content="today."))
    reply.send({"choices": [], "usage": {"prompt_tokens": len(last), "completion_tokens": 7}}, "[DONE]")
    reply.end()


@pytest.fixture(scope="module")
def server() -> Iterator[Loopback]:
    with loopback(talk) as server:
        yield server


@pytest.mark.parametrize("real_time", [False, True], ids=["virtual", "real"])
def test_a_model_over_http_keeps_the_laws(server: Loopback, real_time: bool):
    server.left.clear()
    config = ExecutionConfig(max_attempts=1)

    def at(path: str) -> Callable[[], ChatModel]:
        url = server.url.replace("/v1", path)
        return lambda: OpenAIChatModel("gpt-4o", api_key="k", base_url=url, execution_config=config)

    report = check_chat_model(
        at("/v1"),
        failing=at("/fail/v1"),
        calling=at("/call/v1"),
        hanging=at("/hang/v1"),
        closed=lambda: server.left.wait(10),
        requests=lambda: len(server.asked),
        unsupported=["top_k", "thinking_budget"],
        # the pieces of one read of the socket come together
        ahead=None,
        name="OpenAIChatModel",
        real_time=real_time,
    )
    assert set(dict(report.skipped)) == {"stream 1.01", "stream 3.08"}
    assert set(report.checked) >= FULL


# --- faults -----------------------------------------------------------------------------------------------------------


class Faulty(ChatModel):
    """Emits these chunks, a second apart."""

    chunks: tuple[Any, ...] = (ChatResponse((TextBlock("a"),)), ChatResponse((TextBlock("b"),)))
    asked = 0

    def __init__(self) -> None:
        super().__init__("faulty")

    def do_stream(self, messages: Any, tools: Any, options: Any) -> Flow[ChatResponse]:
        def begin() -> Any:
            self.look_at(messages, tools, options)
            type(self).asked += 1
            return self.answer()

        return from_async_iterable(begin)

    def look_at(self, messages: Any, tools: Any, options: Any) -> None:
        if options.tool_choice is not None:
            options.tool_choice.check(tools)

    async def answer(self) -> Any:
        for chunk in self.chunks:
            await asyncio.sleep(1)
            yield chunk


def text(*pieces: str) -> tuple[ChatResponse, ...]:
    return tuple(ChatResponse((TextBlock(piece),)) for piece in pieces)


class Cumulative(Faulty):
    chunks = text("It", "It is", "It is sunny")


class NoContent(Faulty):
    chunks = (ChatResponse(),)


class TwoEnds(Faulty):
    chunks = (DONE, *text("a"), DONE)


class PlainText(Faulty):
    chunks = ("It is sunny",)


class UsageOfEachChunk(Faulty):
    chunks = (ChatResponse((TextBlock("a"),), usage=ChatUsage(10, 5)), ChatResponse(usage=ChatUsage(0, 2)))


class SameIds(Faulty):
    chunks = (ChatResponse((ToolUseDelta(0, "0", "look", '{"city": "Paris"}'),)),)


class HalfArguments(Faulty):
    chunks = (ChatResponse((ToolUseDelta(0, "c1", "look", '{"city": "Pa'),)),)


class NativeReason(Faulty):
    chunks = (*text("a"), ChatResponse(finish_reason="STOP"))  # type: ignore[arg-type]


class MoreCachedThanSent(Faulty):
    chunks = (*text("a"), ChatResponse(usage=ChatUsage(10, 5, cached_tokens=11)))


class MoreThoughtThanSaid(Faulty):
    chunks = (*text("a"), ChatResponse(usage=ChatUsage(10, 5, reasoning_tokens=6)))


class AddsToTheTools(Faulty):
    def look_at(self, messages: Any, tools: Any, options: Any) -> None:
        super().look_at(messages, tools, options)
        if isinstance(tools, list):
            tools.pop()


class AddsToTheList(Faulty):
    def look_at(self, messages: Any, tools: Any, options: Any) -> None:
        super().look_at(messages, tools, options)
        if isinstance(messages, list):
            messages.insert(0, Msg.system("Answer in English."))


class RefusesByValueError(Faulty):
    def look_at(self, messages: Any, tools: Any, options: Any) -> None:
        super().look_at(messages, tools, options)
        if options.top_k is not None:
            raise ValueError("top_k is not supported")


class RefusesMore(Faulty):
    def look_at(self, messages: Any, tools: Any, options: Any) -> None:
        super().look_at(messages, tools, options)
        if options.seed is not None:
            raise UnsupportedOptionError("seed is not supported", option="seed")


class IgnoresChoice(Faulty):
    def look_at(self, messages: Any, tools: Any, options: Any) -> None:
        pass


class LooksAtTheNameOnly(Faulty):
    def look_at(self, messages: Any, tools: Any, options: Any) -> None:
        if tools:
            super().look_at(messages, tools, options)


class LooksAtToolsOnly(Faulty):
    def look_at(self, messages: Any, tools: Any, options: Any) -> None:
        if not tools:
            super().look_at(messages, tools, options)


class AsksFirst(Faulty):
    """Looks at its options when the request is made."""

    def look_at(self, messages: Any, tools: Any, options: Any) -> None:
        type(self).asked += 1
        super().look_at(messages, tools, options)
        type(self).asked -= 1


class AsksTwice(Faulty):
    async def answer(self) -> Any:
        type(self).asked += 1
        for chunk in self.chunks:
            yield chunk


class AsksOnce(Faulty):
    """Gives an answer that it has given before."""

    def do_stream(self, messages: Any, tools: Any, options: Any) -> Flow[ChatResponse]:
        first: list[bool] = []

        async def answer() -> Any:
            self.look_at(messages, tools, options)
            type(self).asked += not first
            first.append(True)
            for chunk in self.chunks:
                yield chunk

        return from_async_iterable(answer)


class AnyError(Faulty):
    async def answer(self) -> Any:
        raise ConnectionError("lost")
        yield


class Retries(Faulty):
    async def answer(self) -> Any:
        for _ in range(3):
            type(self).asked += 1
        raise ModelConnectionError("lost")
        yield


class Hot(Faulty):
    def do_stream(self, messages: Any, tools: Any, options: Any) -> Flow[ChatResponse]:
        flow = super().do_stream(messages, tools, options)
        if options.tool_choice is None:
            type(self).asked += 1
        return flow


class LeavesItOpen(Faulty):
    opened: list[bool] = []

    async def answer(self) -> Any:
        self.opened.append(True)
        yield text("a")[0]
        await asyncio.sleep(1)
        self.opened.clear()


class ReadsOn(Faulty):
    """Looks at no demand."""

    def do_stream(self, messages: Any, tools: Any, options: Any) -> Flow[ChatResponse]:
        def answer() -> Flow[ChatResponse]:
            self.look_at(messages, tools, options)
            return just(*self.chunks)

        return defer(answer)


FULL = {"increments", "usage", "calls", "unchanged", "options", "tool choice", "errors", "requests", "closed"}
FAULTS: list[tuple[type[Faulty], str, dict[str, Any]]] = [
    (Cumulative, "increments", {}),
    (NoContent, "increments", {}),
    (TwoEnds, "increments", {}),
    (PlainText, "increments", {}),
    (UsageOfEachChunk, "usage", {}),
    (NativeReason, "increments", {}),
    (MoreCachedThanSent, "usage", {}),
    (MoreThoughtThanSaid, "usage", {}),
    (SameIds, "calls", {"calling": SameIds}),
    (HalfArguments, "calls", {"calling": HalfArguments}),
    (AddsToTheList, "unchanged", {}),
    (AddsToTheTools, "unchanged", {}),
    (RefusesByValueError, "options", {"unsupported": ["top_k"]}),
    (RefusesMore, "options", {}),
    (Faulty, "options", {"unsupported": ["seed"]}),
    (IgnoresChoice, "tool choice", {}),
    (LooksAtTheNameOnly, "tool choice", {}),
    (LooksAtToolsOnly, "tool choice", {}),
    (AsksFirst, "tool choice", {"requests": lambda: AsksFirst.asked}),
    (AsksTwice, "requests", {"requests": lambda: AsksTwice.asked}),
    (AsksOnce, "requests", {"requests": lambda: AsksOnce.asked}),
    (AnyError, "errors", {"failing": AnyError}),
    (Retries, "requests", {"failing": Retries, "requests": lambda: Faulty.asked + Retries.asked}),
    (Hot, "requests", {"requests": lambda: Hot.asked}),
    (LeavesItOpen, "closed", {"hanging": LeavesItOpen, "closed": lambda: not LeavesItOpen.opened}),
    (ReadsOn, "stream 1.01", {}),
]


@pytest.mark.parametrize(("model", "rule", "given"), FAULTS, ids=lambda each: getattr(each, "__name__", ""))
def test_a_fault_of_a_model_is_found(model: type[Faulty], rule: str, given: dict[str, Any]):
    make = Faulty if rule in ("calls", "errors") or model is Retries else model
    broken(lambda: check_chat_model(make, **given), rule)


def test_a_model_without_extras_is_checked_too():
    report = check_chat_model(Faulty)
    assert set(dict(report.skipped)) == {"usage", "calls", "errors", "requests", "closed", "stream 1.04", "stream 3.03"}


def test_each_rule_has_a_fault():
    assert {rule for _, rule, _ in FAULTS} - {"stream 1.01"} == FULL


def test_a_generator_in_place_of_a_flow_is_named():
    class Generates(Faulty):
        async def do_stream(self, messages: Any, tools: Any, options: Any) -> Any:  # type: ignore[override]
            yield self.chunks[0]

    assert "no Flow; an async generator needs" in broken(lambda: check_chat_model(Generates), "increments").seen
