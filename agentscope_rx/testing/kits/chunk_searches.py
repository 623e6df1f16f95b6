"""The rules of `check_chunk_store` for searches: nearest, matching, and conditions for both."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from math import sqrt
from random import Random
from typing import cast

from agentscope_rx.errors import InvalidInputError
from agentscope_rx.knowledge import Between, Chunk, ChunkStore, EmbeddedChunk, Excluding, Found, Prefix, Where
from agentscope_rx.knowledge.where import matches
from agentscope_rx.reactive import from_iterable
from agentscope_rx.testing.kits.chunk_parts import Stores, chunks_of, document, put
from agentscope_rx.testing.kits.rules import equal, raises, require
from agentscope_rx.testing.record import DroppedErrors

CLOSE = 1e-3
"""Similarities that differ by less may be in any order: databases count with few digits."""

CONDITIONS: tuple[Where, ...] = (
    {},
    {"language": "en"},
    {"language": ["en", "zh"], "year": Between(2020, 2022)},
    {"year": 2021},
    {"year": Between(most=2020.5)},
    {"year": Between("2020")},
    {"flag": True},
    {"flag": 1},
    {"flag": Excluding([True])},
    {"language": Excluding(["en", "de"])},
    {"language": []},
    {"language": Between("e", "f")},
    {"language": Between()},
    {"flag": Between()},
    {"missing": "x"},
    {"missing": Excluding(["x"])},
    {"document_id": Prefix("docs/1")},
    {"document_id": "docs/3.md"},
    {"document_id": ["docs/3.md", "docs/4.md", "none"]},
    {"title": Prefix("Title %")},
    {"media_type": "text/markdown"},
    {"page": 2},
    {"page": Between(2, None)},
    {"page": Between()},
    {"page": Excluding([1])},
    {"section": ["code", "table"], "language": "en"},
    {"section": Excluding(["text"])},
    {"odd 'name\"": "it's"},
)
HOSTILE = (
    '"', "'", "alpha AND", "OR", "NOT", "NEAR(", "text:*", "-x", "^", "(((", "%_", "\x00", "*", "a" * 5000, "喝", "?",
    "\ud83d", "alpha\x00beta", "{}", "\\", "a:b", "&|!", "<->", "'; DROP TABLE", "w" * 200_000, "why " * 5000,
)  # fmt: skip


async def _collection(stores: Stores, count: int = 12) -> tuple[ChunkStore, list[EmbeddedChunk]]:
    """Documents with metadata and random vectors; some vectors are equal, and some zero."""
    store, random = await stores.opened(), Random(7)  # noqa: S311 (a test, which repeats)
    every: list[EmbeddedChunk] = []
    for number in range(count):
        metadata: dict[str, str | int | float | bool] = {"year": 2019 + number % 5}
        if number % 3:
            metadata["language"] = ("en", "zh")[number % 2]
        if number % 4 < 2:
            metadata["flag"] = number % 4 == 0
        if number == 5:
            metadata["odd 'name\""] = "it's"
        one = document(
            f"docs/{number}.md",
            title=f"Title {'%' if number % 2 else '_'} {number}",
            media_type="text/markdown" if number % 3 else "text/html",
            metadata=metadata,
        )
        chunks: list[EmbeddedChunk] = []
        for place in range(number % 4 + 1):
            vector = tuple(random.gauss(0, 1) for _ in range(4))
            vector = (0.0,) * 4 if number == place == 2 else (3.0, 4.0, 0.0, 0.0) if number % 5 == 1 else vector
            chunk = Chunk(
                document=one,
                number=place,
                text=f"alpha word{number} part{place}",
                start=place,
                end=place + 1,
                page=None if number % 4 == 3 else place + 1,
                kind=("text", "code", "table")[(number + place) % 3],
            )
            chunks.append(EmbeddedChunk(chunk, vector))
        await store.put(one, from_iterable([chunks]))
        every += chunks
    return store, every


def _cosine(one: Sequence[float], other: Sequence[float]) -> float:
    lengths = sqrt(sum(x * x for x in one)) * sqrt(sum(x * x for x in other))
    return sum(x * y for x, y in zip(one, other, strict=True)) / lengths if lengths else 0.0


def _same_order(found: Sequence[Found], every: Sequence[EmbeddedChunk], vector: Sequence[float], limit: int) -> None:
    """Fail unless these are the nearest ones, up to the last digits of the similarities."""
    cosines = {(each.chunk.document.id, each.chunk.number): _cosine(each.vector, vector) for each in every}
    expected = sorted(cosines, key=lambda key: (-round(cosines[key], 6), key))[:limit]
    keys = [(each.chunk.document.id, each.chunk.number) for each in found]
    equal(len(set(keys)), len(expected), "the number of chunks")
    require(set(keys) <= set(cosines), f"nearest found chunks that do not fit: {set(keys) - set(cosines)}")
    for place, (key, wanted, one) in enumerate(zip(keys, expected, found, strict=True)):
        near = abs((one.similarity or 0.0) - cosines[key]) < CLOSE and abs(cosines[key] - cosines[wanted]) < CLOSE
        require(near, f"place {place} is {key} with {one.similarity}; it should be {wanted} with {cosines[wanted]}")
        tied = abs(cosines[key] - cosines[wanted]) < 1e-9
        require(not tied or key == wanted, f"place {place} is {key}; of equal similarity {wanted} comes first")


async def _nearest(stores: Stores, dropped: DroppedErrors) -> None:
    store, every = await _collection(stores)
    random = Random(11)  # noqa: S311
    for _ in range(10):
        vector = [random.gauss(0, 1) for _ in range(4)]
        _same_order(await store.nearest(vector, 7), every, vector, 7)
    for vector in ([3.0, 4.0, 0.0, 0.0], [-300.0, -400.0, 0.0, 0.0], [0.0, 0.0, 1e-3, 0.0]):
        _same_order(await store.nearest(vector, 9), every, vector, 9)
    best = (await store.nearest([3.0, 4.0, 0.0, 0.0], 1))[0]
    require(best.relevance is None, "nearest gave a relevance, which was not asked for")


async def _ties(stores: Stores, dropped: DroppedErrors) -> None:
    store = await stores.opened()
    for id in ("b", "ä", "a", "B", "é"):
        await put(store, document(id), [])
        one = document(id)
        chunks = [EmbeddedChunk(chunk, (1.0, 2.0, 3.0, 4.0)) for chunk in chunks_of(one, "xyz")]
        await store.put(one, from_iterable([chunks[::-1]]))
    expected = [(id, number) for id in sorted(("b", "ä", "a", "B", "é")) for number in range(3)]
    for vector in ([1.0, 2.0, 3.0, 4.0], [4.0, 0.0, 0.0, 0.0]):
        for limit in (1, 4, 15):
            found = await store.nearest(vector, limit)
            keys = [(each.chunk.document.id, each.chunk.number) for each in found]
            equal(keys, expected[:limit], "chunks of equal similarity, by id and number")


async def _conditions(stores: Stores, dropped: DroppedErrors) -> None:
    store, every = await _collection(stores)
    for where in CONDITIONS:
        fitting = [each for each in every if matches(each.chunk, where)]
        vector = [0.5, -1.0, 2.0, 0.1]
        try:
            _same_order(await store.nearest(vector, 50, where), fitting, vector, 50)
        except AssertionError as failure:
            raise AssertionError(f"nearest where {where}: {failure}") from None
        found = await store.matching("alpha", 50, where)
        keys = {(each.chunk.document.id, each.chunk.number) for each in found}
        expected = {(each.chunk.document.id, each.chunk.number) for each in fitting}
        equal(keys, expected, f"what matching finds where {where}")
    for where in ("text", {"year": None}, {7: "x"}, {"year": {"least": 1}}):
        given = cast("Where", where)
        await raises(store.nearest([1, 0, 0, 0], 5, given), InvalidInputError, f"nearest where {where!r}")
        await raises(store.matching("alpha", 5, given), InvalidInputError, f"matching where {where!r}")


async def _limits(stores: Stores, dropped: DroppedErrors) -> None:
    store = await stores.opened()
    equal(await store.nearest([1, 0, 0, 0], 5), (), "what nearest finds in an empty store")
    equal(await store.matching("alpha", 5), (), "what matching finds in an empty store")
    await put(store, document("a.md"), ["alpha one", "alpha two", "alpha three"])
    for limit in (1, 2, 3, 50, 100_000):
        equal(len(await store.nearest([1, 0, 0, 0], limit)), min(limit, 3), f"the chunks nearest with limit {limit}")
        equal(len(await store.matching("alpha", limit)), min(limit, 3), f"the chunks matching with limit {limit}")
    for limit in (0, -1, True, 2.5, "5"):
        given = cast("int", limit)
        await raises(store.nearest([1, 0, 0, 0], given), InvalidInputError, f"nearest with limit {limit!r}")
        await raises(store.matching("alpha", given), InvalidInputError, f"matching with limit {limit!r}")
    for vector in ([1.0], [1.0] * 5, [], [float("nan"), 0, 0, 0], [float("inf"), 0, 0, 0]):
        await raises(store.nearest(vector, 5), InvalidInputError, f"nearest to {vector}")
        await raises(store.matching("alpha", 5, vector=vector), InvalidInputError, f"matching beside {vector}")


async def _zero(stores: Stores, dropped: DroppedErrors) -> None:
    store = await stores.opened()
    one = document("a.md")
    chunks = chunks_of(one, ["zero", "minus", "plus"])
    # (the squares of these numbers are no floats)
    vectors = ((0.0,) * 4, (-1e200, 0.0, 0.0, 0.0), (1e-200, 0.0, 0.0, 0.0))
    await store.put(one, from_iterable([[EmbeddedChunk(*each) for each in zip(chunks, vectors, strict=True)]]))
    for length in (1.0, 1e250, 1e-250):
        found = await store.nearest([length, 0, 0, 0], 3)
        texts = [(each.chunk.text, round(each.similarity or 0.0, 3)) for each in found]
        equal(texts, [("plus", 1.0), ("zero", 0.0), ("minus", -1.0)], f"the similarities to a vector of {length}")
    found = await store.nearest([0, 0, 0, 0], 3)
    equal([each.similarity for each in found], [0.0] * 3, "the similarities to a vector of zeros")


async def _matching(stores: Stores, dropped: DroppedErrors) -> None:
    store = await stores.opened()
    one = document("tea.md", title="Quandrel", metadata={"language": "en"})
    texts = [
        "Zorbella leaves are green.",
        "Vexholm, vexholm! The harbour of Vexholm.",
        "A harbour, by the sea, of boats.",
    ]
    chunks = [
        Chunk(document=one, number=n, text=text, start=n, end=n + 1, headings=("Mirsk", "Loam")[: n + 1])
        for n, text in enumerate(texts)
    ]
    await store.put(one, from_iterable([[EmbeddedChunk(each, (1.0, 0.0, 0.0, float(each.number))) for each in chunks]]))
    await put(store, document("zh.md"), ["我每天早上喝咖啡。", "渡轮的票价是四欧元。", "今天天气很好。"])
    for query, first in (
        ("zorbella", texts[0]),
        ("VEXHOLM harbour?", texts[1]),
        ("what is a loam", texts[1]),
        ("咖啡", "我每天早上喝咖啡。"),
        ("票价多少", "渡轮的票价是四欧元。"),
    ):
        found = await store.matching(query, 5)
        require(found and found[0].chunk.text == first, f"{query!r} found {[each.chunk.text for each in found]}")
    titled = await store.matching("quandrel", 5)
    equal({each.chunk.text for each in titled}, set(texts), "what the title of the document finds")
    equal(await store.matching("unrelatedword", 5), (), "what an unknown word finds")


async def _scores(stores: Stores, dropped: DroppedErrors) -> None:
    store, every = await _collection(stores)
    vector = [0.5, -1.0, 2.0, 0.1]
    cosines = {(each.chunk.document.id, each.chunk.number): _cosine(each.vector, vector) for each in every}
    plain = await store.matching("word7 alpha", 50)
    require(all(each.similarity is None for each in plain), "matching gave a similarity without a vector")
    require(plain[0].chunk.document.id == "docs/7.md", f"the rarer word counts more, and {plain[0].chunk} is first")
    relevances = [-1.0 if each.relevance is None else each.relevance for each in plain]
    require(min(relevances) >= 0 and relevances == sorted(relevances, reverse=True), f"the relevances are {relevances}")
    beside = await store.matching("word7 alpha", 50, None, vector)
    equal([each.chunk for each in beside], [each.chunk for each in plain], "what matching finds beside a vector")
    for each in beside:
        wanted = cosines[each.chunk.document.id, each.chunk.number]
        seen = each.similarity
        require(seen is not None and abs(seen - wanted) < CLOSE, f"a similarity is {seen}, not {wanted}")


async def _hostile(stores: Stores, dropped: DroppedErrors) -> None:
    store, _ = await _collection(stores, 3)
    for query in HOSTILE:
        await store.matching(query, 5)
    for query in ("", "  \n", "?!"):
        equal(await store.matching(query, 5), (), f"what {query!r} finds")
    require(await store.matching("alpha", 5), "after odd queries nothing is found")
    await raises(store.matching(cast("str", 7), 5), InvalidInputError, "matching of a number")


SEARCH_LAWS: tuple[tuple[str, str, Callable[[Stores, DroppedErrors], Coroutine[object, object, None]]], ...] = (
    ("nearest", "nearest finds what a comparison with every vector finds", _nearest),
    ("ties", "chunks of equal similarity come by document id and number", _ties),
    ("conditions", "where limits nearest and matching to what fulfils it", _conditions),
    ("limits", "a search gives as many as there are, and never more than the limit", _limits),
    ("zero vectors", "a vector of zeros has similarity 0 to everything; the length of others does not count", _zero),
    ("matching", "words are found in texts, titles and headings, in scripts without spaces, too", _matching),
    ("scores", "matching gives relevances, the best first, and similarities if a vector is given", _scores),
    ("hostile queries", "any text can be searched for", _hostile),
)
