"""Local files by address: what comes over a wire names no file of this machine, and what code names is bounded."""

from __future__ import annotations

import copy
import json
import pickle
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mcp_types import BlobResourceContents, CallToolResult, EmbeddedResource, ResourceLink, TextResourceContents
from pydantic import BaseModel, TypeAdapter, ValidationError
from reactivex import operators as ops

from agentscope_rx import InMemorySession, JsonSession, ReActAgent, Toolkit, fold, tool
from agentscope_rx.errors import ConfigurationError, InvalidInputError, ProtocolError
from agentscope_rx.events import Event, PostCallEvent, event_from_json
from agentscope_rx.messages import (
    AudioBlock,
    Base64Source,
    FileBlock,
    FileSource,
    FramesSource,
    ImageBlock,
    Msg,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
    URLSource,
    VideoBlock,
)
from agentscope_rx.models import OpenAIChatModel
from agentscope_rx.models.dashscope.parser import DashScopeParser
from agentscope_rx.models.gemini.parser import ContentParser
from agentscope_rx.models.openai.parser import ChunkParser
from agentscope_rx.models.transport import ServerEvent
from agentscope_rx.models.wire.media import has_files, read_files
from agentscope_rx.service import create_app
from agentscope_rx.testing import ScriptedModel, call
from agentscope_rx.tools.mcp import McpInMemory, mcp_server
from agentscope_rx.tools.mcp.content import result_of_call
from tests.agent.parts import remembered
from tests.service.serving import events_of, served, sse
from tests.support.json_server import JsonServer

LOCAL = [
    "file:///etc/passwd",
    "FILE:///etc/passwd",
    "file:/etc/passwd",
    "file:etc",
    "/etc/passwd",
    "etc/passwd",
    "./a",
    "../a",
    "~/a",
    "C:\\a.png",
    "c:/a.png",
    "c:a.png",
    "\\\\host\\share\\a",
    "//host/share/a",
    " file:///etc/passwd",
    "\x00file:///etc/passwd",
    "\nfile:///etc/passwd",
    "fi\nle:///etc/passwd",
    "fi%6ce:///etc/passwd",
    "https",
    "https:",
    ":",
    "?",
]
MEDIA: list[Callable[[Any], Any]] = [ImageBlock, AudioBlock, VideoBlock, FileBlock]


def from_file(source: Any) -> list[Any]:
    """A source at each place where a message can hold one."""
    blocks = [block(source) for block in MEDIA] + [VideoBlock(FramesSource((source,)))]
    return [*blocks, *(ToolResultBlock("c", "t", (block,)) for block in blocks)]


# --- addresses -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("url", LOCAL)
def test_a_url_source_takes_no_path(url: str) -> None:
    with pytest.raises(InvalidInputError, match="FileSource"):
        URLSource(url)
    text = json.dumps({"name": "u", "content": [{"type": "file", "source": {"type": "url", "url": url}}]})
    for read in (Msg.from_json, lambda text: Msg.from_dict(json.loads(text))):
        with pytest.raises(InvalidInputError, match="FileSource"):
            read(text)


@pytest.mark.parametrize(
    "url", ["https://x/a", "http://x", "HTTPS://X", "data:,a", "gs://b/a", "oss://b/a", "s3://b/a"]
)
def test_addresses_with_a_scheme_are_taken(url: str) -> None:
    assert URLSource(url).url == url
    assert not has_files([Msg.user(ImageBlock(URLSource(url)))])


@settings(max_examples=200)
@given(st.text(min_size=1, max_size=30))
def test_no_address_is_a_path(text: str) -> None:
    try:
        source = URLSource(text)
    except InvalidInputError:
        return
    scheme = source.url.partition(":")[0]
    assert len(scheme) > 1 and scheme.isascii() and scheme[0].isalpha() and scheme.lower() != "file"


# --- answers of model servers ----------------------------------------------------------------------------------------

ANSWERS: dict[str, Callable[[str], Any]] = {
    "openai, a delta": lambda url: ChunkParser(lambda: 0.0).feed(
        {"choices": [{"delta": {"images": [{"image_url": {"url": url}}]}}]}
    ),
    "openai, whole": lambda url: ChunkParser(lambda: 0.0).read_whole(
        {"choices": [{"message": {"images": [{"image_url": {"url": url}}]}, "finish_reason": "stop"}]}
    ),
    "dashscope, an image": lambda url: dashscope({"image": url}),
    "dashscope, audio": lambda url: dashscope({"audio": url}),
    "dashscope, audio's url": lambda url: dashscope({"audio": {"url": url}}),
    "gemini": lambda url: tuple(
        ContentParser(lambda: 0.0).read_whole(
            {"candidates": [{"content": {"parts": [{"fileData": {"fileUri": url, "mimeType": "image/png"}}]}}]}
        )
    ),
}


def dashscope(part: dict[str, Any]) -> Any:
    output = {"output": {"choices": [{"message": {"content": [part]}}]}}
    return tuple(DashScopeParser(lambda: 0.0).read(ServerEvent(json.dumps(output))))


@pytest.mark.parametrize("answer", ANSWERS.values(), ids=list(ANSWERS))
@pytest.mark.parametrize("url", [each for each in LOCAL if each.strip()])
def test_an_answer_with_a_local_address_breaks_the_protocol(answer: Callable[[str], Any], url: str) -> None:
    with pytest.raises(ProtocolError, match="local file"):
        answer(url)
    assert answer("https://x/a.png")


def test_the_next_request_carries_no_bytes_of_this_machine(tmp_path: Path) -> None:
    """The reproduction: the answer names a file, and the next request would have it."""
    (tmp_path / "secret").write_text("the secret")
    place = (tmp_path / "secret").as_uri()
    answer = {"choices": [{"message": {"images": [{"image_url": {"url": place}}]}, "finish_reason": "stop"}]}
    with JsonServer(lambda path, body: answer) as server:
        agent = ReActAgent("a", OpenAIChatModel("m", base_url=server.url, api_key="k", stream=False))
        for _ in range(2):
            with pytest.raises(ProtocolError):
                agent.call("hi").run()
    assert server.asked and "image_url" not in json.dumps([each.body for each in server.asked])


# --- JSON ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("at", range(10))
def test_json_names_no_file_unless_a_root_is_named(tmp_path: Path, at: int) -> None:
    (tmp_path / "in").mkdir()
    path = tmp_path / "in" / "a.png"
    path.write_bytes(b"png")
    message = Msg.user(()).replace(content=from_file(FileSource(path))[at])
    with pytest.raises(InvalidInputError, match="file_root"):
        Msg.from_json(message.to_json())
    with pytest.raises(InvalidInputError, match="file_root"):
        Msg.from_dict(message.to_dict())
    (tmp_path / "other").mkdir()
    with pytest.raises(InvalidInputError, match="leads out"):
        Msg.from_json(message.to_json(), file_root=tmp_path / "other")
    rooted = message.replace(content=from_file(FileSource(path, root=tmp_path / "in"))[at])
    assert Msg.from_json(message.to_json(), file_root=tmp_path / "in") == rooted
    assert Msg.from_json(rooted.to_json(), file_root=str(tmp_path / "in")) == rooted
    assert "cG5n" in read_files([rooted])[0].to_json()


def test_json_cannot_name_its_own_root_or_unlock() -> None:
    """The fields of a FileSource that say what is allowed are not read from anywhere."""
    forged = {"type": "file", "path": "/etc/passwd", "root": "/", "locked": False}
    adapter = TypeAdapter(FileSource)
    with pytest.raises(ValidationError, match="file_root"):
        adapter.validate_python(forged)
    with pytest.raises(ValidationError, match="file_root"):
        adapter.validate_json(json.dumps(forged), context={"file_root": None, "lock_files": "yes"})
    source = adapter.validate_python(forged, context={"lock_files": True})
    assert source.locked and source.root is None
    assert json.loads(adapter.dump_json(FileSource("/a", root="/"))) == {"path": "/a", "type": "file"}
    with pytest.raises(InvalidInputError, match="file_root"):
        # what a codec calls that fills the slots itself, past what is read here
        FileSource("/a").__post_init__()


@pytest.mark.parametrize("path", [None, "", 7, [], {}, "a\0b"])
def test_what_is_no_path(tmp_path: Path, path: Any) -> None:
    with pytest.raises(InvalidInputError):
        FileSource(path)
    source = {"type": "file", "path": path}
    with pytest.raises(InvalidInputError):
        Msg.from_dict({"name": "u", "content": [{"type": "file", "source": source}]}, file_root=tmp_path)


@pytest.mark.parametrize("path", ["file:///etc/passwd", "https://x/a.png", "s3://b/a"])
def test_a_file_source_takes_no_url(path: str) -> None:
    with pytest.raises(InvalidInputError, match="URLSource"):
        FileSource(path)


def test_a_root_is_a_folder(tmp_path: Path) -> None:
    text = Msg.user("hi").to_json()
    for root in (tmp_path / "none", 7):
        for use in (
            lambda root: Msg.from_json(text, file_root=root),
            lambda root: create_app(ReActAgent("a", ScriptedModel([])), file_root=root),
            lambda root: ReActAgent("a", ScriptedModel([])).load(InMemorySession(), "k", file_root=root),
            lambda root: ReActAgent("a", ScriptedModel([])).bind(InMemorySession(), "k", file_root=root),
            lambda root: FileSource("a", root=root),
        ):
            with pytest.raises(ConfigurationError, match="file_root"):
                use(root)


def test_copies_and_pickles_keep_what_is_allowed(tmp_path: Path) -> None:
    """A pickle is code already: who can write one needs no file's name. JSON is what keeps the path alone."""
    for source in (FileSource("a"), FileSource("a", root=tmp_path), FileSource("/a", locked=True)):
        for again in (copy.copy(source), copy.deepcopy(source), pickle.loads(pickle.dumps(source)), replace(source)):
            assert (again, again.root, again.locked) == (source, source.root, source.locked)
    assert FileSource("/a", locked=True) != FileSource("/a")
    assert FileSource("a").path == str(Path("a").absolute())
    assert FileSource("a", root=tmp_path).path == str(tmp_path / "a")


# --- what a model says -----------------------------------------------------------------------------------------------


def test_arguments_and_structured_output_name_no_file() -> None:
    """Text of a model becomes a source where a type says so; a local file it never becomes."""

    class Report(BaseModel):
        pictures: list[ImageBlock]
        other: ImageBlock | None = None

    seen: list[object] = []

    @tool
    def look(picture: ImageBlock, more: list[ImageBlock], file: FileSource | None = None) -> str:
        """Looks."""
        seen.append(picture)
        return "seen"

    good = {"type": "image", "source": {"type": "url", "url": "https://x/a.png"}}
    for source in ({"type": "file", "path": "/etc/passwd"}, {"type": "url", "url": "/etc/passwd"}):
        bad = {"type": "image", "source": source}
        for said in ({"picture": bad, "more": []}, {"picture": good, "more": [good, bad]}):
            agent = ReActAgent("a", ScriptedModel(call("look", **said), "done"), tools=[look])
            agent.call("go").run()
            (result,) = remembered(agent)[2].tool_results
            assert result.is_error and not seen
        with pytest.raises(ValidationError):
            TypeAdapter(Report).validate_json(json.dumps({"pictures": [bad]}), strict=True)
        with pytest.raises(ValidationError):
            TypeAdapter(Report).validate_json(json.dumps({"pictures": [good], "other": bad}), strict=True)
    file = {"type": "file", "path": "/etc/passwd"}
    agent = ReActAgent("a", ScriptedModel(call("look", picture=good, more=[], file=file), "done"), tools=[look])
    agent.call("go").run()
    assert remembered(agent)[2].tool_results[0].is_error and not seen


# --- the service -----------------------------------------------------------------------------------------------------


def test_a_request_that_names_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "up").mkdir()
    (tmp_path / "up" / "a.txt").write_text("hello")
    (tmp_path / "secret").write_text("secret")
    (tmp_path / "up" / "link").symlink_to(tmp_path / "secret")

    def body(source: dict[str, Any]) -> dict[str, Any]:
        return {"messages": [{"name": "u", "content": [{"type": "file", "source": source}]}]}

    model = ScriptedModel("fine", repeat=True)
    with served(create_app(ReActAgent("a", model))) as server, server.client() as client:
        for source in (
            {"type": "url", "url": str(tmp_path / "secret")},
            {"type": "url", "url": (tmp_path / "secret").as_uri()},
            {"type": "file", "path": str(tmp_path / "secret")},
            {"type": "file", "path": "/dev/zero"},
            {"type": "file", "path": "/dev/zero", "root": "/", "locked": False},
        ):
            answer = client.post("/run", json=body(source))
            assert answer.status_code == 422 and answer.json()["error"]["type"] == "InvalidInputError"
    with served(create_app(ReActAgent("a", model), file_root=tmp_path / "up")) as server, server.client() as client:
        for path in (str(tmp_path / "secret"), "../secret", "link", "/dev/zero", "a/../../secret"):
            assert client.post("/run", json=body({"type": "file", "path": path})).status_code == 422
        with sse(client, "POST", "/run", json=body({"type": "file", "path": "a.txt"})) as source:
            told = events_of(source)
    assert isinstance(told[-1], PostCallEvent)
    (asked,) = model.requests
    assert asked.messages[-1].content[0].source.read() == b"hello"  # pyright: ignore


# --- what is saved ---------------------------------------------------------------------------------------------------


def test_a_saved_conversation_keeps_its_files_locked(tmp_path: Path) -> None:
    path = tmp_path / "a.png"
    path.write_bytes(b"png")
    session = JsonSession(tmp_path / "sessions")
    agent = ReActAgent("a", ScriptedModel("fine"))
    agent.call(Msg.user([TextBlock("look"), ImageBlock(FileSource(path))])).run()
    agent.save(session, "k").run()

    with JsonServer(
        lambda path, body: {"choices": [{"message": {"content": "ok"}, "finish_reason": "stop"}]}
    ) as server:
        model = OpenAIChatModel("m", base_url=server.url, api_key="k", stream=False)
        locked = ReActAgent("a", model)
        assert locked.load(session, "k").run()
        assert remembered(locked)[0].content[1].source == FileSource(path, locked=True)  # pyright: ignore
        with pytest.raises(InvalidInputError, match="file_root"):
            locked.call("and now?").run()
        assert not server.asked
        # it is saved again as it was
        locked.save(session, "again").run()
        for key in ("k", "again"):
            opened = ReActAgent("a", model)
            assert opened.load(session, key, file_root=tmp_path).run()
            source = remembered(opened)[0].content[1].source  # pyright: ignore
            assert source == FileSource(path, root=tmp_path) and source.read() == b"png"
        opened.call("and now?").run()
        assert "cG5n" in json.dumps(server.asked[0].body)
        bound = ReActAgent("a", model)
        assert bound.bind(session, "k", file_root=tmp_path / "sessions").run()
        assert remembered(bound)[0].content[1].source.locked  # pyright: ignore


def test_another_process_finds_it_locked(tmp_path: Path) -> None:
    session = JsonSession(tmp_path / "sessions")
    agent = ReActAgent("a", ScriptedModel("fine"))
    agent.call(Msg.user(ImageBlock(FileSource(tmp_path / "a.png")))).run()
    agent.save(session, "k").run()
    code = (
        "import sys; from agentscope_rx import *; from agentscope_rx.testing import ScriptedModel\n"
        "agent = ReActAgent('a', ScriptedModel([]))\n"
        "agent.load(JsonSession(sys.argv[1]), 'k').run()\n"
        "print(agent.memory.messages[0].content[0].source.locked)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "sessions")], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.strip() == "True"


def test_what_was_saved_when_urls_were_paths_is_not_lost(tmp_path: Path) -> None:
    path = tmp_path / "a b.png"
    path.write_bytes(b"png")
    session = InMemorySession()
    agent = ReActAgent("a", ScriptedModel("fine"))
    agent.call(Msg.user([ImageBlock(URLSource("https://x/1")), ImageBlock(URLSource("https://x/2"))])).run()
    agent.save(session, "k").run()
    text = json.dumps(session.load_list("k", "memory").run())
    items = json.loads(text.replace("https://x/1", path.as_uri()).replace("https://x/2", str(path)))
    session.save_list("k", "memory", items).run()
    agent.load(session, "k").run()
    assert [block.source for block in remembered(agent)[0].content] == [FileSource(path, locked=True)] * 2  # pyright: ignore
    agent.load(session, "k", file_root=tmp_path).run()
    assert [block.source.read() for block in remembered(agent)[0].content] == [b"png"] * 2  # pyright: ignore


def test_events_and_what_they_amount_to_are_locked() -> None:
    agent = ReActAgent("a", ScriptedModel("fine"))
    events: list[Event] = []
    question = Msg.user(ImageBlock(FileSource("/etc/hostname")))
    agent.stream(question).pipe(ops.do_action(events.append)).run()
    read = [event_from_json(event.to_json()) for event in events]
    sources = [b.source for m in fold(read).history for b in m.blocks(ImageBlock)]
    assert sources == [FileSource("/etc/hostname", locked=True)]
    rooted = [event_from_json(event.to_json(), file_root="/etc") for event in events]
    assert fold(rooted).history[0].blocks(ImageBlock)[0].source == FileSource("/etc/hostname", root="/etc")


def test_a_locked_file_is_never_read(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"a")
    source = FileSource(tmp_path / "a", locked=True)
    with pytest.raises(InvalidInputError, match="locked"):
        source.read()
    for block in from_file(source):
        with pytest.raises(InvalidInputError, match="locked"):
            read_files([Msg.user(()).replace(content=(block,))])
    assert FileSource(source.path).read() == b"a"


# --- what tools and MCP servers give ---------------------------------------------------------------------------------


def test_a_path_that_a_tool_returns_is_text(tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(b"png")

    @tool
    def where() -> list[object]:
        """Says where."""
        return [str(tmp_path / "a.png"), tmp_path / "a.png", (tmp_path / "a.png").as_uri()]

    agent = ReActAgent("a", ScriptedModel(call("where"), "done"), tools=[where])
    agent.call("go").run()
    assert not has_files(remembered(agent))


def test_an_mcp_server_reads_the_files_of_a_tools_result(tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(b"png")

    @tool
    def picture(name: str) -> ImageBlock:
        """A picture."""
        return ImageBlock(FileSource(tmp_path / name))

    @tool
    def locked() -> ImageBlock:
        """A picture that was saved."""
        return ImageBlock(FileSource(tmp_path / "a.png", locked=True))

    there = Toolkit()
    there.register_mcp(McpInMemory(mcp_server(Toolkit([picture, locked]), name="desk"))).run()
    try:
        result = there.call(ToolUseBlock("1", "picture", {"name": "a.png"})).run()
        assert result.output == (ImageBlock(Base64Source("image/png", "cG5n")),)  # pyright: ignore
        for name, given in (("picture", {"name": "../none"}), ("picture", {"name": "."}), ("locked", {})):
            assert there.call(ToolUseBlock("1", name, given)).run().is_error  # pyright: ignore
    finally:
        there.close().run()


@pytest.mark.parametrize("uri", ["file:///etc/passwd", "/etc/passwd", "https://x/a.png"])
def test_addresses_of_an_mcp_server_stay_words(uri: str) -> None:
    given = CallToolResult(
        content=[
            ResourceLink(name="a", uri=uri, mime_type="image/png"),
            EmbeddedResource(resource=TextResourceContents(uri=uri, text="text", mime_type="image/png")),
            EmbeddedResource(resource=BlobResourceContents(uri=uri, blob="", mime_type="image/png")),
        ],
        structured_content={"image": {"type": "url", "url": uri}},
    )
    result = result_of_call(ToolUseBlock("1", "t"), given)
    assert all(isinstance(block, TextBlock) for block in result.output) and len(result.output) == 3


def test_blocks_that_hold_no_source_hold_none() -> None:
    plain = [TextBlock("file:///etc/passwd"), ThinkingBlock("/etc/passwd"), ToolUseBlock("c", "t", {"url": "/etc/x"})]
    assert not has_files([Msg.assistant(plain)])
