"""Speech: sentences, the port, providers on the wire, eSpeak, and the hook that speaks while text streams."""

from __future__ import annotations

import asyncio
import base64
import gc
import io
import json
import os
import shutil
import stat
import time
import warnings
import wave
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from reactivex import Observable

from agentscope_rx import ExecutionConfig, Msg, ReActAgent
from agentscope_rx.errors import (
    AuthenticationError,
    ConfigurationError,
    ModelConnectionError,
    ModelError,
    ModelHTTPError,
    ModelTimeoutError,
    ProtocolError,
    ServerError,
    SetupError,
)
from agentscope_rx.hooks.shipped.tts import TTSHook
from agentscope_rx.messages import AudioBlock, Base64Source
from agentscope_rx.models.response import ChatResponse, RetryNotice
from agentscope_rx.models.speech import (
    DashScopeTTSModel,
    EspeakTTSModel,
    OpenAITTSModel,
    Sentences,
    TTSModel,
    without_marks,
)
from agentscope_rx.reactive import (
    ENGINE_WORKERS,
    Flow,
    concat,
    concat_map,
    defer,
    from_async_iterable,
    just,
    never,
    throw,
    timer,
)
from agentscope_rx.testing import HANG, Delay, ScriptedModel, call, collect_dropped, run_virtual, verify
from tests.support.json_server import JsonServer

ONCE = ExecutionConfig(max_attempts=1)


def split(*pieces: str, longest: int = 300) -> list[str]:
    sentences = Sentences(longest)
    return [s for piece in pieces for s in sentences.take(piece)] + sentences.rest()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("One. Two! Three? Four", ["One. ", "Two! ", "Three? ", "Four"]),
        ("It is 3.14 at a.b.c. Yes", ["It is 3.14 at a.b.c. ", "Yes"]),
        ('He said "go." Then', ['He said "go." ', "Then"]),
        ("你好。今天怎么样？很好！", ["你好。", "今天怎么样？", "很好！"]),
        ("「はい。」次", ["「はい。」", "次"]),
        ("Title\n\nText", ["Title\n\n", "Text"]),
        ("Wait... what", ["Wait... ", "what"]),
        ("", []),
        ("  \n", []),
        ("aaaa, " * 5, ["aaaa, aaaa, aaaa, ", "aaaa, aaaa, "]),
        ("a" * 45, ["a" * 20, "a" * 20, "a" * 5]),
    ],
)
def test_sentences(text: str, expected: list[str]) -> None:
    assert split(text, longest=20 if text[:2] in ("aa",) else 300) == expected


@given(st.text(st.sampled_from("ab .!?。！”\n,，」 "), max_size=120), st.data(), st.integers(20, 60))
def test_the_cut_into_pieces_loses_no_letter(text: str, data: Any, longest: int) -> None:
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=6)))
    pieces = [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    whole = split(text, longest=longest)
    assert split(*pieces, longest=longest) == whole
    assert "".join(whole).rstrip() == text.rstrip()
    assert all(0 < len(sentence) <= longest for sentence in whole)


def test_marks_are_not_read_out() -> None:
    text = "# Soup\n- **hot** and `fresh`, see [the menu](http://x/y)\n```python\n> ok snake_case"
    assert without_marks(text) == "Soup hot and fresh, see the menu ok snake_case"


def sound(text: str) -> AudioBlock:
    return AudioBlock(Base64Source.of(text.encode(), "audio/wav"))


def heard(block: AudioBlock) -> str:
    assert isinstance(block.source, Base64Source)
    return block.source.decode().decode()


class Voice(TTSModel):
    """Says each text as its own words, after a second."""

    def __init__(self, *failures: Exception, **options: Any) -> None:
        super().__init__("voice", **options)
        self.failures = list(failures)
        self.asked: list[str] = []

    def do_synthesize(self, text: str) -> Flow[AudioBlock]:
        self.asked.append(text)
        if self.failures:
            return throw(self.failures.pop(0))
        return timer(1.0).pipe(concat_map(lambda _: sound(text)))


async def listened(flow: Flow[AudioBlock]) -> list[str]:
    return [heard(block) async for block in flow]


def test_a_text_at_once_is_cut_by_what_a_request_may_hold() -> None:
    voice = Voice(max_characters=30)
    assert run_virtual(listened(voice.synthesize("One two. Three four. Five six seven. Eight."))) == [
        "One two. Three four.",
        "Five six seven. Eight.",
    ]
    assert run_virtual(listened(voice.synthesize(" \n... "))) == []


def test_a_text_that_is_being_written_is_spoken_by_sentences() -> None:
    async def main() -> tuple[list[tuple[float, str]], list[str]]:
        voice = Voice()
        text = concat(just("One. T"), timer(10).pipe(concat_map(lambda _: "wo. ")), just("Three"))
        spoken: list[tuple[float, str]] = []
        async for block in voice.synthesize(text):
            spoken.append((asyncio.get_running_loop().time(), heard(block)))
        return spoken, voice.asked

    spoken, asked = run_virtual(main())
    assert asked == ["One.", "Two.", "Three"]
    assert [text for _, text in spoken] == asked
    start = spoken[0][0]
    assert [round(at - start) for at, _ in spoken] == [0, 10, 11]


def test_retry_failure_deadline_and_the_texts_own_error() -> None:
    again = Voice(ServerError("no", status=500))
    assert run_virtual(listened(again.synthesize("Hi."))) == ["Hi."]
    assert again.asked == ["Hi.", "Hi."]
    verify(Voice(AuthenticationError("no", status=401)).synthesize("Hi.")).expect_error(AuthenticationError).run()
    verify(Voice().synthesize(throw(ValueError("text")))).expect_error(ValueError).run()

    class Mute(TTSModel):
        def do_synthesize(self, text: str) -> Flow[AudioBlock]:
            return never()

    async def late() -> None:
        with pytest.raises(ModelTimeoutError):
            await listened(Mute("mute", execution_config=ExecutionConfig(timeout=5, max_attempts=1)).synthesize("a"))

    run_virtual(late())


def test_disposal_leaves_the_text() -> None:
    left: list[str] = []

    async def writing() -> AsyncGenerator[str]:
        try:
            yield "One. Two. "
            await asyncio.sleep(1000)
        finally:
            left.append("text")

    async def main() -> None:
        async with Voice().synthesize(from_async_iterable(writing)) as blocks:
            async for _ in blocks:
                break

    run_virtual(main())
    assert left == ["text"]


# providers


def test_openai_puts_on_the_wire_what_the_sdk_does() -> None:
    sdk = pytest.importorskip("openai")
    with JsonServer(lambda path, body: b"RIFF-sound") as server:
        model = OpenAITTSModel(
            "tts-1", voice="nova", format="wav", speed=1.5, instructions="Gently.", api_key="k", base_url=server.url
        )
        (block,) = model.synthesize("Hello. 你好").pipe(concat_map(lambda b: (b,))).run()
        client = sdk.OpenAI(base_url=server.url, api_key="k", max_retries=0)
        client.audio.speech.create(
            model="tts-1", voice="nova", input="Hello. 你好", response_format="wav", speed=1.5, instructions="Gently."
        )
        client.close()
    ours, theirs = server.asked
    assert (ours.path, ours.body) == (theirs.path, theirs.body)
    assert block == AudioBlock(Base64Source.of(b"RIFF-sound", "audio/wav"))


def test_openai_samples_are_whole() -> None:
    """Two bytes are a sample of pcm: no chunk ends within one."""
    with JsonServer(lambda path, body: bytes(range(101))) as server:
        model = OpenAITTSModel(api_key="k", base_url=server.url)
        found = [b.source.decode() for b in asyncio.run(collected(model.synthesize("Hi.")))]
    assert b"".join(found) == bytes(range(101))
    assert all(len(piece) % 2 == 0 for piece in found[:-1])


@pytest.mark.parametrize(
    ("answer", "kind"), [((401, {"error": {"message": "no"}}), AuthenticationError), ((500, {}), ServerError)]
)
def test_openai_errors(answer: Any, kind: type[Exception]) -> None:
    with JsonServer(lambda path, body: answer) as server:
        model = OpenAITTSModel(api_key="k", base_url=server.url, execution_config=ONCE)
        with pytest.raises(kind) as caught:
            model.synthesize("Hi.").run()
    assert caught.value.model == "gpt-4o-mini-tts"  # pyright: ignore[reportAttributeAccessIssue]


def test_openai_configuration() -> None:
    with pytest.raises(ConfigurationError, match="OPENAI_API_KEY"):
        OpenAITTSModel(api_key="")
    with pytest.raises(ConfigurationError, match="format"):
        OpenAITTSModel(api_key="k", format="ogg")  # pyright: ignore[reportArgumentType]


async def collected(flow: Flow[AudioBlock]) -> list[Any]:
    return [block async for block in flow]


def events(*outputs: dict[str, Any]) -> bytes:
    return b"".join(f"data:{json.dumps(output)}\n\n".encode() for output in outputs)


def audio(**fields: Any) -> dict[str, Any]:
    return {"output": {"audio": fields}, "request_id": "r"}


def test_dashscope_streams() -> None:
    one, two = base64.b64encode(b"\1\2").decode(), base64.b64encode(b"\3\4").decode()
    answer = events(audio(data=one), audio(data=two), audio(data="", url="http://127.0.0.1:1/x.wav"))
    with JsonServer(lambda path, body: answer) as server:
        model = DashScopeTTSModel(voice="Ethan", language="English", base_url=f"{server.url}/api/v1", api_key="k")
        blocks = asyncio.run(collected(model.synthesize("Hi.")))
    assert [b.source.decode() for b in blocks] == [b"\1\2", b"\3\4"]
    (asked,) = server.asked
    assert asked.path == "/api/v1/services/aigc/multimodal-generation/generation"
    assert asked.headers["x-dashscope-sse"] == "enable"
    assert asked.body == {
        "model": "qwen3-tts-flash",
        "input": {"text": "Hi.", "voice": "Ethan", "language_type": "English"},
    }


def test_dashscope_fetches_what_is_an_address(monkeypatch: pytest.MonkeyPatch) -> None:
    """The signed address is asked without the key; if it cannot be fetched, that is an error (§8: ignored)."""
    # the vendor's storage is a public address; here it is on loopback
    monkeypatch.setattr("agentscope_rx.models.transport.fetch.is_public", lambda address: True)
    places: list[str] = []

    def answer(path: str, body: Any) -> Any:
        return audio(data="", url=f"{places[0]}/x.wav") if body else b"RIFF"

    with JsonServer(answer) as server:
        places.append(server.url)
        model = DashScopeTTSModel(stream=False, fetch=True, base_url=server.url, api_key="k")
        block = model.synthesize("Hi.").run()
        assert block == AudioBlock(Base64Source.of(b"RIFF", "audio/wav"))
        assert "authorization" not in server.asked[1].headers
        places[0] = "http://127.0.0.1:1"
        gone = DashScopeTTSModel(stream=False, fetch=True, base_url=server.url, api_key="k", execution_config=ONCE)
        with pytest.raises(ModelConnectionError):
            gone.synthesize("Hi.").run()


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (events({"code": "InvalidParameter", "message": "no such voice", "request_id": "r"}), ModelHTTPError),
        (events(audio()), ProtocolError),
        (events({"output": []}), ProtocolError),
        (b"data: nonsense\n\n", ProtocolError),
    ],
)
def test_dashscope_errors(answer: bytes, kind: type[Exception]) -> None:
    with JsonServer(lambda path, body: answer) as server:
        model = DashScopeTTSModel(base_url=server.url, api_key="k", execution_config=ONCE)
        with pytest.raises(kind):
            model.synthesize("Hi.").run()


# eSpeak: a stand-in, and the real one where it is installed


def stand_in(folder: Path, script: str) -> str:
    program = folder / "espeak-stand-in"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return str(program)


def test_espeak_speaks(tmp_path: Path) -> None:
    log = tmp_path / "log"
    model = EspeakTTSModel("de", speed=120, program=stand_in(tmp_path, f'echo "$@" > {log}; printf RIFF; cat'))
    block = model.synthesize("Guten Tag. -x; $(id)").run()
    assert heard(block) == "RIFFGuten Tag. -x; $(id)"
    assert log.read_text().split() == ["-v", "de", "-s", "120", "-p", "50", "-b", "1", "--stdin", "--stdout"]


def test_espeak_failures(tmp_path: Path) -> None:
    missing = EspeakTTSModel(program=str(tmp_path / "nothing"))
    with pytest.raises(SetupError, match="apt install espeak-ng"):
        missing.synthesize("Hi.").run()
    failing = EspeakTTSModel("xx", program=stand_in(tmp_path, "echo 'no such voice' >&2; exit 1"))
    with pytest.raises(ModelError, match="no such voice"):
        failing.synthesize("Hi.").run()
    silent = EspeakTTSModel(program=stand_in(tmp_path, "cat > /dev/null"))
    with pytest.raises(ModelError, match="no sound"):
        silent.synthesize("Hi.").run()
    for wrong in ({"voice": "-w/tmp/x"}, {"voice": ""}, {"speed": 1}, {"pitch": 100}):
        with pytest.raises(ConfigurationError):
            EspeakTTSModel(**wrong)  # pyright: ignore[reportArgumentType]


def test_espeak_is_ended_when_it_is_left(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    model = EspeakTTSModel(program=stand_in(tmp_path, f"echo $$ > {pid}; exec sleep 60"))

    async def main() -> None:
        task = model.synthesize("Hi.").as_task()
        while not (pid.exists() and pid.read_text().strip()):  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        try:
            os.kill(int(pid.read_text()), 0)
        except ProcessLookupError:
            return
        time.sleep(0.01)
    raise AssertionError("it still runs")


@pytest.mark.parametrize("turns", range(1, 12))
@pytest.mark.parametrize("times", [0, 1, 2])
def test_espeak_is_left_while_it_starts(turns: int, times: int, tmp_path: Path) -> None:
    """With `times=0` the loop itself ends: asyncio's own processes would keep it from ending."""
    model = EspeakTTSModel(program=stand_in(tmp_path, "sleep 600 & exec sleep 600"))

    async def main() -> None:
        task = model.synthesize("Hi.").as_task()
        for _ in range(turns):
            await asyncio.sleep(0)
        for _ in range(times):
            task.cancel()
            await asyncio.sleep(0)

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        asyncio.run(main())
        gc.collect()
    assert [str(warning.message) for warning in caught] == []
    # its thread ends with the process, and with all that hold its pipes
    while ENGINE_WORKERS.statistics().running:
        time.sleep(0.01)


@pytest.mark.skipif(shutil.which("espeak-ng") is None, reason="eSpeak NG is not installed")
def test_the_real_espeak() -> None:
    block = EspeakTTSModel().synthesize("Hello there. How are you?").run()
    assert isinstance(block.source, Base64Source)
    with wave.open(io.BytesIO(block.source.decode())) as found:
        assert 0.5 < found.getnframes() / found.getframerate() < 5
    with pytest.raises(ModelError, match="voice"):
        EspeakTTSModel("nosuch").synthesize("Hi.").run()


# the hook


class Player:
    """Plays each sound for `seconds`, and notes when it began and what it was."""

    def __init__(self, seconds: float = 2.0) -> None:
        self.seconds = seconds
        self.begun: list[tuple[float, str]] = []
        self.played: list[str] = []

    async def __call__(self, block: AudioBlock) -> None:
        self.begun.append((asyncio.get_running_loop().time(), heard(block)))
        await asyncio.sleep(self.seconds)
        self.played.append(heard(block))


def test_it_speaks_while_the_text_streams_and_holds_nothing_up() -> None:
    async def main() -> None:
        player = Player(seconds=100)
        hook = TTSHook(Voice(), player)
        model = ScriptedModel(["One", ". Two", ". **Th", "ree**.", Delay(5), " Four"])
        agent = ReActAgent("A", model, hooks=[hook])
        loop = asyncio.get_running_loop()
        start = loop.time()
        shown = [event.text async for event in agent.stream("Hi") if event.type == "reasoning_chunk"]
        # five seconds of the model's; the voice needs minutes
        assert loop.time() - start == pytest.approx(5)
        assert "".join(shown) == "One. Two. **Three**. Four"
        assert hook.speaking
        assert player.begun[0] == (pytest.approx(start + 1), "One.")
        await hook.idle()
        assert player.played == ["One.", "Two.", "Three.", "Four"]
        assert not hook.speaking

    run_virtual(main())


def test_text_before_a_tool_and_after_it() -> None:
    async def main() -> list[str]:
        player = Player()
        hook = TTSHook(Voice(), player)
        agent = ReActAgent("A", ScriptedModel(["Let me look", call("nothing")], "It is gone."), hooks=[hook])
        await agent.call("Hi")
        await hook.idle()
        return player.played

    assert run_virtual(main()) == ["Let me look", "It is gone."]


def test_interruption_stops_the_voice_at_once() -> None:
    async def main() -> None:
        player = Player(seconds=100)
        hook = TTSHook(Voice(), player)
        agent = ReActAgent("A", ScriptedModel(["One. Two. ", HANG]), hooks=[hook])
        task = agent.call("Hi").as_task()
        await asyncio.sleep(5)
        assert [text for _, text in player.begun] == ["One."]
        agent.interrupt()
        await task
        assert not hook.speaking
        await hook.idle()
        await asyncio.sleep(1000)
        assert player.played == []

    run_virtual(main())


def test_the_next_call_silences_the_last_reply() -> None:
    async def main(barge_in: bool) -> list[str]:
        player = Player(seconds=10)
        hook = TTSHook(Voice(), player, barge_in=barge_in)
        agent = ReActAgent("A", ScriptedModel("One. Two. Three.", "Four."), hooks=[hook])
        await agent.call("Hi")
        await asyncio.sleep(12)
        await agent.call("And?")
        await hook.idle()
        return player.played

    assert run_virtual(main(True)) == ["One.", "Four."]
    assert run_virtual(main(False)) == ["One.", "Two.", "Three.", "Four."]


def test_a_failing_run_stops_the_voice() -> None:
    async def main() -> None:
        player = Player(seconds=100)
        hook = TTSHook(Voice(), player)
        agent = ReActAgent("A", ScriptedModel(["One. Two. ", Delay(3), ValueError("no")]), hooks=[hook])
        with pytest.raises(ValueError, match="no"):
            await agent.call("Hi")
        assert not hook.speaking
        await asyncio.sleep(1)
        assert player.played == []

    run_virtual(main())


def test_a_discarded_attempt_is_not_said_to_the_end() -> None:
    async def main() -> list[str]:
        player = Player()
        hook = TTSHook(Voice(), player)
        void = ChatResponse(retry=RetryNotice(1, 0.0, ValueError("x"), discarded=True))
        agent = ReActAgent("A", ScriptedModel(["Wrong. Half a", Delay(0.5), void, "Right."]), hooks=[hook])
        await agent.call("Hi")
        await hook.idle()
        return player.played

    assert run_virtual(main()) == ["Right."]


def test_a_voice_that_fails_spoils_no_reply() -> None:
    """Python §1.14: a TTS failure fails the reply; here it is heard of, and the reply is there."""

    async def main(**options: Any) -> str:
        hook = TTSHook(Voice(*[AuthenticationError("no key", status=401)] * 2), Player(), **options)
        agent = ReActAgent("A", ScriptedModel(["One. ", Delay(3), "Two. Three."]), hooks=[hook])
        reply = await agent.call("Hi")
        await hook.idle()
        return reply.text

    errors: list[Exception] = []
    assert run_virtual(main(on_error=errors.append)) == "One. Two. Three."
    assert [type(error) for error in errors] == [AuthenticationError]
    with collect_dropped() as dropped:
        assert run_virtual(main()) == "One. Two. Three."
        assert [type(error) for error in dropped] == [AuthenticationError]


def test_what_plays_may_be_plain_or_a_flow() -> None:
    async def main(play: Any) -> None:
        hook = TTSHook(Voice(), play)
        await ReActAgent("A", ScriptedModel("One. Two."), hooks=[hook]).call("Hi")
        await hook.idle()

    plain: list[str] = []
    run_virtual(main(lambda block: plain.append(heard(block))))
    flows: list[str] = []

    def as_flow(block: AudioBlock) -> Observable[Any]:
        return defer(lambda: just(flows.append(heard(block))))

    run_virtual(main(as_flow))
    assert plain == flows == ["One.", "Two."]


def test_in_a_script() -> None:
    heard_: list[str] = []

    class Quick(TTSModel):
        def do_synthesize(self, text: str) -> Flow[AudioBlock]:
            return just(sound(text))

    hook = TTSHook(Quick("quick"), lambda block: heard_.append(heard(block)))
    ReActAgent("A", ScriptedModel("One. Two."), hooks=[hook]).call(Msg.user("Hi")).run()
    hook.idle().run()
    assert heard_ == ["One.", "Two."]
    hook.stop()


def test_what_the_hook_takes() -> None:
    with pytest.raises(ConfigurationError, match="TTSModel"):
        TTSHook("voice", print)  # pyright: ignore[reportArgumentType]
