"""A traced run that is over leaves nothing to the garbage collector, however it ended."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable

import pytest

from agentscope_rx import ReActAgent
from tests.agent.test_garbage import AGENTS, WAYS, failed
from tests.support.garbage import left_to_the_collector
from tests.tracing.trees import Spans


@pytest.mark.parametrize("way", [*WAYS, failed], ids=lambda way: way.__name__)
@pytest.mark.parametrize("kind", AGENTS)
def test_nothing_is_left(kind: str, way: Callable[[ReActAgent], Awaitable[None]]) -> None:
    spans = Spans()
    fridays = [AGENTS[kind](), AGENTS[kind]()]
    for friday in fridays:
        friday.hooks.add(spans.hook())
    left_over = iter(fridays)
    assert left_to_the_collector(lambda: way(next(left_over))) == Counter()
    spans.assert_whole(nested=False)
