"""What the embedded model may say: quotations that keep their sense, no number that the conversation does not hold."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentscope_rx import ReActAgent
from agentscope_rx.messages import TextBlock
from agentscope_rx.models import ChatResponse, FinishReason, GenerateOptions, ToolUseDelta
from agentscope_rx.models.local import LocalChatModel
from agentscope_rx.models.local import model as local_model
from agentscope_rx.models.local.focus import MAX_CHARACTERS, focus
from agentscope_rx.models.local.grounded import UNSEEN, Grounded, numbers, ungrounded
from agentscope_rx.models.local.quoting import quoting
from agentscope_rx.models.local.schema import written_out
from agentscope_rx.tools import tool

Serve = Callable[..., Any]
TEXTS = st.text(st.sampled_from("0123456789.,: ax[?]"), max_size=40)


def told(pieces: Sequence[str], held: frozenset[str], finish: FinishReason = FinishReason.STOP) -> str:
    grounded = Grounded(held)
    responses = [*(ChatResponse((TextBlock(piece),)) for piece in pieces), ChatResponse((), finish_reason=finish)]
    blocks = [block for each in responses for seen in grounded.feed(each) for block in seen.content]
    return "".join(block.text for block in blocks if isinstance(block, TextBlock))


class TestGrounded:
    @given(TEXTS, st.sets(st.from_regex(r"[0-9]{1,2}(\.[0-9])?", fullmatch=True)), st.lists(st.integers(0, 40)))
    def test_however_it_is_cut_no_number_is_told_that_is_not_held(
        self, text: str, known: set[str], at: list[int]
    ) -> None:
        held = frozenset(known)
        edges = [0, *sorted({min(index, len(text)) for index in at}), len(text)]
        cut = told([text[start:end] for start, end in pairwise(edges)], held)
        assert cut == told([text], held)
        assert numbers(cut) <= held
        assert numbers(cut) == numbers(text) & held

    def test_what_is_held_is_told_as_it_is_written(self) -> None:
        text = "At 17:30 it costs 1,000.50, or 3% of 58."
        assert told(list(text), numbers(text)) == text

    def test_a_number_in_a_held_one_is_another(self) -> None:
        assert told(["17 and 4, 174 and 17.4"], frozenset({"174"})) == f"{UNSEEN} and {UNSEEN}, 174 and {UNSEEN}"

    def test_a_number_that_is_cut_off_is_another(self) -> None:
        assert told(["It is 17"], frozenset({"174"}), FinishReason.LENGTH) == f"It is {UNSEEN}"

    def test_a_number_waits_until_it_is_whole_and_all_else_is_told_at_once(self) -> None:
        grounded = Grounded(("58",))
        pieces = ["Costs 5", "8", " euros"]
        texts = [[seen.content for seen in grounded.feed(ChatResponse((TextBlock(piece),)))] for piece in pieces]
        assert texts == [[(TextBlock("Costs "),)], [], [(TextBlock("58 euros"),)]]

    def test_calls_pass(self) -> None:
        call = ChatResponse((ToolUseDelta(0, "a", "calculate", '{"expression": "60 * 24"}'),))
        assert list(Grounded(()).feed(call)) == [call]

    def test_the_numbers_that_no_text_holds(self) -> None:
        assert ungrounded("3 tickets are 174, not 17.", ["3 tickets", "3 * 58 = 174"]) == ["17"]


class TestQuoting:
    @pytest.mark.parametrize(
        ("question", "statement", "text", "fits"),
        [
            # what was asked about is said
            ("What does a.txt say about paint?", "Buy paint for the hull.", "The a.txt says the hull.", False),
            (
                "What does a.txt say about paint?",
                "Buy paint for the hull.",
                "a.txt says paint for the hull.",
                True,
            ),
            ("Who is the captain?", "Her captain is Ada Holm.", "The captain is Ada Holm.", True),
            # a number of the question belongs to a statement that holds it
            ("What happened on 14 March?", "15 March: a whale was seen.", "The March: a whale was seen.", False),
            ("What were costs in May 2024?", "The costs were 80 euros.", "The costs were 80 euros.", True),
            ("What were costs in May 2024?", "The costs were 80 euros.", "The May 2024 was 80 euros.", False),
            # a line that was found keeps its place
            ("Which file has the lamp?", "a/b.txt:3: Ask for the lamp.", "the lamp.", False),
            ("Which file has the lamp?", "a/b.txt:3: Ask for the lamp.", "a/b.txt:3: Ask for the lamp.", True),
            # a list is not cut
            ("What is in the logs?", "logs/a.md, logs/b.md", "The logs is logs/b.md", False),
            ("What is in the logs?", "logs/a.md, logs/b.md", "The logs has logs/a.md, logs/b.md", True),
            # of an equation there is the whole or the result
            ("What is (2 + 4) / 3?", "(2 + 4) / 3 = 2", "2 + 4) / 3 = 2", False),
            ("What is (2 + 4) / 3?", "(2 + 4) / 3 = 2", "(2 + 4) / 3 = 2", True),
            ("the price of 3 tickets", "3 * 58 = 174", "The price of 3 tickets is 174", True),
            ("the price of 3 tickets", "3 * 58 = 174", "The price of 3 tickets is 58 = 174", False),
        ],
    )
    def test_a_quotation_keeps_its_sense(self, question: str, statement: str, text: str, fits: bool) -> None:
        assert bool(re.fullmatch(quoting(question, [statement]), text)) is fits

    @given(st.data())
    def test_a_quotation_says_no_number_that_was_not_seen(self, data: st.DataObject) -> None:
        line = st.lists(
            st.sampled_from(["the", "ferry", "has", "12", "3.5", "58", "seats", "+", "=", "a.txt"]), min_size=1
        )
        question, statement = (" ".join(data.draw(line)) for _ in range(2))
        said = data.draw(st.from_regex(re.compile(quoting(question, [statement])), fullmatch=True))
        assert not ungrounded(said, [question, statement])

    def test_a_number_in_the_question_finds_its_line(self) -> None:
        text = "12 March: calm sea.\n14 March: a storm came.\n15 March: mended."
        assert focus("What happened on 14 March?", text)[0] == "14 March: a storm came."

    def test_a_beginning_does_not_end_within_a_number(self) -> None:
        assert focus("x", "9" * 2 * MAX_CHARACTERS) == []
        assert focus("x", "a" + "9" * 2 * MAX_CHARACTERS) == ["a"]


@pytest.mark.parametrize(
    ("request_", "found"),
    [
        ("What is (120 + 45) / 3?", ["(120 + 45) / 3"]),
        ("How much is 15% of 240?", ["15% of 240"]),
        ("How much is 15 percent of 240?", ["15% of 240"]),
        ("What is 2 ** 10, and 3*4?", ["2 ** 10", "3*4"]),
        ("What do 3 tickets cost at 58 euros?", []),
        ("What is (3 + 4?", []),
    ],
)
def test_an_expression_that_a_request_writes_out_is_taken_as_it_is(request_: str, found: list[str]) -> None:
    assert written_out(request_) == found


@tool
def read_file(path: str) -> str:
    """Read a file."""
    return "A ticket costs 58 euros."


class TestWithAScriptedServer:
    """A server that heeds no grammar: what it makes up is not told."""

    @pytest.fixture
    def made(self, serve: Serve, monkeypatch: pytest.MonkeyPatch) -> Callable[..., LocalChatModel]:
        monkeypatch.setattr(local_model, "check_installed", lambda: None)

        def make(*answers: str, **given: Any) -> LocalChatModel:
            left = list(answers)

            async def script(reply: Any) -> None:
                said = left.pop(0)
                reply.start()
                for start in range(0, len(said), 3):
                    reply.send({"choices": [{"index": 0, "delta": {"content": said[start : start + 3]}}]})
                reply.send({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}, "[DONE]")
                reply.end()

            served = SimpleNamespace(base_url=serve(script).url, key="k")
            return LocalChatModel(server=SimpleNamespace(address=lambda: served), **given)  # pyright: ignore[reportArgumentType]

        return make

    def test_an_answer_to_an_observation(self, made: Callable[..., LocalChatModel]) -> None:
        called = json.dumps({"tool": "read_file", "arguments": {"path": "a.txt"}})
        friday = ReActAgent(
            "Friday", made(called, json.dumps({"answer": "In a.txt: 58 euros, not 412."})), tools=[read_file]
        )
        assert friday.call("Read a.txt: what does a ticket cost?").run().text == f"In a.txt: 58 euros, not {UNSEEN}."

    def test_an_answer_without_one(self, made: Callable[..., LocalChatModel]) -> None:
        friday = ReActAgent("Friday", made(json.dumps({"answer": "Hello 1 and 2!"})), tools=[read_file])
        assert friday.call("Hello, I am 1!").run().text == f"Hello 1 and {UNSEEN}!"

    def test_plain_talk(self, made: Callable[..., LocalChatModel]) -> None:
        friday = ReActAgent("Friday", made("In 1066, 7 ships."))
        assert friday.call("What of 7 ships?").run().text == f"In {UNSEEN}, 7 ships."

    def test_a_form_of_the_callers_own_is_theirs(self, made: Callable[..., LocalChatModel]) -> None:
        options = GenerateOptions(response_format={"type": "json_object"})
        friday = ReActAgent("Friday", made('{"price": 58}', options=options))
        assert friday.call("As JSON!").run().text == '{"price": 58}'
