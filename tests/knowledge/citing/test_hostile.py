"""Citations that a message or a saved conversation brings: read, or left out; they fail no run."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentscope_rx import Msg
from agentscope_rx.errors import InvalidInputError
from agentscope_rx.events import CitationEvent
from agentscope_rx.knowledge.citing.numbers import MOST_ADOPTED, NUMBERS, adopt, known
from agentscope_rx.messages import Citation, citations_of
from agentscope_rx.messages.citation import MOST_CITATIONS
from agentscope_rx.parts import PartStates
from agentscope_rx.testing import ScriptedModel
from tests.knowledge.citing.parts import Told, agent, events_of

GOOD: dict[str, object] = {"number": 7, "base": "b", "document": "d"}
WRONG: tuple[object, ...] = (
    5, "x", {"a": 1}, [5], [{}], [None], [[GOOD]], [{**GOOD, "evil": 1}], [GOOD] * (MOST_CITATIONS + 1),
    *([{**GOOD, name: value}] for name, value in [
        ("number", "x"), ("number", None), ("number", True), ("number", 0), ("number", -1), ("number", 10**30),
        ("number", float("nan")), ("page", "x"), ("chunk", 1.5), ("start", 2**64), ("score", "x"), ("score", None),
        ("title", 5), ("document", None), ("headings", 5), ("headings", [5]), ("headings", None),
    ]),
)  # fmt: skip


@pytest.mark.parametrize("brought", WRONG, ids=range(len(WRONG)))
def test_what_is_no_citation_is_refused_and_fails_no_run(brought: Any):
    hostile = Msg.user("What does it cost?").replace(metadata={"citations": brought})
    with pytest.raises(InvalidInputError, match="citations"):
        citations_of(hostile)
    friday = agent(ScriptedModel("Five [1]."), knowledge=Told("It costs five."))
    (cited,) = [each for each in events_of(friday, hostile) if isinstance(each, CitationEvent)]
    assert [each.number for each in cited.citations] == [1]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(list(Citation.__slots__)), inner),
    max_leaves=12,
)


@given(JSON | st.lists(st.fixed_dictionaries({"number": JSON, "base": st.just(""), "document": st.just("d")})))
def test_any_metadata_is_read_or_refused(brought: Any):
    parts = PartStates()
    try:
        adopt(parts, citations_of(Msg.user("hi").replace(metadata={"citations": brought})))
    except InvalidInputError:
        return
    assert all(type(number) is int for number in known(parts))


@given(JSON | st.fixed_dictionaries({"last": JSON, "passages": st.lists(st.tuples(JSON, JSON), max_size=3)}))
def test_any_saved_numbers_are_read_or_refused(saved: Any):
    parts = PartStates()
    parts.restore({"citations": {"version": 1, "state": saved}})
    try:
        NUMBERS.get(parts)
    except InvalidInputError:
        return


def test_what_is_adopted_leaves_room_and_is_small():
    parts = PartStates()
    adopt(
        parts,
        [
            Citation(number=3, base="b", document="small"),
            Citation(number=4, base="b", document="large", headings=("x" * 5000,) * 3),
            Citation(number=MOST_ADOPTED + 1, base="b", document="far"),
        ],
    )
    assert [each.document for each in known(parts).values()] == ["small"] and NUMBERS.get(parts).last == 3
