"""Redaction in one place: an operator around the model call cleans what is shown and what is remembered alike.

Look at: the same text in the lines "shown" and "sent". What an operator around a model call changes is changed in the
message, in memory, and in what the model is sent next; around a tool call it is the same with results. A secret may
come in pieces, so the end of a text is held back while it may be the beginning of one. (`redact.py` changes what is
shown and what is remembered one by one, with hooks on events.)

    python examples/around_redaction.py

The model is scripted, because it has to spell a secret in pieces, which no real one can be relied on to do.
"""

from __future__ import annotations

import re

from reactivex import Observable
from reactivex import operators as ops

from agentscope_rx import Hook, ReActAgent, TextBlock, ToolResultBlock, tool
from agentscope_rx.events import ReasoningChunkEvent
from agentscope_rx.models import ChatResponse
from agentscope_rx.reactive import concat, defer, flow, just
from agentscope_rx.testing import ScriptedModel, call
from agentscope_rx.tools import ToolEvent

SECRET = re.compile(r"\bsk-\w+")
MAY_BECOME_ONE = re.compile(r"\b(s|sk|sk-\w*)$")


def clean(text: str) -> str:
    """The text without secrets."""
    return SECRET.sub("[secret]", text)


class Redaction(Hook):
    """No secret of a model or a tool goes any further."""

    def around_model(self, source: Observable[ChatResponse]) -> Observable[ChatResponse]:
        """The answer without secrets; each subscription begins with nothing held back."""

        def begin() -> Observable[ChatResponse]:
            held = ""

            def cleaned(response: ChatResponse) -> ChatResponse:
                nonlocal held
                texts = [block.text for block in response.content if isinstance(block, TextBlock)]
                if not texts:
                    return response
                text = held + "".join(texts)
                found = MAY_BECOME_ONE.search(text)
                held = text[found.start() :] if found else ""
                return ChatResponse((TextBlock(clean(text[: len(text) - len(held)])),))

            def rest() -> Observable[ChatResponse]:
                return just(ChatResponse((TextBlock(clean(held)),)))

            return concat(flow(source.pipe(ops.map(cleaned))), defer(rest))

        return defer(begin)

    def around_tool(self, source: Observable[ToolEvent]) -> Observable[ToolEvent]:
        """The result without secrets; these tools show no progress."""

        def cleaned(item: ToolEvent) -> ToolEvent:
            if not isinstance(item, ToolResultBlock):
                return item
            return ToolResultBlock(item.id, item.name, (TextBlock(clean(item.text)),), item.kind, item.metadata)

        return source.pipe(ops.map(cleaned))


@tool
async def read_config(path: str) -> str:
    """Reads a configuration file.

    Args:
        path: Where it is.
    """
    return f"{path}: user=ann key=sk-4711xyz"


def main() -> None:
    """Ask for the key; show the stream and what the model was sent."""
    model = ScriptedModel(
        call("read_config", path="app.ini"),
        # as if the model knew the key from elsewhere; it comes in pieces
        ["The key of ann is s", "k-4", "711x", "yz, as ask", "ed."],
        "Nothing more.",
    )
    agent = ReActAgent("Friday", model, tools=[read_config], hooks=[Redaction()])
    for event in agent.stream("What is the key?").pipe(ops.to_list()).run():
        if isinstance(event, ReasoningChunkEvent) and event.text:
            print(f"shown  {event.text!r}")
    agent.call("And now?").run()
    for message in model.requests[-1].messages:
        text = " ".join([message.text, *(result.text for result in message.tool_results)]).strip()
        print(f"sent   {message.role}: {text!r}")


if __name__ == "__main__":
    main()
