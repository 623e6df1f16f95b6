"""Results that are too large, handed over: stored whole, shown by their ends, never lost."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest
from calling import answer, use
from hypothesis import given
from hypothesis import strategies as st

from agentscope_rx import Toolkit, tool
from agentscope_rx.errors import ConfigurationError
from agentscope_rx.messages import Base64Source, ImageBlock, TextBlock, ToolResultBlock, ToolUseBlock
from agentscope_rx.reactive import Flow, empty, just, never
from agentscope_rx.testing import run_virtual
from agentscope_rx.tools import FolderEvictor, ResultLimit, renamed

CALL = ToolUseBlock("call_1", "flood", {"size": 5000})


def flood(size: int) -> str:
    return "head" + "x" * size + "tail"


def run(evictor: object, size: int = 5000, patience: float = 30.0) -> ToolResultBlock:
    limit = ResultLimit(600, evictor=evictor, patience=patience)  # pyright: ignore[reportArgumentType]

    async def call() -> ToolResultBlock:
        found = await Toolkit([flood], max_result=limit).call(use("flood", "call_1", size=size))
        assert isinstance(found, ToolResultBlock)
        return found

    return asyncio.run(call())


def limited(block: ToolResultBlock) -> dict[str, object]:
    numbers = block.metadata["limited"]
    assert isinstance(numbers, dict)
    return cast("dict[str, object]", numbers)


# --- the port -----------------------------------------------------------------------------------------------------


class Plain:
    def __init__(self) -> None:
        self.kept: list[tuple[ToolUseBlock, ToolResultBlock]] = []

    def store(self, call: ToolUseBlock, result: ToolResultBlock) -> str:
        self.kept.append((call, result))
        return "shelf 7"


class Async(Plain):
    async def store(self, call: ToolUseBlock, result: ToolResultBlock) -> str:  # pyright: ignore
        await asyncio.sleep(0)
        return Plain.store(self, call, result)


class Flowing(Plain):
    def store(self, call: ToolUseBlock, result: ToolResultBlock) -> Flow[str]:  # pyright: ignore
        return just("on the way", Plain.store(self, call, result))


@pytest.mark.parametrize("kind", [Plain, Async, Flowing])
def test_the_whole_result_is_stored_and_its_ends_are_shown(kind: type[Plain]):
    evictor = kind()
    block = run(evictor)
    assert len(block.text) <= 600
    assert block.text.startswith("headxxx") and block.text.endswith("xxxtail")
    assert "characters are left out here. The whole is in: shelf 7]" in block.text
    ((call, whole),) = evictor.kept
    assert call.id == "call_1" and whole.text == "head" + "x" * 5000 + "tail"
    assert limited(block)["reference"] == "shelf 7" and limited(block)["chars"] == 5008


def test_a_function_does_as_well():
    kept: list[str] = []

    def shelve(call: ToolUseBlock, result: ToolResultBlock) -> str:
        kept.append(result.text)
        return "shelf 8"

    assert "in: shelf 8]" in run(shelve).text
    assert len(kept) == 1
    assert run(shelve, size=10).text == "headxxxxxxxxxxtail", "what fits is not stored"
    assert len(kept) == 1


def test_media_are_stored_and_said_where():
    @tool
    def paint() -> ImageBlock:
        return ImageBlock(Base64Source("image/png", "a" * 500))

    limit = ResultLimit(600, media=100, evictor=lambda call, result: "shelf 9")
    block = answer(Toolkit([paint], max_result=limit), use("paint"))
    assert block.text == (
        "[Image (image/png) of 500 characters in base64 is left out: too large. The whole is in: shelf 9]"
    )
    assert limited(block) == {"reference": "shelf 9", "media_left_out": 500}


def test_a_number_on_a_tool_keeps_the_toolkits_evictor():
    small = tool(max_result=500)(flood)
    limit = ResultLimit(evictor=lambda call, result: "shelf 1")
    assert "shelf 1" in answer(Toolkit([small], max_result=limit), use("flood", size=600)).text


def test_what_is_no_evictor_is_refused():
    with pytest.raises(ConfigurationError, match="An evictor is a function"):
        ResultLimit(evictor="folder")  # pyright: ignore[reportArgumentType]
    with pytest.raises(ConfigurationError, match="path of a folder"):
        FolderEvictor("")


# --- an evictor that fails ----------------------------------------------------------------------------------------


def raises(call: ToolUseBlock, result: ToolResultBlock) -> str:
    raise OSError("the disk is full")


def says_nothing(call: ToolUseBlock, result: ToolResultBlock) -> str:
    return " "


def says_too_much(call: ToolUseBlock, result: ToolResultBlock) -> str:
    return "far away, " * 100


def gives_a_number(call: ToolUseBlock, result: ToolResultBlock) -> int:
    return 7


async def fails_later(call: ToolUseBlock, result: ToolResultBlock) -> str:
    await asyncio.sleep(0)
    raise ConnectionError("gone")


def ends_without_a_word(call: ToolUseBlock, result: ToolResultBlock) -> Flow[str]:
    return empty()


@pytest.mark.parametrize(
    ("evictor", "error"),
    [
        (raises, "OSError: the disk is full"),
        (says_nothing, "ToolError: .* must return the place of the result"),
        (says_too_much, "ToolError: .* of 1000 characters, which is too long"),
        (gives_a_number, "ToolError: .* must return the place of the result as a str, not 7"),
        (fails_later, "ConnectionError: gone"),
        (ends_without_a_word, "SequenceContainsNoElementsError"),
    ],
)
def test_a_result_is_cut_if_it_cannot_be_stored(evictor: object, error: str, caplog: pytest.LogCaptureFixture):
    with caplog.at_level(logging.WARNING, "agentscope_rx"):
        block = run(evictor)
    assert not block.is_error and len(block.text) <= 600
    assert block.text.startswith("head") and block.text.endswith("tail") and "ask for less" in block.text
    import re

    assert re.search(error, str(limited(block)["error"]))
    assert "could not be stored" in caplog.text


def test_an_evictor_has_its_time_and_no_more():
    """Also behind the call's own deadlines: they are the tool's."""

    def hangs(call: ToolUseBlock, result: ToolResultBlock) -> Flow[str]:
        return never()

    async def main() -> tuple[ToolResultBlock, float]:
        limit = ResultLimit(600, evictor=hangs, patience=5.0)

        async def huge() -> str:
            return "x" * 5000

        found = await Toolkit([huge], max_result=limit).call(use("huge"))
        assert isinstance(found, ToolResultBlock)
        return found, asyncio.get_running_loop().time()

    block, time = run_virtual(main())
    assert time == 5.0
    assert str(limited(block)["error"]).startswith("DeadlineError") and len(block.text) <= 600


def test_disposal_ends_the_storing():
    ended: list[str] = []

    async def slow(call: ToolUseBlock, result: ToolResultBlock) -> str:
        try:
            await asyncio.sleep(20)
        finally:
            ended.append("ended")
        return "never"

    async def main() -> list[object]:
        async def huge() -> str:
            return "x" * 5000

        heard: list[object] = []
        limit = ResultLimit(600, evictor=slow)
        subscription = Toolkit([huge], max_result=limit).call(use("huge")).subscribe(heard.append)
        await asyncio.sleep(1)
        subscription.dispose()
        await asyncio.sleep(1)
        return heard

    assert run_virtual(main()) == []
    assert ended == ["ended"]


# --- a folder -----------------------------------------------------------------------------------------------------


def test_a_folder_keeps_the_text_and_the_media(tmp_path: Path):
    evictor = FolderEvictor(tmp_path / "results", shown_as="results/")
    picture = ImageBlock(Base64Source.of(b"\x89PNG...", "image/png"))
    result = ToolResultBlock("call_1", "flood", (TextBlock("Größe"), picture, TextBlock("end")))
    first, second = evictor.store(CALL, result).split(", ")
    assert first.startswith("results/flood-call_1-") and first.endswith(".txt")
    assert (tmp_path / first).read_text("utf-8") == "Größe\nend"
    assert second.endswith(".png") and (tmp_path / second).read_bytes() == b"\x89PNG..."
    assert len(list((tmp_path / "results").iterdir())) == 2


def test_a_model_reads_in_the_folder_what_it_was_not_shown(tmp_path: Path):
    block = run(FolderEvictor(tmp_path))
    reference = limited(block)["reference"]
    assert isinstance(reference, str) and reference in block.text
    assert Path(reference).read_text() == "head" + "x" * 5000 + "tail"


def test_calls_of_one_id_keep_their_own_files(tmp_path: Path):
    """Some servers number the calls of each answer from 0."""
    evictor = FolderEvictor(tmp_path)
    names = {evictor.store(CALL, ToolResultBlock("call_1", "flood", (TextBlock(text),))) for text in ("a", "b", "a")}
    assert len(names) == 2
    assert sorted(Path(name).read_text() for name in names) == ["a", "b"]


@given(
    st.one_of(
        st.text(max_size=300),
        st.sampled_from(
            ["../../etc/passwd", "/etc/passwd", "..", ".", "a/b", "a\\b", "C:\\x", "\0", "con", "x" * 5000]
        ),
    ),
    st.sampled_from(["flood", "../up"]),
)
def test_no_name_leads_out_of_the_folder(tmp_path_factory: pytest.TempPathFactory, id: str, name: str):
    folder = tmp_path_factory.mktemp("evicted") / "results"
    result = ToolResultBlock(id, name, (TextBlock("content"),))
    reference = FolderEvictor(folder).store(ToolUseBlock(id, name), result)
    (file,) = folder.iterdir()
    assert reference == f"{folder.as_posix()}/{file.name}" and file.is_file()
    assert [each.name for each in folder.parent.iterdir()] == ["results"]


@pytest.mark.skipif(sys.platform == "win32", reason="links need rights there")
def test_a_link_in_the_folder_is_replaced_not_followed(tmp_path: Path):
    outside = tmp_path / "outside"
    outside.write_text("mine")
    evictor = FolderEvictor(tmp_path / "results")
    result = ToolResultBlock("call_1", "flood", (TextBlock("content"),))
    name = Path(evictor.store(CALL, result))
    name.unlink()
    os.symlink(outside, name)
    assert Path(evictor.store(CALL, result)) == name
    assert outside.read_text() == "mine" and name.read_text() == "content" and not name.is_symlink()


def test_files_appear_whole_and_alone_from_many_threads(tmp_path: Path):
    evictor = FolderEvictor(tmp_path)
    result = ToolResultBlock("call_1", "flood", (TextBlock("x" * 10_000),))
    with ThreadPoolExecutor(8) as pool:
        names = set(pool.map(evictor.store, [CALL] * 40, [result] * 40))
    (name,) = names
    assert Path(name).read_text() == "x" * 10_000
    assert os.listdir(tmp_path) == [Path(name).name]


def test_a_folder_that_cannot_be_written_loses_nothing(tmp_path: Path):
    blocked = tmp_path / "file"
    blocked.write_text("")
    block = run(FolderEvictor(blocked))
    assert str(limited(block)["error"]).startswith(("NotADirectoryError", "FileExistsError"))
    assert block.text.startswith("head") and block.text.endswith("tail")


def test_postprocessing_sees_all_and_its_result_is_cut():
    """Also of pieces that are joined: who looks at a result looks at all of it."""
    seen: list[int] = []

    def look(call: ToolUseBlock, result: ToolResultBlock) -> ToolResultBlock:
        seen.append(len(result.text))
        return replace(result, output=(TextBlock(result.text * 2),))

    @tool(result="joined")
    def pieces() -> Iterator[str]:
        yield "a" * 2000
        yield "b" * 2000

    for evictor in (None, lambda call, result: f"{len(result.text)} on the shelf"):  # pyright: ignore
        toolkit = Toolkit(max_result=ResultLimit(600, evictor=evictor))  # pyright: ignore
        toolkit.register(pieces, postprocess=look)
        block = answer(toolkit, use("pieces"))
        assert len(block.text) <= 600 and limited(block)["chars"] == 8000
        assert ("8000 on the shelf" in block.text) == (evictor is not None)
    assert seen == [4000, 4000]


def test_a_wrapper_is_as_large_and_as_joined_as_what_it_wraps():
    @tool(result="joined", max_result=600)
    def pieces() -> Iterator[str]:
        yield "a" * 400
        yield "b" * 400

    (wrapped,) = renamed(pieces, {"pieces": "parts"})
    assert (wrapped.result, wrapped.max_result) == ("joined", 600)
    block = answer(Toolkit([wrapped]), use("parts"))
    assert len(block.text) <= 600 and block.text.startswith("aaa") and block.text.endswith("bbb")
