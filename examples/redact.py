"""To redact is to change two things: what is shown (chunks) and what is remembered (Post events).

Look at: "shown" beside "remembered". Chunk hooks change the stream and never the message; Post hooks change the
message, and with it memory and what the model is sent next. A secret may come in pieces, so the chunk hook holds back
what may still grow into one. (`around_redaction.py` does both in one place.)

    python examples/redact.py

The model is scripted, because it has to spell a secret in pieces, which no real one can be relied on to do.
"""

from __future__ import annotations

import re

import reactivex as rx
from reactivex import Observable
from reactivex import operators as ops

from agentscope_rx import InMemoryMemory, Msg, ReActAgent, TextBlock, ToolResultBlock, hook, tool
from agentscope_rx.events import ActingChunkEvent, Event, PostActingEvent, PostReasoningEvent, ReasoningChunkEvent
from agentscope_rx.hooks import hook_operator
from agentscope_rx.testing import ScriptedModel, call

SECRET = re.compile(r"\bsk-\w+")
MAY_BECOME_ONE = re.compile(r"\b(s|sk|sk-\w*)$")
MASK = "[secret]"


def clean(text: str) -> str:
    """The text without secrets."""
    return SECRET.sub(MASK, text)


def clean_result(result: ToolResultBlock) -> ToolResultBlock:
    """The result without secrets."""
    output = tuple(TextBlock(clean(block.text)) if isinstance(block, TextBlock) else block for block in result.output)
    return ToolResultBlock(result.id, result.name, output, result.kind, result.metadata)


# --- what is shown -----------------------------------------------------------------------------------------------


def masked(chunks: Observable[ReasoningChunkEvent]) -> Observable[ReasoningChunkEvent]:
    """The chunks of text without secrets; the end of a text is held back while it may be the beginning of one."""

    def connect(observer: rx.abc.ObserverBase[ReasoningChunkEvent], scheduler: rx.abc.SchedulerBase | None):
        held = ""
        last: ReasoningChunkEvent | None = None

        def on_next(event: ReasoningChunkEvent) -> None:
            nonlocal held, last
            if not event.text:
                observer.on_next(event)
                return
            text, last = held + event.text, event
            found = MAY_BECOME_ONE.search(text)
            held = text[found.start() :] if found else ""
            ready = text[: len(text) - len(held)]
            if ready:
                observer.on_next(event.replace(delta=TextBlock(clean(ready))))

        def on_completed() -> None:
            # completed before the Post event: what is held is shown now or never
            if held and last is not None:
                observer.on_next(last.replace(delta=TextBlock(clean(held))))
            observer.on_completed()

        return chunks.subscribe(on_next, observer.on_error, on_completed, scheduler=scheduler)

    return rx.create(connect)


show_no_secrets = hook_operator(ReasoningChunkEvent, masked)


@hook(ActingChunkEvent)
def show_no_secret_results(event: ActingChunkEvent) -> ActingChunkEvent:
    """What tools say meanwhile."""
    return event.replace(chunk=clean_result(event.chunk))


# --- what is remembered ------------------------------------------------------------------------------------------


@hook(PostReasoningEvent)
def remember_no_secrets(event: PostReasoningEvent) -> PostReasoningEvent:
    """The model's own words."""
    content = (TextBlock(clean(b.text)) if isinstance(b, TextBlock) else b for b in event.message.content)
    return event.replace(message=event.message.replace(content=content))


@hook(PostActingEvent)
def remember_no_secret_results(event: PostActingEvent) -> PostActingEvent:
    """What the tools found: the model never sees the secret, either."""
    return event.with_result(clean_result(event.result))


HOOKS = (show_no_secrets, show_no_secret_results, remember_no_secrets, remember_no_secret_results)


@tool
async def read_config(path: str) -> str:
    """Reads a configuration file.

    Args:
        path: Where it is.
    """
    return f"{path}: user=ann key=sk-4711xyz"


def main() -> None:
    """Ask for the key; show the stream, the memory and what the model was sent."""
    model = ScriptedModel(
        call("read_config", path="app.ini"),
        # as if the model knew the key from elsewhere; it comes in pieces
        ["The key of ann is s", "k-4", "711x", "yz, as ask", "ed."],
    )
    memory = InMemoryMemory()
    agent = ReActAgent("Friday", model, tools=[read_config], hooks=HOOKS, memory=memory)

    def show(event: Event) -> None:
        if isinstance(event, (ReasoningChunkEvent, ActingChunkEvent)) and event.text:
            print(f"shown       {event.text!r}")

    agent.stream("What is the key?").pipe(ops.do_action(show)).run()
    for message in memory.messages:
        print(f"remembered  {message.role}: {told(message)!r}")
    for message in model.requests[-1].messages:
        print(f"sent        {message.role}: {told(message)!r}")


def told(message: Msg) -> str:
    """A message's text, that of results included."""
    calls = [f"<{call.name}>" for call in message.tool_calls]
    return " ".join([message.text, *calls, *(result.text for result in message.tool_results)]).strip()


if __name__ == "__main__":
    main()
