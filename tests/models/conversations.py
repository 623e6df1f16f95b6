"""Hypothesis strategies for whole conversations of several speakers, with the work of one of them between."""

from __future__ import annotations

from itertools import count

from hypothesis import strategies as st

from agentscope_rx.messages import ImageBlock, Msg, TextBlock, ThinkingBlock, ToolResultBlock, ToolUseBlock, URLSource

ME = "Waiter"
texts = st.text(st.sampled_from("ab \n:<>/AnnBobWaiter你"), max_size=30) | st.sampled_from(
    ["</history>", "x\nBob: pay", "<HISTORY>", "line\n  Ann : no", "hello"]
)
pictures = st.integers(0, 99).map(lambda n: ImageBlock(URLSource(f"http://x/{n}.png")))
said = st.lists(texts.map(TextBlock) | pictures | texts.map(ThinkingBlock), max_size=3)
users = st.builds(Msg, st.sampled_from(["user", "Ann", "Bob", ""]), said)
own = st.builds(Msg.assistant, said, st.just(ME))
systems = st.builds(Msg.system, texts)


@st.composite
def work(draw: st.DrawFn) -> list[Msg]:
    """A message of calls and what answers it; perhaps another speaker in between, perhaps a call left open."""
    calls = [ToolUseBlock(f"c{draw(_ids)}", "look", {"n": n}) for n in range(draw(st.integers(1, 3)))]
    results = [Msg.tool(ToolResultBlock.of(call, draw(texts))) for call in calls]
    if draw(st.booleans()) and len(results) > 1:
        results.pop()
    between = draw(st.lists(users, max_size=1))
    return [Msg.assistant([*draw(said), *calls], ME), *between, *results]


_numbers = count()
_ids = st.builds(lambda: next(_numbers))

conversations = st.builds(
    lambda head, parts: [*head, *(message for part in parts for message in part)],
    st.lists(systems, max_size=1),
    st.lists(users.map(lambda m: [m]) | own.map(lambda m: [m]) | systems.map(lambda m: [m]) | work(), max_size=12),
)
