"""What the tests of guardrails share: runs with a `GuardrailsHook`, and what was shown of them."""

from __future__ import annotations

from typing import Any

from agentscope_rx.events import ReasoningChunkEvent, RetryEvent, SummaryChunkEvent
from agentscope_rx.guardrails import Guardrail, GuardrailsHook
from agentscope_rx.testing import ScriptedModel
from tests.agent.parts import agent
from tests.hooks.around_parts import Watched, watch


def run(hook: GuardrailsHook, *turns: Any, given: tuple[Any, ...] = ("hi",), **options: Any):
    """Watch one run of an agent with this hook: the events, the model and the agent."""
    model = turns[0] if turns and isinstance(turns[0], ScriptedModel) else ScriptedModel(*turns)
    call = {"output": options.pop("output")} if "output" in options else {}
    someone = agent(model, hooks=[hook, *options.pop("hooks", ())], **options)
    return watch(someone, *given, **call), model, someone


def guarded(*checks: Guardrail, **options: Any) -> GuardrailsHook:
    return GuardrailsHook(*checks, **options)


def shown_text(watched: Watched) -> str:
    """The text that is on the screen at the end: chunks, without those that were made void."""
    pieces: list[str] = []
    for event in watched.events:
        if isinstance(event, (ReasoningChunkEvent, SummaryChunkEvent)):
            pieces.append(event.text)
        elif isinstance(event, RetryEvent) and event.discarded:
            pieces.clear()
    return "".join(pieces)


def chunks(watched: Watched) -> list[tuple[float, str]]:
    """The chunks of text with their times."""
    pairs = zip(watched.times, watched.events, strict=True)
    return [(round(at, 6), event.text) for at, event in pairs if isinstance(event, ReasoningChunkEvent) and event.text]
