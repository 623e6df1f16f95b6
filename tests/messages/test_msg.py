"""A message: what it may be made of, what it says when it may not, and what it answers."""

from __future__ import annotations

import dataclasses
import json

import pytest

from agentscope_rx.errors import InvalidInputError
from agentscope_rx.messages import (
    AudioBlock,
    Base64Source,
    ChatUsage,
    FramesSource,
    GenerateReason,
    ImageBlock,
    Msg,
    MsgRole,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolResultKind,
    ToolUseBlock,
    URLSource,
    VideoBlock,
)

CALL = ToolUseBlock("c1", "weather", {"city": "Rome"})


def test_content_may_be_text_a_block_or_blocks():
    one = TextBlock("hi")
    assert Msg("u", "hi").content == Msg("u", one).content == Msg("u", [one]).content == (one,)
    assert Msg("u", (block for block in (one, CALL))).content == (one, CALL)
    assert Msg("u", ()).content == ()


def test_a_message_prints_as_a_line():
    picture = ImageBlock(URLSource("https://example.com/a.png"))
    broken = ToolUseBlock("c2", "weather", raw='{"city', input_error="cut off")
    result = ToolResultBlock.of(CALL, [TextBlock("sunny"), picture])
    assert str(Msg.user([TextBlock("Hi"), picture], "Ann")) == "Ann: Hi [image]"
    assert str(Msg.assistant([ThinkingBlock("hm", ""), CALL], "Friday")) == "Friday: weather(city='Rome')"
    assert str(Msg.assistant([TextBlock("I "), TextBlock("look."), broken])) == 'assistant: I look. weather({"city)'
    assert str(Msg.tool(result)) == "tool: weather -> sunny [image]"
    assert str(Msg.user([])) == "user: "


def test_defaults():
    message = Msg("u", "hi")
    assert message.role is MsgRole.USER
    assert message.generate_reason is GenerateReason.MODEL_STOP
    assert message.metadata == {} and message.usage is None
    assert message.timestamp.endswith("+00:00")
    assert message.id and message.id != Msg("u", "hi").id


def test_constructors_by_role():
    assert (Msg.user("x").name, Msg.user("x", "Ann").name, Msg.user("x").role) == ("user", "Ann", MsgRole.USER)
    assert (Msg.assistant("x").name, Msg.assistant("x").role) == ("assistant", MsgRole.ASSISTANT)
    assert (Msg.system("x").name, Msg.system("x").role) == ("system", MsgRole.SYSTEM)
    result = ToolResultBlock.of(CALL, "sunny")
    assert Msg.tool(result).content == Msg.tool([result]).content == (result,)
    assert Msg.tool(result).role is MsgRole.TOOL
    assert Msg("a", "x", "tool").role is MsgRole.TOOL


@pytest.mark.parametrize("content", [None, 3, ["hi"], [None], b"hi", {"type": "text"}, [{"type": "text"}]])
def test_wrong_content_is_named(content):
    with pytest.raises(InvalidInputError, match="text or blocks"):
        Msg("u", content)


@pytest.mark.parametrize("role", ["robot", "", None, 1, "USER"])
def test_a_wrong_role_is_answered_with_those_that_exist(role):
    with pytest.raises(InvalidInputError, match=r"user, assistant, system, tool.*name, content, role"):
        Msg("u", "hi", role)


def test_a_name_is_needed():
    with pytest.raises(InvalidInputError, match="name"):
        Msg(None, "hi")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "nonsense",
        "[]",
        "null",
        '"hi"',
        '{"content": []}',
        '{"name": "u", "content": "hi"}',
        '{"name": "u", "content": [{"type": "dance"}]}',
        '{"name": "u", "content": [{"text": "no type"}]}',
        '{"name": "u", "content": [{"type": "image", "source": "x"}]}',
        '{"name": "u", "content": [], "role": "robot"}',
        '{"name": "u", "content": [], "generate_reason": "whim"}',
        '{"name": "u", "content": [], "metadata": []}',
    ],
)
def test_wrong_json_is_an_error_of_ours(text):
    with pytest.raises(InvalidInputError, match="not a message"):
        Msg.from_json(text)


def test_json_may_leave_out_what_has_a_default():
    one, two = (Msg.from_json('{"name": "u", "content": [], "unknown": 1}') for _ in range(2))
    assert one.id and one.timestamp and one.id != two.id


def test_metadata_that_json_cannot_say_is_an_error_of_ours():
    with pytest.raises(InvalidInputError, match="cannot be written as JSON"):
        Msg("u", "hi", metadata={"live": object()}).to_json()


@pytest.mark.spec("case 132")
def test_text_is_that_of_the_text_blocks_joined():
    message = Msg("a", [TextBlock("one"), ThinkingBlock("hm"), CALL, TextBlock("two")], "assistant")
    assert message.text == "one\ntwo"
    assert Msg("a", CALL).text == ""
    assert message.tool_calls == (CALL,) == message.blocks(ToolUseBlock)
    assert message.tool_results == ()
    assert message.blocks(ThinkingBlock) == (ThinkingBlock("hm"),)


def test_text_blocks_side_by_side_are_one_text_of_an_assistant():
    """Providers cut one text up, at citations for one; what stands between keeps texts apart."""
    said = (TextBlock("a"), TextBlock("b"), ThinkingBlock("hm"), TextBlock("c"), ToolUseBlock("1", "t"), TextBlock("d"))
    assert Msg.assistant(said).text == "ab\nc\nd"
    assert Msg.user((TextBlock("a"), TextBlock("b"))).text == "a\nb"


def test_replace_keeps_all_but_what_is_given():
    message = Msg("a", "x", "assistant", metadata={"k": 1}, usage=ChatUsage(1, 2))
    changed = message.replace(content="y", generate_reason=GenerateReason.INTERRUPTED)
    assert (changed.id, changed.timestamp, changed.metadata, changed.usage, changed.role) == (
        message.id, message.timestamp, message.metadata, message.usage, message.role,
    )  # fmt: skip
    assert changed.text == "y" and message.text == "x"
    assert message.replace(id="other").id == "other"
    assert message.replace(role="user").role is MsgRole.USER
    assert dataclasses.replace(message, name="b").name == "b"
    with pytest.raises(TypeError):
        message.replace(colour="red")
    with pytest.raises(InvalidInputError):
        message.replace(content=[1])


def test_equality_is_by_value():
    message = Msg("a", "x")
    assert message == message.replace() and message is not message.replace()
    assert message != message.replace(content="y")
    assert message != "x"
    assert len({message, message.replace(), message.replace(content="y")}) == 2


def test_nothing_can_be_assigned():
    message = Msg("a", "x")
    for value in (message, message.content[0], CALL, ToolResultBlock.of(CALL, "x"), ChatUsage()):
        for field in dataclasses.fields(value):
            with pytest.raises(dataclasses.FrozenInstanceError):
                setattr(value, field.name, None)
    with pytest.raises((AttributeError, TypeError)):
        message.colour = "red"


# --- blocks ------------------------------------------------------------------------------------------------------


def test_results_are_made_from_text_a_block_or_blocks():
    one = TextBlock("sunny")
    picture = ImageBlock(URLSource("https://example.org/x.png"))
    assert ToolResultBlock.of(CALL, "sunny").output == ToolResultBlock("c1", "weather", "sunny").output == (one,)
    assert ToolResultBlock.of(CALL, picture).output == (picture,)
    assert ToolResultBlock.of(CALL, [one, picture]).output == (one, picture)
    result = ToolResultBlock.of(CALL, [one, picture, one])
    assert (result.id, result.name, result.text, result.is_error) == ("c1", "weather", "sunny\nsunny", False)


def test_an_error_result_says_its_kind():
    result = ToolResultBlock.error(CALL, ToolResultKind.TIMEOUT, "too slow")
    assert (result.text, result.kind, result.is_error) == ("Error: too slow", ToolResultKind.TIMEOUT, True)


def test_with_input_is_read_and_whole():
    broken = ToolUseBlock("c1", "weather", raw="{", input_error="not valid JSON")
    assert broken.with_input({"city": "Rome"}) == CALL


@pytest.mark.parametrize(
    "make",
    [
        lambda: TextBlock(None),
        lambda: ThinkingBlock(3),
        lambda: ToolUseBlock(None, "t"),
        lambda: ToolUseBlock("1", None),
        lambda: ToolUseBlock("1", "t", [1]),
        lambda: ToolUseBlock("1", "t", "text"),
        lambda: ToolResultBlock(1, "t"),
        lambda: ToolResultBlock("1", "t", 5),
        lambda: ToolResultBlock("1", "t", [CALL]),
        lambda: ToolResultBlock("1", "t", ["x"]),
        lambda: ImageBlock("https://example.org/x.png"),
        lambda: AudioBlock(None),
        lambda: VideoBlock(b"bytes"),
        lambda: URLSource(""),
        lambda: URLSource(None),
        lambda: Base64Source("", "aGk="),
        lambda: Base64Source("image/png", ""),
        lambda: Base64Source("image/png", b"raw"),
        lambda: Base64Source("image/png", "not base64!").decode(),
        lambda: Base64Source("image/png", "nöt").decode(),
        lambda: Msg("u", "x", metadata=[1]),
    ],
)
def test_wrong_parts_are_refused_where_they_are_given(make):
    with pytest.raises(InvalidInputError) as caught:
        make()
    assert len(str(caught.value)) > 10


def test_bytes_come_back_from_base64(tmp_path):
    file = tmp_path / "x.bin"
    file.write_bytes(bytes(range(256)))
    source = Base64Source.of_file(file, "image/png")
    assert source.decode() == bytes(range(256))
    assert source == Base64Source.of(bytes(range(256)), "image/png")
    assert json.loads(Msg("u", ImageBlock(source)).to_json())["content"][0]["source"]["type"] == "base64"


def test_usages_add_up():
    total = sum([ChatUsage(1, 2, 3, 4, 0.5), ChatUsage(10, 20, 30, 40, 1.0)], ChatUsage())
    assert total == ChatUsage(11, 22, 33, 44, 1.5)
    assert total.total_tokens == 33


def test_a_video_may_be_its_pictures():
    frames = FramesSource([URLSource("https://x/a.png"), Base64Source("image/png", "AA==")])  # pyright: ignore[reportArgumentType]
    message = Msg.user(VideoBlock(frames, fps=1.0))
    assert frames.frames == (URLSource("https://x/a.png"), Base64Source("image/png", "AA=="))
    assert Msg.from_json(message.to_json()) == message
    for wrong in ((), ("a.png",), (frames,)):
        with pytest.raises(InvalidInputError, match="sources of its pictures"):
            FramesSource(wrong)
    with pytest.raises(InvalidInputError, match="needs a source"):
        ImageBlock(frames)


@pytest.mark.spec("case 131")
def test_the_reason_of_a_reply_is_a_field():
    """Departure: an unknown reason is an error; metadata is not touched by it."""
    message = Msg.assistant("x").replace(metadata={"k": 1})
    assert message.generate_reason is GenerateReason.MODEL_STOP
    changed = message.replace(generate_reason=GenerateReason.INTERRUPTED)
    assert (changed.id, changed.metadata, changed.timestamp) == (message.id, {"k": 1}, message.timestamp)
    assert Msg.from_json(changed.to_json()).generate_reason is GenerateReason.INTERRUPTED
    data = json.loads(message.to_json())
    with pytest.raises(InvalidInputError, match="generate_reason"):
        Msg.from_dict({**data, "generate_reason": "whatever"})


@pytest.mark.spec("case 133")
def test_a_call_is_not_what_its_caller_changes_later():
    """JSON and immutability; what the caller changes later does not show."""
    arguments = {"a": [1, {"b": 2}]}
    call = ToolUseBlock("x", "y", arguments)
    arguments["a"].append(3)
    assert call.input == {"a": [1, {"b": 2}]}
    message = Msg.assistant(call)
    assert Msg.from_json(message.to_json()).tool_calls == (call,)
    with pytest.raises(TypeError):
        call.input["z"] = 1
