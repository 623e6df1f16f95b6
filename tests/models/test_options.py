"""Options: what is given wins, whatever the order of merging; what cannot work is refused; waits are as configured."""

from __future__ import annotations

import dataclasses
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st
from reactivex import operators as ops
from tenacity import RetryCallState
from tenacity.stop import stop_after_attempt, stop_after_delay
from tenacity.wait import wait_exponential, wait_fixed, wait_incrementing

from agentscope_rx.errors import (
    BadRequestError,
    ConfigurationError,
    DeadlineError,
    EmptyResponseError,
    ModelConnectionError,
    ModelTimeoutError,
    OverloadedError,
    RateLimitError,
    ServerError,
    ToolError,
)
from agentscope_rx.models import MODEL_DEFAULTS, TOOL_DEFAULTS, UNSET, ExecutionConfig, GenerateOptions, ToolChoice
from agentscope_rx.models.options import is_retryable
from agentscope_rx.reactive import RetryPolicy, jittered, retry, throw
from agentscope_rx.testing import run_virtual

seconds = st.floats(0.001, 1e6)
configs = st.builds(
    ExecutionConfig,
    timeout=st.just(UNSET) | st.none() | seconds,
    first_chunk_timeout=st.just(UNSET) | st.none() | seconds,
    idle_timeout=st.just(UNSET) | st.none() | seconds,
    max_attempts=st.just(UNSET) | st.integers(1, 9),
    initial_backoff=st.just(UNSET) | seconds,
    max_backoff=st.just(UNSET) | seconds,
    backoff_multiplier=st.just(UNSET) | st.floats(1, 9),
    retry_on=st.sampled_from([UNSET, is_retryable, lambda error: True]),
    wait=st.sampled_from([UNSET, wait_fixed(1), wait_fixed(2)]),
    stop=st.sampled_from([UNSET, stop_after_attempt(2)]),
)
maps = st.dictionaries(st.sampled_from("abc"), st.sampled_from("xyz"), max_size=2)
options = st.builds(
    GenerateOptions,
    temperature=st.none() | st.sampled_from([0.0, 0.5, 1.0]),
    max_tokens=st.none() | st.integers(0, 3),
    stop=st.none() | st.lists(st.sampled_from("ab"), max_size=2),
    seed=st.none() | st.integers(0, 3),
    stream=st.none() | st.booleans(),
    parallel_tool_calls=st.none() | st.booleans(),
    tool_choice=st.none() | st.sampled_from([ToolChoice(), ToolChoice("none"), ToolChoice.specific("t")]),
    response_format=st.none() | st.just({"type": "json_object"}),
    execution_config=st.none() | configs,
    additional_headers=maps,
    additional_body_params=maps,
    additional_query_params=maps,
)


# --- merging -----------------------------------------------------------------------------------------------------


@given(configs, configs, configs)
def test_configs_merge_associatively_and_what_is_given_wins(a, b, c):
    assert a.over(b).over(c) == a.over(b.over(c))
    assert a.over(None) == a.over(ExecutionConfig()) == ExecutionConfig().over(a) == a.over(a) == a
    for field in dataclasses.fields(ExecutionConfig):
        mine, merged = getattr(a, field.name), getattr(a.over(b), field.name)
        assert merged is (getattr(b, field.name) if mine is UNSET else mine)


@pytest.mark.spec("case 128")
@given(options, options, options)
def test_options_merge_associatively_and_what_is_given_wins(a, b, c):
    assert a.over(b).over(c) == a.over(b.over(c))
    assert a.over(None) == a.over(GenerateOptions()) == GenerateOptions().over(a) == a.over(a) == a
    merged = a.over(b)
    for field in dataclasses.fields(GenerateOptions):
        mine, theirs, found = (getattr(each, field.name) for each in (a, b, merged))
        if field.name.startswith("additional_"):
            assert found == {**theirs, **mine}
        elif field.name == "execution_config" and mine is not None:
            assert found == mine.over(theirs)
        else:
            assert found == (theirs if mine is None else mine)


def test_no_limit_is_a_choice_and_wins_over_a_default():
    config = ExecutionConfig(timeout=None).over(MODEL_DEFAULTS)
    assert config.timeout is None and config.limit("timeout") is None
    assert ExecutionConfig().over(MODEL_DEFAULTS).limit("timeout") == 300.0
    assert ExecutionConfig().limit("idle_timeout") is None


def test_zero_and_false_are_given():
    merged = GenerateOptions(temperature=0.0, seed=0, stream=False).over(
        GenerateOptions(temperature=1.0, seed=1, stream=True)
    )
    assert (merged.temperature, merged.seed, merged.stream) == (0.0, 0, False)


def test_options_are_values():
    given_format = {"type": "json_schema", "json_schema": {"name": "x"}}
    made = GenerateOptions(stop=["a"], response_format=given_format, additional_headers={"a": "b"})
    given_format["json_schema"]["name"] = "changed"
    assert made.response_format == {"type": "json_schema", "json_schema": {"name": "x"}}
    assert made.stop == ("a",) and GenerateOptions(stop="END").stop == ("END",)
    with pytest.raises(TypeError):
        made.additional_headers["c"] = "d"
    with pytest.raises(dataclasses.FrozenInstanceError):
        made.seed = 3
    assert pickle.loads(pickle.dumps(made)) == made
    assert hash(made) == hash(pickle.loads(pickle.dumps(made)))
    assert pickle.loads(pickle.dumps(UNSET)) is UNSET and repr(UNSET) == "UNSET"


# --- what cannot work --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *((name, value) for name in ("timeout", "first_chunk_timeout", "idle_timeout")
          for value in (0, -1, float("nan"), "5", True)),
        *(("max_attempts", value) for value in (0, -1, 1.5, None, "3", True)),
        *((name, value) for name in ("initial_backoff", "max_backoff") for value in (-0.1, None, "1", float("nan"))),
        *(("backoff_multiplier", value) for value in (0.9, 0, None, "2", float("nan"))),
        *((name, value) for name in ("retry_on", "wait", "stop") for value in (None, 3, "always")),
    ],
)  # fmt: skip
def test_a_config_that_cannot_work_is_refused_by_name(field, value):
    with pytest.raises(ConfigurationError, match=field):
        ExecutionConfig(**{field: value})


@pytest.mark.spec("case 129")
@pytest.mark.parametrize(
    "make", [lambda: ToolChoice("specific"), lambda: ToolChoice.specific(" "), lambda: ToolChoice("auto", "t")]
)
def test_only_a_specific_tool_choice_names_a_tool(make):
    with pytest.raises(ConfigurationError, match="specific"):
        make()


def test_defaults_are_those_that_are_documented():
    assert (MODEL_DEFAULTS.timeout, MODEL_DEFAULTS.max_attempts) == (300.0, 3)
    assert (TOOL_DEFAULTS.timeout, TOOL_DEFAULTS.max_attempts) == (300.0, 1)
    for config in (MODEL_DEFAULTS, TOOL_DEFAULTS):
        assert (config.initial_backoff, config.max_backoff, config.backoff_multiplier) == (2.0, 30.0, 2.0)
    assert MODEL_DEFAULTS.retries and not TOOL_DEFAULTS.retries and not ExecutionConfig().retries
    assert ExecutionConfig(stop=stop_after_delay(5)).retries


# --- which errors ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "again"),
    [
        (ModelConnectionError("x"), True),
        (ModelTimeoutError("idle", 1.0), True),
        (DeadlineError("total", 1.0), True),
        (RateLimitError("x", status=429), True),
        (ServerError("x", status=500), True),
        (OverloadedError("x", status=529), True),
        (EmptyResponseError(), True),
        (ConnectionResetError(), True),
        (TimeoutError(), True),
        (ToolError("x", retryable=True), True),
        (ToolError("x"), False),
        (BadRequestError("x", status=400), False),
        (ConfigurationError("x"), False),
        (ValueError("x"), False),
        (OSError("disk full"), False),
    ],
)
def test_errors_say_if_they_are_retryable(error, again):
    assert is_retryable(error) is again


# --- policies ----------------------------------------------------------------------------------------------------


def waits(policy: RetryPolicy, error: Exception | None = None) -> list[float]:
    """The waits between the attempts of something that always fails, by the loop's clock."""
    failing = throw(error or ModelConnectionError("x"))
    noticed = failing.pipe(retry(policy, notice=lambda attempt: attempt.delay), ops.catch(lambda e, s: _nothing()))
    return run_virtual(noticed.pipe(ops.to_list()))


def _nothing():
    from agentscope_rx.reactive import empty

    return empty()


@pytest.mark.parametrize(
    ("jitter", "expected"),
    [
        (0.5, [2, 4, 8, 16, 30, 30]),
        (0.0, [1, 2, 4, 8, 15, 15]),
        (0.75, [2.5, 5, 10, 20, 37.5, 37.5]),
    ],
)
def test_waits_double_up_to_a_limit_with_half_of_them_as_jitter(jitter, expected):
    config = ExecutionConfig(max_attempts=7).over(MODEL_DEFAULTS)
    assert waits(config.policy(lambda: jitter)) == expected


def test_all_parts_of_the_backoff_are_honoured():
    config = ExecutionConfig(max_attempts=5, initial_backoff=0.5, max_backoff=10.0, backoff_multiplier=3.0)
    assert waits(config.policy(lambda: 0.5)) == [0.5, 1.5, 4.5, 10]
    at_once = ExecutionConfig(max_attempts=3, initial_backoff=0.0, max_backoff=0.0)
    assert waits(at_once.policy(lambda: 0.5)) == [0, 0]
    assert waits(ExecutionConfig().policy()) == []


@given(st.integers(1, 5000), st.floats(0, 1, exclude_max=True))
def test_jitter_stays_within_bounds_at_any_attempt(number: int, jitter: float):
    state = RetryCallState(None, None, (), {})
    state.attempt_number = number
    wait = MODEL_DEFAULTS.policy(lambda: jitter).wait(state)
    assert 1.0 <= wait <= 45.0


def test_tenacity_objects_take_the_place_of_the_numbers():
    config = ExecutionConfig(wait=wait_incrementing(1, 2), stop=stop_after_attempt(4), max_attempts=2)
    assert waits(config.policy()) == [1, 3, 5]
    by_time = ExecutionConfig(wait=wait_fixed(4), stop=stop_after_delay(10))
    assert waits(by_time.policy()) == [4, 4, 4], "the loop's clock, not the wall's"
    own = ExecutionConfig(wait=jittered(wait_exponential(), 0.1, lambda: 0.0), max_attempts=3)
    assert waits(own.policy()) == pytest.approx([0.9, 1.8])
    joined = ExecutionConfig(wait=wait_fixed(1) + wait_fixed(2), stop=stop_after_attempt(2) | stop_after_delay(99))
    assert waits(joined.policy()) == [3]


def test_retry_on_says_which_errors_count():
    only_values = ExecutionConfig(max_attempts=3, wait=wait_fixed(1), retry_on=lambda e: isinstance(e, ValueError))
    assert waits(only_values.policy(), ValueError("x")) == [1, 1]
    assert waits(only_values.policy(), ModelConnectionError("x")) == []
    default = ExecutionConfig(max_attempts=3, wait=wait_fixed(1))
    assert waits(default.policy(), ValueError("x")) == []


@pytest.mark.parametrize(("asked", "expected"), [(0.5, [1, 1]), (60, [60, 60]), (None, [1, 1])])
def test_a_wait_is_never_shorter_than_the_provider_asks_for(asked, expected):
    config = ExecutionConfig(max_attempts=3, wait=wait_fixed(1))
    assert waits(config.policy(), RateLimitError("x", status=429, retry_after=asked)) == expected


@pytest.mark.parametrize("retry_on", [ValueError, (ValueError, KeyError)])
def test_retry_on_takes_types(retry_on):
    config = ExecutionConfig(max_attempts=2, wait=wait_fixed(1), retry_on=retry_on)
    assert waits(config.policy(), ValueError("x")) == [1]
    assert waits(config.policy(), TypeError("x")) == []


@pytest.mark.parametrize("retry_on", [int, (), (ValueError, int), [ValueError], "ValueError", None, (ValueError("x"),)])
def test_what_cannot_say_which_errors_count(retry_on):
    with pytest.raises(ConfigurationError, match="retry_on must be an exception type"):
        ExecutionConfig(retry_on=retry_on)


def test_a_wait_past_the_total_timeout_is_not_begun():
    config = ExecutionConfig(max_attempts=9, wait=wait_fixed(4), total_timeout=10)
    assert waits(config.policy()) == [4, 4]
    assert waits(config.policy(), RateLimitError("x", status=429, retry_after=10)) == []
    assert waits(ExecutionConfig(max_attempts=3, wait=wait_fixed(4), total_timeout=None).policy()) == [4, 4]
