"""`read_rates`: the rate limit headers of all providers known, and of those that say anything at all."""

from __future__ import annotations

import logging
import math

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from agentscope_rx.models.rates import LimitWindow, read_rates

NOW = 1000.0
DATE = {"date": "Thu, 21 Aug 2025 12:41:00 GMT"}


def limits(headers: dict[str, str]) -> dict[str, LimitWindow]:
    found = read_rates(headers, NOW)
    if found is None:
        return {}
    assert found.at == NOW
    return {limit.name: limit for limit in found.limits}


def one(**headers: str) -> LimitWindow:
    (limit,) = limits({name.replace("_", "-"): value for name, value in headers.items()}).values()
    return limit


# --- the providers -----------------------------------------------------------------------------------------------


def test_openai_refills_evenly_within_a_minute() -> None:
    found = limits(
        {
            "X-RateLimit-Limit-Requests": "5000",
            "X-RateLimit-Remaining-Requests": "4999",
            "X-RateLimit-Reset-Requests": "12ms",
            "x-ratelimit-limit-tokens": "160000",
            "x-ratelimit-remaining-tokens": "0",
            "x-ratelimit-reset-tokens": "1m0s",
            "x-ratelimit-remaining-tokens_usage_based": "7",
            "x-request-id": "r",
        }
    )
    assert set(found) == {"requests", "tokens"}
    requests, tokens = found["requests"], found["tokens"]
    assert (requests.counted, requests.limit, requests.remaining) == ("requests", 5000, 4999)
    assert requests.reset == pytest.approx(NOW + 0.012) and requests.refill == pytest.approx(5000 / 60)
    assert (tokens.counted, tokens.remaining, tokens.reset) == ("tokens", 0, NOW + 60)
    assert tokens.refill == pytest.approx(160_000 / 60)


def test_groq_refills_its_requests_within_a_day() -> None:
    found = one(
        x_ratelimit_limit_requests="14400",
        x_ratelimit_remaining_requests="14370",
        x_ratelimit_reset_requests="2m59.56s",
    )
    assert found.reset == pytest.approx(NOW + 179.56)
    assert found.refill == pytest.approx(1 / 6, rel=0.01)


def test_a_window_has_nothing_before_its_reset() -> None:
    found = one(x_ratelimit_limit_requests="60", x_ratelimit_remaining_requests="0", x_ratelimit_reset_requests="41s")
    assert (found.limit, found.reset, found.refill) == (60, NOW + 41, 0)


def test_azure_tells_no_reset() -> None:
    found = one(x_ratelimit_remaining_requests="0")
    assert found == LimitWindow("requests", "requests", 0)
    found = one(x_ratelimit_remaining_tokens="100", x_ratelimit_limit_tokens="1000")
    assert (found.reset, found.refill) == (NOW + 54, pytest.approx(1000 / 60))


def test_azure_says_minus_one_where_it_does_not_know() -> None:
    assert not limits({"x-ratelimit-remaining-tokens": "-1", "x-ratelimit-reset-tokens": "0"})


def test_the_window_may_be_in_the_name() -> None:
    found = limits(
        {
            "x-ratelimit-limit-req-minute": "60",
            "x-ratelimit-remaining-req-minute": "0",
            "x-ratelimit-limit-tokens-month": "1000",
            "x-ratelimit-remaining-tokens-month": "1000",
            "x-ratelimit-remaining-requests-day": "9",
            "x-ratelimit-reset-requests-day": "33011.382867",
            "x-ratelimit-remaining-project-tokens": "5",
        }
    )
    assert [(each.name, each.counted, each.reset, each.refill) for each in found.values()] == [
        ("req-minute", "requests", NOW + 60, 1.0),
        ("tokens-month", "tokens", NOW, pytest.approx(1000 / (30 * 86400))),
        ("requests-day", "requests", pytest.approx(NOW + 33011.382867), 0),
        ("project-tokens", "tokens", None, 0),
    ]


def test_openrouter_counts_from_1970() -> None:
    headers = {"X-RateLimit-Limit": "20", "X-RateLimit-Remaining": "0"}
    for reset in ("1755780070000", "1755780070"):
        found = limits({**headers, "X-RateLimit-Reset": reset, **DATE})["requests"]
        assert (found.counted, found.limit, found.reset, found.refill) == ("requests", 20, NOW + 10, 0)


def test_anthropic_tells_an_instant_by_its_own_clock() -> None:
    found = limits(
        {
            "anthropic-ratelimit-requests-limit": "1000",
            "anthropic-ratelimit-requests-remaining": "999",
            "anthropic-ratelimit-requests-reset": "2025-08-21T12:40:59Z",
            "anthropic-ratelimit-input-tokens-limit": "80000",
            "anthropic-ratelimit-input-tokens-remaining": "20000",
            "anthropic-ratelimit-input-tokens-reset": "2025-08-21T12:41:45Z",
            "anthropic-ratelimit-output-tokens-limit": "16000",
            "anthropic-ratelimit-output-tokens-remaining": "0",
            "anthropic-ratelimit-output-tokens-reset": "2025-08-21T14:42:00+02:00",
            "anthropic-ratelimit-tokens-remaining": "5",
            "anthropic-ratelimit-unified-status": "allowed",
            **DATE,
        }
    )
    # in the past: it is whole
    assert (found["requests"].reset, found["requests"].refill) == (NOW, 0)
    assert (found["input-tokens"].counted, found["input-tokens"].reset) == ("input_tokens", NOW + 45)
    assert found["input-tokens"].refill == pytest.approx(60_000 / 45)
    assert (found["output-tokens"].counted, found["output-tokens"].reset) == ("output_tokens", NOW + 60)
    # `max_tokens` does not count for it
    assert found["tokens"] == LimitWindow("tokens", "input_tokens", 5)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("1s", 1), ("6m0s", 360), ("20ms", 0.02), ("1h2m3.5s", 3723.5), ("500us", 5e-4), ("1d", 86400), ("0", 0),
        ("55", 55), ("0.25", 0.25), ("7.66s", 7.66),
    ],
)  # fmt: skip
def test_durations(text: str, seconds: float) -> None:
    assert one(x_ratelimit_remaining_requests="3", x_ratelimit_reset_requests=text).reset == pytest.approx(
        NOW + seconds
    )


# --- what cannot be read -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "reset",
    ["", "soon", "-1s", "nan", "inf", "1e400", "s", "1x", "1" * 21, "1s" * 50, "2025-99-01", "2025-08-21T12:41:45"],
)
def test_a_reset_that_cannot_be_read_is_as_good_as_not_sent(reset: str, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG, "agentscope_rx"):
        assert one(x_ratelimit_remaining_requests="3", x_ratelimit_reset_requests=reset).reset is None
    assert "ignoring the header x-ratelimit-reset-requests" in caplog.text


@pytest.mark.parametrize("remaining", ["", "many", "-5", "nan", "inf", "1e5", "0x10", "9" * 20, "١"])
def test_a_limit_that_does_not_tell_what_remains_says_nothing(remaining: str) -> None:
    assert not limits({"x-ratelimit-remaining-requests": remaining, "x-ratelimit-limit-requests": "5"})


@pytest.mark.parametrize(("limit", "remaining"), [("5", "6"), ("0", "0"), ("x", "3")])
def test_a_limit_that_cannot_be_is_not_known(limit: str, remaining: str) -> None:
    found = one(x_ratelimit_remaining_tokens=remaining, x_ratelimit_limit_tokens=limit)
    assert (found.limit, found.reset) == (None, None)


def test_answers_without_such_headers_say_nothing() -> None:
    assert read_rates({"content-type": "application/json", **DATE}, NOW) is None
    assert read_rates({"x-ratelimit-limit-requests": "5"}, NOW) is None


names = st.sampled_from(
    [
        *(f"x-ratelimit-{field}-requests" for field in ("limit", "remaining", "reset")),
        *(f"x-ratelimit-{field}-tokens" for field in ("limit", "remaining", "reset")),
        *(f"anthropic-ratelimit-tokens-{field}" for field in ("limit", "remaining", "reset")),
        "x-ratelimit-remaining", "x-ratelimit-reset", "date",
    ]
)  # fmt: skip
values = st.one_of(
    st.text(max_size=60),
    st.from_regex(r"\A([0-9]{1,25}(\.[0-9]{1,25})?(ms|s|m|h|d)){1,4}\Z"),
    st.floats().map(str),
    st.integers(-5, 10**20).map(str),
    st.datetimes().map(lambda instant: instant.isoformat() + "Z"),
)


@given(st.dictionaries(names, values), st.floats(0, 1e9))
@example({"x-ratelimit-remaining": "0", "x-ratelimit-reset": "67768036191676796929"}, 0.0)
@example({"x-ratelimit-remaining": "0", "x-ratelimit-reset": "99999999999999"}, 0.0)
def test_no_header_fails_and_all_figures_make_sense(headers: dict[str, str], now: float) -> None:
    found = read_rates(headers, now)
    for limit in () if found is None else found.limits:
        assert 0 <= limit.remaining <= (math.inf if limit.limit is None else limit.limit)
        assert limit.limit is None or 1 <= limit.limit < math.inf
        assert limit.reset is None or now <= limit.reset < math.inf
        assert 0 <= limit.refill < math.inf
        assert limit.reset is not None or not limit.refill


@given(st.integers(100, 10**6), st.data(), st.sampled_from([60.0, 86_400.0]))
def test_an_even_refill_is_recognised(limit: int, data: st.DataObject, window: float) -> None:
    left = data.draw(st.floats(0, limit - 100))
    headers = {
        "x-ratelimit-limit-tokens": f"{limit}",
        "x-ratelimit-remaining-tokens": f"{math.floor(left)}",
        "x-ratelimit-reset-tokens": f"{(limit - left) / limit * window:.9f}s",
    }
    assert limits(headers)["tokens"].refill > 0
