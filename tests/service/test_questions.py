"""A question of the model over HTTP: read from the events, answered by a message."""

from __future__ import annotations

import json

from agentscope_rx import ReActAgent
from agentscope_rx.events import PostCallEvent
from agentscope_rx.messages import GenerateReason
from agentscope_rx.service import create_app
from agentscope_rx.testing import ScriptedModel, call
from agentscope_rx.tools import ask_user, questions_of
from tests.service.serving import ask, events_of, served, sse


def test_a_question_is_answered_over_http():
    turns = [call("ask_user", question="Which city?", options=["Berlin", "Paris"]), "Paris it is."]
    agent = ReActAgent("Friday", ScriptedModel(*turns), tools=[ask_user])
    with served(create_app(agent)) as server, server.client() as client:
        asked = ask(client, "Book a trip.")[-1]
        assert isinstance(asked, PostCallEvent)
        assert asked.message.generate_reason is GenerateReason.TOOL_SUSPENDED
        (question,) = questions_of(asked.message)
        assert question.options == ("Berlin", "Paris")
        body = {"messages": [json.loads(question.answer("paris").to_json())]}
        with sse(client, "POST", "/run", json=body) as source:
            last = events_of(source)[-1]
    assert isinstance(last, PostCallEvent) and last.message.text == "Paris it is."
    assert agent.model.requests[-1].messages[-1].tool_results[0].text == "Paris"
