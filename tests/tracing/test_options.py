"""Options of traces that cannot be meant are errors when they are given, and not in a run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import pytest

from agentscope_rx.errors import ConfigurationError
from agentscope_rx.tracing import Metrics, OpenTelemetryHook, RecordingTracer, propagate_context


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ({"stages": "no"}, "stages must be True or False"),
        ({"metrics": 3}, "metrics must be True or False"),
        ({"prices": {"gpt-5-mini": 3}}, r"prices\['gpt-5-mini'\] must be a Price"),
    ],
)
def test_options_of_the_hook_are_checked(option: Mapping[str, object], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        OpenTelemetryHook(**cast("Any", option))


@pytest.mark.parametrize("recorders", [3, Metrics, [3], ["metrics"]])
def test_recorders_are_checked(recorders: object) -> None:
    with pytest.raises(ConfigurationError, match="ecorder"):
        RecordingTracer(cast("Any", recorders))


def test_propagation_into_the_service_is_a_flag() -> None:
    with pytest.raises(ConfigurationError, match="service must be True or False"):
        propagate_context(service=cast("Any", "gateway"))
