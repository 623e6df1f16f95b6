"""Options of background work that cannot be meant."""

from __future__ import annotations

from typing import Any, cast

import pytest

from agentscope_rx import BackgroundHook, ReActAgent
from agentscope_rx.errors import ConfigurationError, ToolDefinitionError
from agentscope_rx.testing import ScriptedModel
from agentscope_rx.tools import Background


@pytest.mark.parametrize("after", ["5", -1, True, float("inf"), float("nan")])
def test_background_names_its_bad_after(after: object) -> None:
    with pytest.raises(ToolDefinitionError, match="after of Background must be seconds >= 0"):
        Background(after=cast("Any", after))


def test_waiting_for_some_jobs_names_the_choices() -> None:
    jobs = ReActAgent("Friday", ScriptedModel("Hi."), hooks=[BackgroundHook()]).background()
    with pytest.raises(ConfigurationError, match="until must be 'any' or 'all', not 'some'"):
        jobs.wait(until=cast("Any", "some"))
    with pytest.raises(ConfigurationError, match="timeout must be more than 0 seconds"):
        jobs.wait(timeout=-1)
