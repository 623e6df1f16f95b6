"""Embeddings: batches in order, what goes over the wire as the vendors' SDKs put it, errors, a real model, a cache."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentscope_rx import ExecutionConfig
from agentscope_rx.errors import (
    AuthenticationError,
    ConfigurationError,
    InvalidInputError,
    MissingExtraError,
    ModelTimeoutError,
    ProtocolError,
    RateLimitError,
    ServerError,
)
from agentscope_rx.messages import Base64Source, FileSource, FramesSource, ImageBlock, TextBlock, URLSource, VideoBlock
from agentscope_rx.models.embedding import (
    CachedEmbeddingModel,
    DashScopeEmbeddingModel,
    EmbeddingInput,
    EmbeddingModel,
    Embeddings,
    OpenAIEmbeddingModel,
    StaticEmbeddingModel,
    cosine,
)
from agentscope_rx.reactive import Flow, concat_map, just, never, throw, timer
from agentscope_rx.testing import run_virtual, verify
from tests.support.json_server import JsonServer

ONCE = ExecutionConfig(max_attempts=1)
FIRST = ExecutionConfig(first_chunk_timeout=5, max_attempts=1)


class Numbers(EmbeddingModel):
    """The vector of "7" is (7.0,); it takes 7 seconds. Counts what it is asked."""

    def __init__(self, **options: Any) -> None:
        super().__init__("numbers", **options)
        self.batches: list[tuple[EmbeddingInput, ...]] = []
        self.now = self.most = self.left = 0

    def do_embed(self, batch: Sequence[EmbeddingInput]) -> Flow[Embeddings]:
        self.batches.append(tuple(batch))
        self.now += 1
        self.most = max(self.most, self.now)

        def done(_: int) -> Embeddings:
            self.now -= 1
            return Embeddings(tuple((float(str(each)),) for each in batch), len(batch))

        return timer(max(float(str(each)) for each in batch)).pipe(concat_map(done))


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(0, 50), max_size=30), st.integers(1, 8), st.integers(1, 5))
def test_order_batches_and_concurrency(numbers: list[int], size: int, most: int) -> None:
    """One vector for each input in its place, whatever comes back first; no request too large, never too many."""
    model = Numbers(batch_size=size, max_concurrency=most)

    async def main() -> Embeddings:
        return await model.embed([str(n) for n in numbers])

    found = run_virtual(main())
    assert found == Embeddings(tuple((float(n),) for n in numbers), len(numbers))
    assert all(len(batch) <= size for batch in model.batches)
    assert len(model.batches) == -(-len(numbers) // size)
    assert model.most <= most


def test_one_text() -> None:
    model = Numbers()
    verify(model.embed("0")).expect_next(Embeddings(((0.0,),), 1)).expect_completed().run()
    verify(model.embed(TextBlock("x"))).expect_error(ValueError).run()


@pytest.mark.parametrize("given", ["", ["a", " \n"], [TextBlock("")], [3]])
def test_input_that_cannot_be_embedded_is_refused_unsent(given: Any) -> None:
    model = Numbers()
    verify(model.embed(given)).expect_error(InvalidInputError, match="Input [01]").run()
    assert model.batches == []


class Failing(EmbeddingModel):
    """Fails so many times, then gives a vector."""

    def __init__(self, *errors: Exception, **options: Any) -> None:
        super().__init__("failing", **options)
        self.errors = list(errors)

    def do_embed(self, batch: Sequence[EmbeddingInput]) -> Flow[Embeddings]:
        return throw(self.errors.pop(0)) if self.errors else just(Embeddings(((1.0,),) * len(batch)))


def test_retries_by_the_same_policy_as_chat_models() -> None:
    async def main() -> float:
        model = Failing(RateLimitError("slow", status=429, retry_after=40.0), ServerError("no", status=500))
        assert (await model.embed("a")).vectors == ((1.0,),)
        return asyncio.get_running_loop().time()

    assert run_virtual(main()) > 40
    verify(Failing(AuthenticationError("no", status=401)).embed("a")).expect_error(AuthenticationError).run()
    last = Failing(*[ServerError("no", status=500)] * 3, execution_config=ExecutionConfig(initial_backoff=0))
    verify(last.embed("a")).expect_error(ServerError).run()


class Silent(EmbeddingModel):
    def do_embed(self, batch: Sequence[EmbeddingInput]) -> Flow[Embeddings]:
        return never()


@pytest.mark.parametrize(
    "config", [ExecutionConfig(timeout=5, max_attempts=1), ExecutionConfig(total_timeout=5), FIRST]
)
def test_deadlines(config: ExecutionConfig) -> None:
    async def main() -> None:
        with pytest.raises(ModelTimeoutError, match="silent"):
            await Silent("silent", execution_config=config).embed("a")

    run_virtual(main())


def test_disposal_leaves_nothing_running() -> None:
    async def main() -> None:
        task = Silent("silent").embed(["a", "b"]).as_task()
        await asyncio.sleep(1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    run_virtual(main())


def test_too_few_vectors() -> None:
    class Short(EmbeddingModel):
        def do_embed(self, batch: Sequence[EmbeddingInput]) -> Flow[Embeddings]:
            return just(Embeddings(((1.0,),)))

    verify(Short("short").embed(["a", "b"])).expect_error(ProtocolError, match="2 inputs").run()


def openai_answer(path: str, body: Any) -> Any:
    # in an order of its own
    data = [{"index": n, "embedding": [float(len(text)), n]} for n, text in enumerate(body["input"])]
    return {"object": "list", "data": data[::-1], "model": body["model"], "usage": {"total_tokens": 7}}


def test_openai() -> None:
    with JsonServer(openai_answer) as server:
        model = OpenAIEmbeddingModel("m", base_url=f"{server.url}/v1", api_key="k", dimensions=2, batch_size=2)
        found = model.embed(["a", TextBlock("bb"), "ccc"]).run()
    assert found == Embeddings(((1.0, 0.0), (2.0, 1.0), (3.0, 0.0)), 14)
    assert [each.path for each in server.asked] == ["/v1/embeddings"] * 2
    assert server.asked[0].headers["authorization"] == "Bearer k"


def test_openai_puts_on_the_wire_what_the_sdk_does() -> None:
    sdk = pytest.importorskip("openai")
    with JsonServer(openai_answer) as server:
        OpenAIEmbeddingModel("m", base_url=server.url, api_key="k", dimensions=2).embed(["a", "你好"]).run()
        client = sdk.OpenAI(base_url=server.url, api_key="k", max_retries=0)
        client.embeddings.create(model="m", input=["a", "你好"], dimensions=2, encoding_format="float")
        client.close()
    ours, theirs = server.asked
    assert (ours.path, ours.body) == (theirs.path, theirs.body)


def dashscope_answer(path: str, body: Any) -> Any:
    given = body["input"].get("texts") or body["input"]["contents"]
    index = "text_index" if "texts" in body["input"] else "index"
    found = [{index: n, "embedding": [float(n), 1]} for n, _ in enumerate(given)]
    return {"output": {"embeddings": found[::-1]}, "usage": {"total_tokens": 5}, "request_id": "r"}


def test_dashscope_puts_on_the_wire_what_the_sdk_does(monkeypatch: pytest.MonkeyPatch) -> None:
    sdk = pytest.importorskip("dashscope")
    with JsonServer(dashscope_answer) as server:
        base = f"{server.url}/api/v1"
        monkeypatch.setattr(sdk, "base_http_api_url", base)
        query = DashScopeEmbeddingModel(base_url=base, api_key="k", dimensions=256, text_type="query")
        assert query.embed(["a", "你好"]).run() == Embeddings(((0.0, 1.0), (1.0, 1.0)), 5)
        sdk.TextEmbedding.call("text-embedding-v4", ["a", "你好"], api_key="k", dimension=256, text_type="query")
        name = "multimodal-embedding-v1"
        seeing = DashScopeEmbeddingModel(name, base_url=base, api_key="k", batch_size=3)
        contents = ["a", ImageBlock(URLSource("http://x/a.png")), VideoBlock(URLSource("http://x/b.mp4"))]
        assert len(seeing.embed(contents).run().vectors) == 3
        plain = [{"text": "a"}, {"image": "http://x/a.png"}, {"video": "http://x/b.mp4"}]
        sdk.MultiModalEmbedding.call(name, plain, api_key="k")
    for ours, theirs in (server.asked[:2], server.asked[2:]):
        assert (ours.path, ours.body) == (theirs.path, theirs.body)
        assert ours.headers["authorization"] == theirs.headers["authorization"]


def test_dashscope_sizes_of_batches_and_what_it_refuses(tmp_path: Path) -> None:
    def made(name: str, **options: Any) -> DashScopeEmbeddingModel:
        return DashScopeEmbeddingModel(name, api_key="k", **options)

    assert [made(f"text-embedding-v{n}").batch_size for n in (1, 2, 3, 4)] == [25, 25, 10, 10]
    assert made("qwen2.5-vl-embedding").kind == "multimodal"
    picture = ImageBlock(URLSource("http://x/a.png"))
    verify(made("text-embedding-v4").embed(picture)).expect_error(InvalidInputError, match="text only").run()
    frames = VideoBlock(FramesSource((URLSource("http://x/1.png"),)))
    verify(made("multimodal-embedding-v1").embed(frames)).expect_error(InvalidInputError, match="frames").run()
    with pytest.raises(ConfigurationError, match="text_type"):
        made("multimodal-embedding-v1", text_type="query")
    (tmp_path / "a.png").write_bytes(b"png")
    with JsonServer(dashscope_answer) as server:
        model = made("multimodal-embedding-v1", base_url=server.url)
        model.embed([ImageBlock(FileSource(tmp_path / "a.png")), ImageBlock(Base64Source("image/png", "AA=="))]).run()
    sent = [each.body["input"]["contents"] for each in server.asked]
    assert sorted(sent, key=str) == [
        [{"image": "data:image/png;base64,AA=="}],
        [{"image": "data:image/png;base64,cG5n"}],
    ]


WRONG: dict[str, tuple[Any, type[Exception]]] = {
    "no list": ({"data": {}}, ProtocolError),
    "no object": ([], ProtocolError),
    "nothing": ({}, ProtocolError),
    "words for numbers": ({"data": [{"embedding": ["a"]}]}, ProtocolError),
    "an empty vector": ({"data": [{"embedding": []}]}, ProtocolError),
    "no finite number": ({"data": [{"embedding": [10**400]}]}, ProtocolError),
    "NaN": (b'{"data": [{"embedding": [NaN]}]}', ProtocolError),
    "one place twice": ({"data": [{"embedding": [1], "index": 0}, {"embedding": [2], "index": 0}]}, ProtocolError),
    "401": ((401, {"error": {"message": "no key"}}), AuthenticationError),
    "500": ((500, {}), ServerError),
    "not JSON": (b"<html>", ProtocolError),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_answers_are_typed_errors(name: str) -> None:
    answer, kind = WRONG[name]
    with JsonServer(lambda path, body: answer) as server:
        model = OpenAIEmbeddingModel("m", base_url=server.url, execution_config=ONCE)
        with pytest.raises(kind) as caught:
            model.embed("a").run()
    assert caught.value.model == "m"  # pyright: ignore[reportAttributeAccessIssue]


def test_keys() -> None:
    with pytest.raises(ConfigurationError, match="OPENAI_API_KEY"):
        OpenAIEmbeddingModel(api_key="")
    with pytest.raises(ConfigurationError, match="batch_size"):
        OpenAIEmbeddingModel(api_key="k", batch_size=0)


def test_a_real_model() -> None:
    """WordLlama's vectors know which texts are about the same."""
    pytest.importorskip("wordllama")
    model = StaticEmbeddingModel()
    cat, feline, market = (
        model.embed(["The cat sat down.", "A kitten was sleeping.", "Stocks fell sharply."]).run().vectors
    )
    assert len(cat) == 256
    assert cosine(cat, cat) == pytest.approx(1)
    assert cosine(cat, feline) > cosine(cat, market) + 0.1
    assert len(StaticEmbeddingModel(64).embed("cat").run().vectors[0]) == 64
    with pytest.raises(ConfigurationError, match="64, 128 or 256"):
        StaticEmbeddingModel(100)  # pyright: ignore[reportArgumentType]
    verify(model.embed(ImageBlock(URLSource("http://x/a.png")))).expect_error(
        InvalidInputError, match="text only"
    ).run()


def test_the_real_model_where_it_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    from agentscope_rx.models.embedding import static

    monkeypatch.setattr(static, "_loaded", {})
    monkeypatch.setitem(__import__("sys").modules, "wordllama", None)
    verify(StaticEmbeddingModel().embed("a")).expect_error(MissingExtraError, match=r"\[embeddings\]").run()


def test_cache() -> None:
    inner = Numbers(batch_size=10)
    model = CachedEmbeddingModel(inner, max_entries=3)

    async def main() -> None:
        assert await model.embed(["1", "2", "1"]) == Embeddings(((1.0,), (2.0,), (1.0,)), 2)
        assert await model.embed([TextBlock("2"), "3"]) == Embeddings(((2.0,), (3.0,)), 1)
        assert await model.embed("2") == Embeddings(((2.0,),), 0)
        # 2 was used last, 1 is the oldest
        await model.embed(["4"])
        await model.embed(["1", "2"])

    run_virtual(main())
    assert inner.batches == [("1", "2"), ("3",), ("4",), ("1",)]
    assert len(model) == 3
    failing = CachedEmbeddingModel(Failing(AuthenticationError("no", status=401)))
    verify(failing.embed("a")).expect_error(AuthenticationError).run()
    assert failing.embed("a").run() == Embeddings(((1.0,),))


def test_cosine() -> None:
    assert cosine((1.0, 0.0), (0.0, 2.0)) == 0
    assert cosine((0.0,), (1.0,)) == 0
    with pytest.raises(InvalidInputError, match="dimensions"):
        cosine((1.0,), (1.0, 2.0))
