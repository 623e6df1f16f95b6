"""Marble diagrams: turns of a scripted model, and their times."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from reactivex import operators as ops

from agentscope_rx import Msg, ReActAgent, tool
from agentscope_rx.errors import ConfigurationError, ModelConnectionError, RateLimitError
from agentscope_rx.messages import TextBlock
from agentscope_rx.models import ExecutionConfig
from agentscope_rx.testing import ScriptedModel, call, run_virtual, verify
from agentscope_rx.testing.marbles import Marble, marbles_of

HI = [Msg.user("hi")]


async def heard(model: ScriptedModel) -> list[tuple[float, Any]]:
    """The text of each chunk with its time, then the end."""
    loop = asyncio.get_running_loop()
    began = loop.time()
    found: list[tuple[float, Any]] = []
    try:
        async for chunk in model.stream(HI):
            (block,) = chunk.content
            found.append((loop.time() - began, block.text if isinstance(block, TextBlock) else block))
    except ModelConnectionError as error:
        found.append((loop.time() - began, type(error)))
    else:
        found.append((loop.time() - began, "|"))
    return found


def test_elements_come_at_their_times():
    model = ScriptedModel.marbles("--a-b-|", "-(a,b)-#", frame=0.5)
    assert run_virtual(heard(model)) == [(1.0, "a"), (2.0, "b"), (3.0, "|")]
    assert run_virtual(heard(model)) == [(0.5, "a"), (0.5, "b"), (3.5, ModelConnectionError)]
    model.assert_complete()


def test_times_do_not_drift():
    model = ScriptedModel.marbles("-" * 499 + "a" + "-a" * 1000 + "|", frame=0.1, repeat=True)
    times = [at for at, _ in run_virtual(heard(model))]
    assert times == pytest.approx([0.1 * (499 + 2 * n) for n in range(1001)] + [0.1 * 2500], abs=1e-9)


def test_values_are_steps():
    weather = call("weather", "c1", city="Paris")
    model = ScriptedModel.marbles("-a-(b,c)|", "d|", values={"a": "It is ", "b": weather, "c": ["x", "y"]})
    assert [value for _, value in run_virtual(heard(model))] == ["It is ", weather, "x", "y", "|"]
    assert [value for _, value in run_virtual(heard(model))] == ["d", "|"]


@pytest.mark.parametrize("text", ["hello", "007", "1e5", "infinity", "1_0", "日本"])
def test_an_element_is_the_text_that_was_written(text: str):
    assert run_virtual(heard(ScriptedModel.marbles(f"-{text}-|")))[0][1] == text


def test_an_error_of_ones_own_ends_the_turn():
    model = ScriptedModel.marbles("a#", error=RateLimitError("later", status=429))
    verify(model.stream(HI)).expect_count(1).expect_error(RateLimitError, match="later").run()


def test_a_turn_without_an_end_has_none():
    config = ExecutionConfig(timeout=None, first_chunk_timeout=None, idle_timeout=None, total_timeout=None)
    for diagram in ("-a-", "a", "-"):
        model = ScriptedModel.marbles(diagram, execution_config=config)
        script = verify(model.stream(HI)).expect_count(diagram.count("a")).expect_no_event(for_=86_000)
        script.then_dispose().run()
        assert len(model.closed) == 1


def test_an_agent_runs_on_marbles():
    @tool
    def look() -> str:
        """Looks."""
        return "sunny"

    model = ScriptedModel.marbles("--c|", "(It is ,sunny)|", values={"c": call("look")}, model_name="m", repeat=True)
    assert run_virtual(ReActAgent("Friday", model, tools=[look]).call("hi")).text == "Itissunny"
    assert model.model_name == "m" and model.repeat


def texts(*turns: str) -> Any:
    return ScriptedModel.marbles(*turns).stream(HI).pipe(ops.map(lambda chunk: chunk.content[0].text))


def test_a_diagram_is_what_a_flow_must_emit():
    verify(texts("--a-(b,c)-|")).expect_marbles("--a-(b,c)-|").run()
    verify(texts("-a-#")).expect_marbles("-a-#", error=ModelConnectionError).run()
    verify(texts("-a-b|")).expect_next("a").expect_marbles("---b|").run()
    values = {"a": str, "b": lambda text: text.isupper(), "c": "see"}
    verify(texts("a-B-see|")).expect_marbles("a-b-c--|", values=values).run()


@pytest.mark.parametrize(
    ("expected", "given", "says"),
    [
        ("--a-b-|", {}, "expect_marbles, a at 0.2 s: received next 'a' at 0.1 s"),
        ("-a-c-|", {}, "expect_marbles, c at 0.3 s: received next 'b' at 0.3 s"),
        ("-a-b|", {}, "expect_marbles, completed at 0.4 s: received completed at 0.5 s"),
        ("-a-|", {}, "expect_marbles, completed at 0.3 s: received next 'b'"),
        ("-a-b-#", {}, "expect_marbles, error at 0.5 s: received completed"),
        ("-a-b-|", {"values": {"a": int}}, "expect_marbles, a at 0.1 s: received next 'a'"),
    ],
)
def test_what_differs_from_a_diagram_is_shown(expected: str, given: Any, says: str):
    with pytest.raises(AssertionError, match=re.escape(says)):
        verify(texts("-a-b-|")).expect_marbles(expected, **given).run()


def test_a_diagram_to_expect_has_an_end():
    for diagram in ("", "-a-"):
        with pytest.raises(ConfigurationError, match="needs an end to expect"):
            verify(texts("a|")).expect_marbles(diagram)


@pytest.mark.parametrize(
    ("diagram", "given", "says"),
    [
        ("-a,b|", {}, "is no marble diagram: Comma is only allowed in group"),
        ("-a|-b", {}, "is no marble diagram: Elements cannot be declared after"),
        ("-(a", {}, "has a bracket without its other half"),
        ("-a)", {}, "has a bracket without its other half"),
        ("-((a))", {}, "has a bracket without its other half"),
        ("-a|", {"frame": 0}, "frame must be a number of seconds above 0"),
        ("-(ab)|", {"values": {"a": "x", "b": "y"}}, r"Separate several by commas in a group: '\(a,b\)'"),
        (3, {}, "A marble diagram is text"),
        ("", {}, "A marble diagram must not be empty"),
        (" ", {}, "A marble diagram must not be empty"),
        ("-ab|", {"values": {"a": "x", "ab": "y"}}, r"No marble diagram has the elements \['a'\]"),
        ("-a|", {"values": {"a": 3}}, "3 is not a step of a script"),
    ],
)
def test_what_is_no_diagram_is_refused(diagram: Any, given: Any, says: str):
    with pytest.raises(ConfigurationError, match=says):
        ScriptedModel.marbles(diagram, **given)


items = st.lists(st.one_of(st.integers(1, 5).map("-".__mul__), st.sampled_from("abc")), max_size=12)


@given(items, st.sampled_from(["|", "#", ""]), st.sampled_from([0.1, 1.0, 2.5]))
def test_each_character_is_a_frame(parts: list[str], end: str, frame: float):
    # letters side by side are one element
    diagram = "".join(f"{part}-" if part in "abc" else part for part in parts) + end
    marbles = marbles_of(f" {diagram} ", frame)
    kinds = {"|": "completed", "#": "error"}
    expected = [
        Marble(at * frame, kinds.get(sign, "next"), "" if sign in kinds else sign)  # type: ignore[arg-type]
        for at, sign in enumerate(diagram)
        if sign != "-"
    ]
    assert marbles == expected
