"""Questions of the model: asked with options, answered by a checked result, now or after a restart."""

from __future__ import annotations

import re
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentscope_rx import GenerateReason, Msg, ReActAgent, tool
from agentscope_rx.errors import InvalidInputError
from agentscope_rx.messages import ToolResultBlock, ToolResultKind, ToolUseBlock
from agentscope_rx.session import InMemorySession
from agentscope_rx.testing import ScriptedModel, call, run_virtual
from agentscope_rx.tools import UserQuestion, answer_question, ask_user, prefixed, questions_of
from tests.agent.parts import assert_whole

CITY = UserQuestion("call_1", "Which city?", ("Berlin", "Paris"), allow_free_text=False)


def friday(*turns: object, tools: object = (ask_user,), **options) -> ReActAgent:
    return ReActAgent("Friday", ScriptedModel(*turns), tools=tools, **options)  # pyright: ignore[reportArgumentType]


def city(**options: object) -> ToolUseBlock:
    return call("ask_user", question="Which city?", options=["Berlin", "Paris"], **options)


def sent(agent: ReActAgent) -> list[ToolResultBlock]:
    return [result for message in agent.model.requests[-1].messages for result in message.tool_results]


def test_a_question_suspends_the_run_until_it_is_answered():
    async def main() -> None:
        agent = friday(city(allow_free_text=False), "Berlin it is.")
        reply = await agent.call("Book a trip.")
        assert reply.generate_reason is GenerateReason.TOOL_SUSPENDED
        (placeholder,) = reply.tool_results
        assert placeholder.text == "Which city?" and placeholder.kind is ToolResultKind.SUSPENDED
        assert placeholder.metadata["question"] == {
            "question": "Which city?",
            "options": ["Berlin", "Paris"],
            "allow_free_text": False,
            "multiple": False,
        }
        (question,) = questions_of(reply)
        assert question == UserQuestion.of(reply.pending_calls[0]) == UserQuestion.of((await agent.pending_calls())[0])
        reply = await agent.call(answer_question(reply.pending_calls[0], " berlin "))
        assert reply.text == "Berlin it is."
        (result,) = sent(agent)
        assert (result.text, result.kind, result.metadata["answer"]) == ("Berlin", None, "Berlin")
        assert_whole(agent)

    run_virtual(main())


def test_several_questions_are_answered_together_or_one_by_one():
    async def main() -> None:
        agent = friday([city(), call("ask_user", question="When?")], "Booked.", [city(), city()], "Done.")
        reply = await agent.call("Book a trip.")
        where, when = questions_of(reply)
        await agent.call([where.answer("Rome"), when.answer("In May")])
        assert [result.text for result in sent(agent)] == ["Rome", "In May"]
        reply = await agent.call("Another.")
        first, second = questions_of(reply)
        reply = await agent.call(first.answer("Paris"))
        assert [each.call_id for each in questions_of(reply)] == [second.call_id]
        await agent.call(second.decline("Ask me tomorrow."))
        refused = sent(agent)[-1]
        assert refused.kind is ToolResultKind.REJECTED
        assert refused.text == "Error: The user did not answer. Ask me tomorrow."
        assert_whole(agent)

    run_virtual(main())


def test_several_options_may_be_chosen():
    async def main() -> None:
        agent = friday(city(multiple=True), "Both.")
        (question,) = questions_of(await agent.call("Book a trip."))
        await agent.call(question.answer(["PARIS", "Berlin", "Paris"]))
        assert sent(agent)[0].text == "Paris\nBerlin" and sent(agent)[0].metadata["answer"] == ["Paris", "Berlin"]

    run_virtual(main())


def test_a_call_without_input_asks_again():
    async def main() -> None:
        agent = friday(city(), "Done.")
        first = questions_of(await agent.call("Book a trip."))
        assert questions_of(await agent.call()) == first
        await agent.call(first[0].answer("Paris"))

    run_virtual(main())


def test_a_question_waits_over_a_restart():
    async def main() -> None:
        session = InMemorySession()
        first = friday(city())
        await first.bind(session, "ann")
        await first.call("Book a trip.")
        second = friday("Paris, then.")
        await second.bind(session, "ann")
        (waiting,) = await second.pending_calls()
        assert (await second.call(answer_question(waiting, "Paris"))).text == "Paris, then."

    run_virtual(main())


def test_the_question_of_a_sub_agent_is_answered_by_its_id():
    async def main() -> None:
        inner = friday(city(), "Paris.")
        outer = friday(call("inner", message="Ask."), "Done.", tools=[inner.as_tool(name="inner", description="x")])
        reply = await outer.call("Go.")
        (question,) = questions_of(reply)
        assert question.text == "Which city?" and "/" in question.call_id
        assert (await outer.call(question.answer("Paris"))).text == "Done."

    run_virtual(main())


def test_a_renamed_tool_is_answered_under_its_name():
    async def main() -> None:
        agent = friday(call("ui_ask_user", question="When?"), "Done.", tools=prefixed("ui_", ask_user))
        (question,) = questions_of(await agent.call("Go."))
        assert question.tool == "ui_ask_user"
        await agent.call(question.answer("Now"))
        assert sent(agent)[0].name == "ui_ask_user"

    run_virtual(main())


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"question": " "}, "question is empty"),
        ({"question": "a?", "options": ["x", "X "]}, "none twice"),
        ({"question": "a?", "options": [" "]}, "none empty"),
        ({"question": "a?", "allow_free_text": False}, "give options"),
        ({"question": "a?", "multiple": True}, "needs options"),
        ({"question": "a?", "options": "x"}, "options"),
        ({"options": ["x"]}, "question"),
    ],
)
def test_a_question_that_cannot_be_answered_goes_back(arguments: Mapping[str, object], said: str):
    async def main() -> None:
        agent = friday(call("ask_user", **arguments), "Hm.")
        assert (await agent.call("Go.")).text == "Hm."
        assert sent(agent)[0].is_error and said in sent(agent)[0].text

    run_virtual(main())


@pytest.mark.parametrize(
    ("question", "answer", "said"),
    [
        (CITY, "Rom", "'Rom' does not answer the question 'Which city?'. The options are 'Berlin', 'Paris'"),
        (CITY, "Pariss", "Did you mean 'Paris'"),
        (CITY, "", "needs text"),
        (CITY, 5, "needs text as its answer, not 5"),
        (CITY, ["Berlin", "Paris"], "takes one answer, not 2"),
        (UserQuestion("c", "Which?", ("a", "b"), multiple=True), [], "at least one answer"),
        (UserQuestion("c", "When?"), " \n", "needs text"),
    ],
)
def test_an_answer_that_does_not_fit_is_refused(question: UserQuestion, answer: str, said: str):
    with pytest.raises(InvalidInputError, match=re.escape(said)):
        question.answer(answer)


def test_other_calls_ask_nothing():
    @tool(requires_approval=True)
    def delete(path: str) -> str:
        """Delete a file."""
        return "gone"

    async def main() -> None:
        agent = friday([call("delete", path="a"), city()], "Done.", tools=[delete, ask_user])
        reply = await agent.call("Go.")
        assert [question.text for question in questions_of(reply)] == ["Which city?"]
        with pytest.raises(InvalidInputError, match="asks the user nothing"):
            answer_question(reply.pending_calls[0], "yes")
        assert questions_of(Msg.user("Hi.")) == ()

    run_virtual(main())


@given(
    st.lists(st.text(min_size=1).map(str.strip).filter(bool), unique_by=str.casefold, max_size=5),
    st.booleans(),
    st.booleans(),
    st.data(),
)
def test_every_option_is_an_answer_to_a_question(options: list[str], free: bool, multiple: bool, data: st.DataObject):
    question = UserQuestion("c", "Which?", tuple(options), free, multiple)
    if question.problem():
        return
    for option in options:
        assert question.check(data.draw(st.sampled_from([option, f" {option}\n"]))) == (option,)
    assert UserQuestion.of(ToolResultBlock("c", "ask_user", metadata={"question": question.to_dict()})) == question
    assert UserQuestion.of(ToolUseBlock("c", "ask_user", question.to_dict())) == question


def test_a_question_is_answered_as_its_call_is():
    message = answer_question(CITY, " berlin ")
    assert message.tool_results == CITY.answer("Berlin").tool_results
