"""A request is the same, byte for byte, with forms that are kept from requests before it and without them."""

from __future__ import annotations

import gc
import json
import weakref
from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentscope_rx.errors import AgentScopeError
from agentscope_rx.messages import (
    AudioBlock,
    Base64Source,
    ContentBlock,
    FileBlock,
    ImageBlock,
    Msg,
    MsgRole,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolResultKind,
    ToolUseBlock,
    URLSource,
)
from agentscope_rx.models import (
    AnthropicChatModel,
    DashScopeChatModel,
    GeminiChatModel,
    OllamaChatModel,
    OpenAIChatModel,
    OpenAIResponsesModel,
)
from agentscope_rx.models.http_model import HttpChatModel
from agentscope_rx.models.openai.profile import Profile
from agentscope_rx.models.openai.profiles import GENERIC, MISTRAL, OPENROUTER, QWEN
from agentscope_rx.models.options import GenerateOptions, ToolSchema
from agentscope_rx.models.wire import kept_turns
from agentscope_rx.models.wire.chat_turns import turns_of
from agentscope_rx.models.wire.json_codec import encode_json
from agentscope_rx.models.wire.kept_turns import KeptTurns
from agentscope_rx.models.wire.pieces import MAX_KEPT, Envelope, Piece, Pieces, body_text

HOST = "http://127.0.0.1:1"


def openai(profile: Profile) -> HttpChatModel:
    return OpenAIChatModel("m", api_key="k", base_url=HOST, profile=profile)


MODELS: dict[str, Callable[[], HttpChatModel]] = {
    "generic": lambda: openai(GENERIC),
    "marked": lambda: openai(OPENROUTER),
    "nameless": lambda: openai(GENERIC.but(names=False, reasoning="always")),
    "mistral": lambda: openai(MISTRAL),
    "qwen": lambda: openai(QWEN),
    "all media": lambda: openai(GENERIC.but(audio="data", files="data", quirks=frozenset(("media_in_results",)))),
    "responses": lambda: OpenAIResponsesModel("gpt-5", api_key="k", base_url=HOST),
    "stored": lambda: OpenAIResponsesModel("gpt-5", api_key="k", base_url=HOST, store=True),
    "anthropic": lambda: AnthropicChatModel("claude-x", api_key="k", base_url=HOST),
    "cached": lambda: AnthropicChatModel("claude-x", api_key="k", base_url=HOST, cache="auto"),
    "gemini": lambda: GeminiChatModel("gemini-3-pro", api_key="k", base_url=HOST),
    "old gemini": lambda: GeminiChatModel("gemini-2.5-flash", api_key="k", base_url=HOST),
    "dashscope": lambda: DashScopeChatModel("qwen-max", api_key="k", base_url=HOST, send_reasoning=True),
    "ollama": lambda: OllamaChatModel("m", base_url=HOST),
}
by_model = pytest.mark.parametrize("name", MODELS)

texts = st.sampled_from(["", " ", "hello", "é 你", 'a "quote"\n', "  end  "]).map(TextBlock)
images = st.sampled_from(
    [ImageBlock(Base64Source("image/png", "iVBOR//+")), ImageBlock(URLSource("https://x.example/1.png"))]
)
sounds = st.just(AudioBlock(Base64Source("audio/wav", "UklGRg==")))
papers = st.just(FileBlock(Base64Source("application/pdf", "JVBERi0="), "a.pdf"))
thoughts = st.sampled_from(
    [
        ThinkingBlock("hm"),
        ThinkingBlock("hm", "c2ln", {"vendor": "anthropic"}),
        ThinkingBlock("", "c2ln", {"vendor": "gemini"}),
        ThinkingBlock("so", "enc", {"reasoning_item": {"id": "rs_1", "summary": []}}),
        ThinkingBlock("", None, {"reasoning_details": [{"type": "text", "text": "x"}]}),
    ]
)
# few: ids that occur twice are part of the histories
ids = st.sampled_from(["a", "b", "c", "d e", "d_e", "call_1", "call_2", "abcdefghi"])
inputs = st.sampled_from([{}, {"n": 1}, {"n": 1.0, "deep": {"x": [1, None, "é"]}}])
calls = st.builds(
    ToolUseBlock, ids, st.sampled_from(["look", "math.sqrt"]), inputs,
    metadata=st.sampled_from([{}, {"vendor": "gemini", "no_id": True}, {"extra_content": {"a": 1}}]),
    raw_input=st.sampled_from([None, '{"n":  1}']),
)  # fmt: skip
outputs = st.lists(texts | images | sounds, max_size=2).map(tuple)
results = st.builds(ToolResultBlock, ids, st.just("look"), outputs, st.sampled_from([None, ToolResultKind.FAILED]))
metadata = st.sampled_from([None, None, None, {"cache_control": True}, {"cache_control": {"type": "x"}, "other": 1}])
users = st.builds(
    Msg, st.sampled_from(["user", "Ann"]), st.lists(texts | texts | images | thoughts, max_size=3), metadata=metadata
)
systems = st.builds(Msg, st.just("system"), texts, st.just(MsgRole.SYSTEM), metadata=metadata)
said = st.lists(texts | texts | thoughts | images, max_size=3)
assistants = st.builds(Msg, st.sampled_from(["Bob", "Eve"]), said, st.just(MsgRole.ASSISTANT), metadata=metadata)
strays = st.builds(Msg, st.just("tool"), st.lists(results, max_size=2), st.just(MsgRole.TOOL))
odd = st.builds(Msg, st.just("Bob"), st.lists(calls | results | sounds | papers, max_size=3), st.sampled_from(MsgRole))


@st.composite
def work(draw: st.DrawFn) -> list[Msg]:
    """A message of calls and its results, mostly in order, in one message or in several."""
    made: list[ToolUseBlock] = draw(st.lists(calls, min_size=1, max_size=3, unique_by=lambda call: call.id))
    answers = [replace(draw(results), id=call.id) for call in made]
    if draw(st.booleans()):
        answers = draw(st.permutations(answers))
    at = draw(st.integers(0, len(answers)))
    groups = [group for group in (answers[:at], answers[at:]) if group]
    content: list[ContentBlock] = [*draw(said), *made]
    return [
        Msg(draw(st.sampled_from(["Bob", "Eve"])), content, MsgRole.ASSISTANT, metadata=draw(metadata)),
        *draw(st.lists(users, max_size=1) if draw(st.integers(0, 9)) == 0 else st.just([])),
        *(Msg("tool", group, MsgRole.TOOL, metadata=draw(metadata)) for group in groups),
    ]


one = (users | assistants | systems | users | strays).map(lambda message: [message])
parts = st.lists(one | work() | work() | work(), max_size=8) | st.lists(
    one | work() | odd.map(lambda m: [m]), max_size=5
)
conversations = parts.map(lambda parts: [message for part in parts for message in part])


@st.composite
def edits(draw: st.DrawFn) -> list[list[Msg]]:
    """A conversation as it grows, is cut, has messages replaced, left out and said twice."""
    messages = draw(conversations)
    seen = [messages[:at] for at in sorted(draw(st.lists(st.integers(0, len(messages)), max_size=4)))]
    for _ in range(draw(st.integers(0, 3))):
        messages = list(messages)
        at = draw(st.integers(0, max(len(messages) - 1, 0)))
        match draw(st.sampled_from(["replace", "cut", "drop", "twice", "other"])):
            case "replace" if messages:
                messages[at] = messages[at].replace(metadata=draw(metadata) or {})
            case "cut":
                messages = messages[at:]
            case "drop" if messages:
                del messages[at]
            case "twice" if messages:
                messages.insert(draw(st.integers(0, len(messages))), messages[at])
            case _:
                messages = draw(conversations)
        seen.append(messages)
    return seen


def body(model: HttpChatModel, messages: Sequence[Msg]) -> bytes | str:
    """The body of a request, or the error in place of one."""
    try:
        return model.exchange(messages, TOOLS, GenerateOptions()).request.body
    except AgentScopeError as error:
        return f"{type(error).__name__}: {error}"


TOOLS = (ToolSchema("look", "Looks.", {"type": "object", "properties": {}}),)


@by_model
@given(seen=edits())
def test_kept_forms_change_no_body(name: str, seen: list[list[Msg]]) -> None:
    model = MODELS[name]()
    for messages in [*seen, *seen]:
        found = body(model, model._kept.prepared(messages))
        assert found == body(MODELS[name](), list(messages))
        if isinstance(found, bytes):
            # the pieces are joined as json would write them
            assert json.dumps(json.loads(found), ensure_ascii=False, separators=(",", ":")).encode() == found


@given(seen=edits())
def test_two_rules_and_two_variants_share_nothing(seen: list[list[Msg]]) -> None:
    model = openai(GENERIC)
    assert isinstance(model, OpenAIChatModel)
    for messages in seen:
        for profile in (GENERIC, QWEN, MISTRAL, GENERIC.but(names=False)):
            model.profile = profile
            assert body(model, model._kept.prepared(messages)) == body(openai(profile), list(messages))


@given(seen=edits())
def test_kept_turns_are_equal_to_those_made_anew(seen: list[list[Msg]]) -> None:
    kept = KeptTurns()
    for messages in seen:
        try:
            expected = turns_of(messages)
        except AgentScopeError as error:
            with pytest.raises(type(error)):
                turns_of(kept.prepared(messages))
        else:
            assert turns_of(kept.prepared(messages)) == expected


def history(turns: int) -> list[Msg]:
    made = [Msg.system("Be brief."), Msg.user("go")]
    for number in range(turns):
        call = ToolUseBlock(f"c{number}", "look", {"n": number})
        made += [Msg.assistant([TextBlock("so"), call]), Msg.tool(ToolResultBlock.of(call, "ok"))]
    return made


@by_model
def test_a_message_is_formatted_once(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model, messages = MODELS[name](), history(20)
    encoded: list[object] = []

    def count(value: object) -> str:
        encoded.append(value)
        return encode_json(value)

    body(model, model._kept.prepared(messages))
    monkeypatch.setattr(kept_turns, "_make", None)
    monkeypatch.setattr("agentscope_rx.models.wire.pieces.encode_json", count)
    body(model, model._kept.prepared(messages))
    assert not [value for value in encoded if isinstance(value, Piece)]


def test_messages_that_are_gone_are_not_kept() -> None:
    model, messages = MODELS["anthropic"](), history(20)
    for count in range(2, len(messages) + 1):
        body(model, model._kept.prepared(messages[:count]))
    assert len(model._kept) == len(messages)
    gone = [weakref.ref(message) for message in messages[5:]]
    del messages[5:]
    gc.collect()
    assert not any(message() for message in gone)
    assert len(model._kept) == 5
    del messages
    gc.collect()
    assert len(model._kept) == 0


def test_a_kept_message_keeps_no_model_alive() -> None:
    model, messages = MODELS["ollama"](), history(2)
    body(model, model._kept.prepared(messages))
    kept = weakref.ref(model)
    del model
    gc.collect()
    assert kept() is None


def test_the_number_of_kept_messages_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_turns, "MAX_MESSAGES", 10)
    model, messages = MODELS["generic"](), history(20)
    assert body(model, model._kept.prepared(messages)) == body(MODELS["generic"](), messages)
    assert len(model._kept) <= 10


def test_a_piece_is_encoded_once_and_cannot_change(monkeypatch: pytest.MonkeyPatch) -> None:
    piece = Piece({"role": "user", "content": "é"})
    assert (
        body_text(Envelope(a=Pieces([piece, {"b": [1]}]), c=None))
        == '{"a":[{"role":"user","content":"é"},{"b":[1]}],"c":null}'
    )
    assert piece.json() is piece.json()
    with pytest.raises(TypeError):
        piece["role"] = "system"
    large = Piece({"data": "x" * MAX_KEPT})
    assert large.json() == large.json()
    assert large.json() is not large.json()


def test_names_that_are_no_text_are_left_to_json() -> None:
    assert body_text(Envelope({1: Pieces([Piece({"a": 1})])})) == '{"1":[{"a":1}]}'  # type: ignore[dict-item]
