"""The benchmark of long conversations, in a short form: floors of recall, and nothing outdated."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from agentscope_rx.long_term_memory import SqliteLongTermMemory
from agentscope_rx.testing import ScriptedModel
from benchmarks.long_memory import GONE, distil, history_score, planted, recorded, scored


@pytest.mark.parametrize(("distils", "recall"), [(False, 0.7), (True, 0.95)], ids=["messages", "distilled"])
def test_planted_facts_are_found(tmp_path: Path, distils: bool, recall: float):
    data = planted(1, sessions=12, statements=60)
    model = ScriptedModel(distil, repeat=True) if distils else None
    ltm = SqliteLongTermMemory(tmp_path / "notes.db", model=model)
    recorded(data, ltm)
    score = scored(data, ltm)
    assert score.recall >= recall
    assert score.recall > 3 * history_score(data, score.tokens).recall
    if distils:
        assert score.stale == 0
        answers = {each.answer for each in data.questions}
        facts = [fact.text for fact in ltm.facts().run()]
        assert len(facts) == sum(each.answer is not None for each in data.questions)
        assert not any(GONE in text for text in facts)
        assert len(ltm.facts(history=True).run()) > len(facts) and None in answers


def test_the_data_are_those_of_their_seed():
    one, same, other = planted(1), planted(1), planted(2)
    texts = [[message.text for session in each.sessions for message in session] for each in (one, same, other)]
    assert texts[0] == texts[1] != texts[2]
    assert (one.statements, len(one.sessions), one.questions) == (200, 50, same.questions)
    corrected = [each for each in one.questions if each.outdated and each.answer is not None]
    assert len(corrected) == 50 and sum(each.answer is None for each in one.questions) == 10
    # a question does not repeat the statement that answers it
    stated = "\n".join(texts[0])
    assert not any(re.search(re.escape(each.text), stated) for each in one.questions)
