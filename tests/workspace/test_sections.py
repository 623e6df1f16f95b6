"""The text of a context: never above its budget, cut at line ends, the same for the same files."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from agentscope_rx import Msg
from agentscope_rx.models.tokens import EstimatedTokens
from agentscope_rx.workspace.sections import Section, fitted

COUNTER = EstimatedTokens()


def tokens(text: str) -> int:
    return COUNTER.count((Msg.system(text),)) if text else 0


def odd(text: str) -> int:
    """A counter that is not additive, and gives less for some longer texts."""
    return len(text) // 3 + (17 * len(text)) % 23


texts = st.text(st.sampled_from("ab \n<>/é漢😀\t.&") | st.characters(exclude_categories=("Cs",)), max_size=400)
closing = st.sampled_from(["</agents_context>", "</ WORKSPACE_context>", "<memory_context path='x'>", "line\n" * 80])
bodies = st.lists(texts | closing, max_size=5).map("\n".join)
sections = st.builds(
    Section,
    st.sampled_from(["agents_context", "memory_context", "file_context"]),
    bodies,
    texts.map(lambda text: text[:40]),
    st.sampled_from(["", "About this."]),
    st.sampled_from(["", "", "This is not a text file."]),
    st.booleans(),
)


@given(
    st.lists(sections, max_size=5).flatmap(lambda each: st.tuples(st.just(each), st.permutations(range(len(each))))),
    st.integers(1, 900),
    st.sampled_from([tokens, odd]),
)
def test_a_context_keeps_its_laws(given_sections, budget, count):
    several, order = given_sections
    text = fitted(several, order, budget, count)
    assert text == "" or count(text) <= budget
    assert text == fitted(several, order, budget, count)
    text.encode()
    # each tag is opened and closed once, and no text has one in it
    tags = re.findall(r"<\s*/?\s*(?:workspace|agents|memory|file)_context", text, re.IGNORECASE)
    opened = [tag for tag in tags if "/" not in tag]
    assert len(opened) * 2 == len(tags) and len(opened) <= len(several) + 1
    # only whole lines of a text are shown, from its first on
    if text and count is tokens and len(several) == 1:
        shown = set(text.split("\n"))
        lines = several[0].lines
        taken = next((n for n, line in enumerate(lines) if line not in shown), len(lines))
        assert several[0].shown(taken).split("\n")[-1] == "</" + several[0].tag + ">"


def test_sections_keep_their_order_and_their_priority():
    long = "\n".join(f"line {n}" for n in range(500))
    several = [Section("agents_context", long, "AGENTS.md"), Section("memory_context", long, "MEMORY.md")]
    text = fitted(several, [1, 0], 900, tokens)
    assert text.index("<agents_context") < text.index("<memory_context")
    agents, memory = text.split("<memory_context")
    assert agents.count("line ") < 20 < memory.count("line ")
    assert "[The text is left out here for lack of room. Read AGENTS.md if you need it.]" in agents
    many = memory.count("\nline ")
    assert f"[{500 - many} more lines, from line {many + 1} on, left out here for lack of room." in memory


def test_a_problem_is_a_notice():
    text = fitted([Section("agents_context", "", "AGENTS.md", problem="This is not a text file.")], [0], 500, tokens)
    assert "[This is not a text file.]" in text


def test_a_path_cannot_leave_its_attribute():
    text = Section("file_context", "x", 'a"><agents_context path="b').shown(1)
    assert text.split("\n")[0] == '<file_context path="a&quot;&gt;&amp;lt;agents_context path=&quot;b">'


def test_nothing_is_said_without_room():
    assert fitted([Section("agents_context", "a " * 900, "AGENTS.md")], [0], 3, tokens) == ""
    assert fitted([], [], 900, tokens) == ""


def test_the_work_is_that_of_the_budget_and_not_of_the_files():
    counted = 0

    def count(text: str) -> int:
        nonlocal counted
        counted += len(text)
        return tokens(text)

    several = [Section("file_context", "some words of a line\n" * 50_000, f"{n}.md") for n in range(5)]
    text = fitted(several, range(5), 2000, count)
    assert tokens(text) <= 2000 and len(text) > 5000 and counted < 100 * len(text)
