"""Short forms: sent in the place of blocks, kept with the message, and undone without loss."""

from __future__ import annotations

from agentscope_rx import Msg, TextBlock
from agentscope_rx.memory.short_forms import has_short_forms, restored, sent_form, shortened
from agentscope_rx.messages import Base64Source, ImageBlock, ToolResultBlock

PICTURE = ImageBlock(Base64Source.of(b"x" * 3_000, "image/png"))
RESULT = ToolResultBlock("call_1", "shot", (TextBlock("long " * 100), PICTURE, TextBlock("end")))


def test_a_short_form_is_sent_and_the_whole_is_kept():
    message = Msg.tool(RESULT)
    short = shortened(message, {0: RESULT.replace(output="short")})
    assert has_short_forms(short) and not has_short_forms(message)
    assert short.content == message.content and restored(short) == message
    assert sent_form(short).tool_results[0].text == "short"
    again = Msg.from_json(short.to_json())
    assert again == short and sent_form(again) == sent_form(short)


def test_what_a_result_and_its_short_form_share_is_kept_once():
    short = shortened(Msg.tool(RESULT), {0: RESULT.replace(output=(TextBlock("short"), PICTURE, RESULT.output[2]))})
    assert short.to_json().count(PICTURE.source.data) == 1  # pyright: ignore[reportAttributeAccessIssue]
    again = Msg.from_json(short.to_json())
    assert sent_form(again).tool_results[0].output == (TextBlock("short"), PICTURE, TextBlock("end"))


def test_a_changed_block_is_sent_as_it_is():
    short = shortened(Msg.tool(RESULT), {0: RESULT.replace(output="the secret")})
    changed = short.replace(content=RESULT.replace(output="[redacted]"))
    assert sent_form(changed).tool_results[0].text == "[redacted]"
    other = short.replace(content=TextBlock("no result"))
    assert sent_form(other).text == "no result"


def test_another_kind_of_block_can_stand_for_one():
    short = shortened(Msg.user([TextBlock("See:"), PICTURE]), {1: TextBlock("[a picture]")})
    assert sent_form(Msg.from_json(short.to_json())).text == "See:\n[a picture]"
