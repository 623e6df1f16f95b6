"""A conversation in the format of Chat Completions becomes messages that the formatter writes as they were."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentscope_rx import InMemoryMemory, ReActAgent
from agentscope_rx.errors import InvalidInputError
from agentscope_rx.messages import MsgRole
from agentscope_rx.models import messages_from_openai
from agentscope_rx.models.openai.formatter import format_messages
from agentscope_rx.testing import ScriptedModel

Wire = dict[str, object]

texts = st.sampled_from(["hi", "Rome?", "\u5317\u4eac", "a\nb", " \U0001f600 ", "{}"])
names = st.from_regex(r"[a-z]{1,8}", fullmatch=True)
values = st.dictionaries(names, texts | st.integers(-9, 9) | st.none(), max_size=3)
spaces = st.sampled_from([(",", ":"), (", ", ": ")])
pictures = st.sampled_from(["data:image/png;base64,AA==", "https://a.test/b.png"])


@st.composite
def parts(draw: st.DrawFn) -> list[Wire]:
    media: list[Wire] = [
        {"type": "image_url", "image_url": {"url": draw(pictures)}},
        {"type": "input_audio", "input_audio": {"data": "AA==", "format": draw(st.sampled_from(["wav", "mp3"]))}},
        {"type": "file", "file": {"filename": "a.pdf", "file_data": "data:application/pdf;base64,AA=="}},
    ]
    return [{"type": "text", "text": draw(texts)}, draw(st.sampled_from(media))]


@st.composite
def turns(draw: st.DrawFn, number: int) -> list[Wire]:
    """What a user says, and an answer to it, with calls and their results before."""
    arguments = draw(st.lists(values, max_size=2))
    calls = [
        {"id": f"c{number}-{place}", "type": "function",
         "function": {"name": draw(names), "arguments": json.dumps(each, separators=draw(spaces), ensure_ascii=False)}}
        for place, each in enumerate(arguments)
    ]  # fmt: skip
    rounds: list[Wire] = []
    if calls:
        rounds.append({"role": "assistant", "content": draw(texts | st.none()), "tool_calls": calls})
        rounds += [{"role": "tool", "tool_call_id": call["id"], "content": draw(texts)} for call in calls]
    user: Wire = {"role": "user", "content": draw(texts | parts()), **draw(st.sampled_from([{}, {"name": "Ann"}]))}
    return [user, *rounds, {"role": "assistant", "content": draw(texts)}]


conversations = st.tuples(
    st.lists(texts.map(lambda text: {"role": "system", "content": text}), max_size=1), turns(0), turns(1)
).map(lambda found: [message for part in found for message in part])


@settings(max_examples=60)
@given(conversations)
def test_the_formatter_writes_what_was_read(wire: list[Wire]):
    assert format_messages(messages_from_openai(wire)) == wire


def test_an_agent_goes_on_with_a_conversation():
    wire: list[Wire] = [
        {"role": "developer", "content": "Be kind."},
        {"role": "user", "content": "The weather in Rome?"},
        {"role": "assistant", "content": None, "tool_calls": [
            {"id": "c1", "type": "function", "function": {"name": "weather", "arguments": '{"city": "Rome"}'}}]},
        {"role": "tool", "tool_call_id": "c1", "content": [{"type": "text", "text": "Sunny"}]},
        {"role": "assistant", "content": "", "refusal": "I may not say."},
    ]  # fmt: skip
    messages = messages_from_openai(wire)
    assert [message.role for message in messages] == [
        MsgRole.SYSTEM, MsgRole.USER, MsgRole.ASSISTANT, MsgRole.TOOL, MsgRole.ASSISTANT
    ]  # fmt: skip
    assert messages[2].tool_calls[0].input == {"city": "Rome"}
    assert (messages[3].tool_results[0].name, messages[3].tool_results[0].text) == ("weather", "Sunny")
    assert messages[4].text == "I may not say."

    model = ScriptedModel("Sorry.")
    agent = ReActAgent("Friday", model, "Be kind.", memory=InMemoryMemory(messages[1:]))
    assert agent.call("Why?").run().text == "Sorry."
    assert [message.text for message in model.requests[0].messages][-2:] == ["I may not say.", "Why?"]


def test_arguments_that_are_no_json_are_kept_as_of_a_model():
    function = {"name": "f", "arguments": '{"city": '}
    wire = [{"role": "assistant", "tool_calls": [{"id": "c1", "type": "function", "function": function}]}]
    (call,) = messages_from_openai(wire)[0].tool_calls
    assert (call.raw, dict(call.input)) == ('{"city": ', {}) and call.input_error


class Dumped:
    def model_dump(self) -> dict[str, object]:
        return {}


@pytest.mark.parametrize(
    ("message", "error"),
    [
        ("hi", r"messages\[1\] must be a mapping, not str\.$"),
        (Dumped(), r"messages\[1\] must be a mapping, not Dumped\. Give message\.model_dump\(\)\."),
        ({"content": "hi"}, r"messages\[1\]: 'role' must be one of"),
        ({"role": "critic", "content": "hi"}, r"messages\[1\]: .*'role' must be one of .*critic"),
        ({"role": "user", "content": 3}, r"messages\[1\]: .*'content' must be text or a list"),
        ({"role": "user", "content": [{"type": "video"}]}, r"messages\[1\]: .*a part must be text"),
        ({"role": "user", "content": [{"type": "text"}]}, r"messages\[1\]: a part of type 'text' must have a 'text'"),
        (
            {"role": "user", "content": [{"type": "file", "file": {"file_id": "f1"}}]},
            r"messages\[1\]: a file must have its 'file_data'.* Found: .*f1",
        ),
        (
            {"role": "user", "content": [{"type": "input_audio", "input_audio": {"data": "AA==", "format": "flac"}}]},
            r"messages\[1\]: the 'format' of 'input_audio' must be wav or mp3\. Found: .*flac",
        ),
        (
            {"role": "assistant", "content": None, "function_call": {"name": "f", "arguments": "{}"}},
            r"messages\[1\]: 'function_call' is an older form: give 'tool_calls'",
        ),
        (
            {"role": "assistant", "content": None, "audio": {"id": "a1"}},
            r"messages\[1\]: 'audio' of an answer cannot be read",
        ),
        (
            {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "/etc/passwd"}}]},
            r"messages\[1\]: URLSource takes an address",
        ),
        ({"role": "tool", "tool_call_id": "c9", "content": "x"}, r"messages\[1\]: .*'tool_call_id' must be the id"),
        ({"role": "assistant", "tool_calls": [{"id": "c1"}]}, r"messages\[1\]: .*a call must have an 'id'"),
        ({"role": "assistant", "tool_calls": {"id": "c1"}}, r"messages\[1\]: .*'tool_calls' must be a list"),
    ],
)
def test_what_the_format_does_not_allow_names_its_place(message: object, error: str):
    with pytest.raises(InvalidInputError, match=error):
        messages_from_openai([{"role": "user", "content": "Hello"}, message])  # pyright: ignore


@pytest.mark.parametrize("messages", [None, 3, "hi", {"role": "user", "content": "hi"}])
def test_what_is_no_list_of_messages_is_refused(messages: object):
    with pytest.raises(InvalidInputError, match=r"^messages must be a list of mappings, not "):
        messages_from_openai(messages)  # pyright: ignore


def test_fields_without_a_value_are_no_fault():
    dumped = {"role": "assistant", "content": "Hi", "refusal": None, "audio": None, "function_call": None}
    assert [message.text for message in messages_from_openai([dumped | {"tool_calls": None}])] == ["Hi"]
