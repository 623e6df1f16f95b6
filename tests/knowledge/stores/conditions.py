"""Any condition finds in a store what `where.matches` says; and any ranking is that of a comparison with each chunk."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import strategies as st

from agentscope_rx.knowledge import Between, ChunkStore, Excluding, InMemoryChunkStore, Prefix, Where
from tests.knowledge.stores.chunks import INFO, places, put

SCALARS = [
    *(True, False, 0, 1, -1, 2, 1.0, 2.5, 0.1, 0.1 + 0.2, -0.0, 1e22, 10**22, 2**53, 2**53 + 1, 2**70, 1e300),
    *("", "a", "b", "B", "1", "true", "0", "ä", "咖啡", "a%", "a_", "docs/", "docs/a", "x" * 300),
]
NAMES = ["lang", "a.b", 'x"y', "", "$", "咖啡", "value", "document_id", "page"]
IDS = ["docs/a", "docs/b", "docs/sub/c", "docs", "e%", "É", "咖啡", "zz"]

scalars = st.sampled_from(SCALARS)
ends = st.none() | st.sampled_from([each for each in SCALARS if not isinstance(each, bool)])
conditions = (
    scalars
    | st.lists(scalars, max_size=3)
    | st.builds(Between, ends, ends)
    | st.builds(Prefix, st.sampled_from([each for each in SCALARS if isinstance(each, str)] + ["d", "\ud83d", "\0"]))
    | st.builds(Excluding, st.lists(scalars, max_size=3))
)
wheres = st.dictionaries(
    st.sampled_from([*NAMES, "title", "section", "other"]), conditions, min_size=1, max_size=2
) | st.fixed_dictionaries({"document_id": st.sampled_from(IDS) | st.builds(Prefix, st.sampled_from(IDS))})


def fill(store: ChunkStore) -> None:
    """Put documents with all kinds of metadata."""
    store.open(INFO).run()
    for place, id in enumerate(IDS):
        metadata = {name: SCALARS[(place * 7 + n * 3) % len(SCALARS)] for n, name in enumerate(NAMES[place % 3 :])}
        texts = [f"word{place} word common", "common word", "咖啡 word"]
        vectors: list[Sequence[float]] = [(1, place, 0), (1, -place, 1), (1, 0, place)]
        put(store, id, texts, vectors, metadata, [place, None, 1])


def check_where(store: ChunkStore, model: InMemoryChunkStore, where: Where, limit: int) -> None:
    """The store finds what the store in memory finds."""
    near = (1.0, 0.5, 0.25)
    found, expected = store.nearest(near, limit, where).run(), model.nearest(near, limit, where).run()
    assert places(found) == places(expected)
    assert [each.similarity for each in found] == [each.similarity for each in expected]
    words = store.matching("common 咖啡", 99, where).run()
    assert sorted(places(words)) == sorted(places(model.matching("common 咖啡", 99, where).run()))
    assert all(each.relevance for each in words)
