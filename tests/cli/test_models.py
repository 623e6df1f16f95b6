"""Which model the flags and the environment amount to."""

from __future__ import annotations

import sys
from types import ModuleType

import pytest

from agentscope_rx.cli.exit_codes import line_of, report, status_of
from agentscope_rx.cli.main import main
from agentscope_rx.cli.models import choose, make, worth_another_attempt
from agentscope_rx.errors import (
    AuthenticationError,
    ConfigurationError,
    MissingExtraError,
    ModelConnectionError,
    RateLimitError,
    SetupError,
)
from agentscope_rx.models import OpenAIChatModel
from agentscope_rx.testing import ScriptedModel

KEY = {"OPENAI_API_KEY": "k"}
SERVER = {"OPENAI_BASE_URL": "http://h/v1"}
NAME = {"OPENAI_MODEL": "m"}


@pytest.mark.parametrize(
    ("spec", "url", "environment", "choice", "why"),
    [
        ("openai:gpt", None, {}, "openai:gpt", None),
        ("openai:llama3:8b", "http://h/v1", KEY, "openai:llama3:8b at http://h/v1", None),
        ("local:smollm2", None, KEY, "local:smollm2", None),
        (None, None, {}, "local:smollm2", "embedded default"),
        (None, None, {"OPENAI_API_KEY": " "}, "local:smollm2", "embedded default"),
        (None, None, NAME, "local:smollm2", "embedded default"),
        (None, None, KEY, "openai:gpt-5-mini", "OPENAI_API_KEY"),
        (None, None, KEY | NAME, "openai:m", "OPENAI_API_KEY"),
        (None, None, SERVER | NAME, "openai:m at http://h/v1", "OPENAI_BASE_URL"),
        (None, "http://x/v1", SERVER | NAME, "openai:m at http://x/v1", "--base-url"),
    ],
)
def test_choices(spec: str | None, url: str | None, environment: dict[str, str], choice: str, why: str | None) -> None:
    chosen = choose(spec, url, environment)
    assert str(chosen) == choice
    assert (why or "") in (chosen.why or "")
    assert (chosen.why is None) == (why is None)


@pytest.mark.parametrize(
    ("spec", "url", "environment", "complaint"),
    [
        ("gpt-5", None, {}, "such as openai:gpt-5, not 'gpt-5'"),
        ("", None, {}, "A model is named provider:name"),
        ("opneai:x", None, {}, "Did you mean openai"),
        ("openai:", None, {}, "no model, as in openai:NAME"),
        ("claude:x", None, {}, "no model provider 'claude'"),
        ("local:smollm2", "http://h", {}, "--base-url is for servers"),
        (None, None, SERVER, "OPENAI_BASE_URL names a server, but no model"),
        (None, "http://h", KEY, "--base-url names a server, but no model"),
    ],
)
def test_refusals(spec: str | None, url: str | None, environment: dict[str, str], complaint: str) -> None:
    with pytest.raises(ConfigurationError, match=complaint):
        choose(spec, url, environment)


def test_making_an_openai_model(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    model = make(choose("openai:m", "http://h/v1", {}), {})
    assert isinstance(model, OpenAIChatModel)
    assert model.endpoint.url == "http://h/v1/chat/completions"
    with pytest.raises(ConfigurationError, match="set OPENAI_API_KEY"):
        make(choose("openai:m", None, {}), {})


def test_the_embedded_model_is_imported_when_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    local = ModuleType("agentscope_rx.models.local")
    embedded = ScriptedModel("hi")
    local.LocalChatModel = lambda: embedded
    monkeypatch.setitem(sys.modules, "agentscope_rx.models.local", local)
    assert make(choose(None, None, {}), {}) is embedded
    with pytest.raises(ConfigurationError, match="no 'other'"):
        make(choose("local:other", None, {}), {})


def test_set_up(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    local = ModuleType("agentscope_rx.models.local")
    local.install_weights = lambda report: report("half")
    monkeypatch.setitem(sys.modules, "agentscope_rx.models.local", local)
    assert main(["setup-local"]) == 0
    assert capsys.readouterr().out == "half\n"

    def damaged(report: object) -> None:
        raise SetupError("The weights are damaged.")

    local.install_weights = damaged
    assert main(["setup-local"]) == 2
    assert capsys.readouterr().err == "agentscope-rx: error: The weights are damaged.\n"


def test_a_server_that_is_not_there_is_not_tried_again() -> None:
    refused, slow = ModelConnectionError("no"), ModelConnectionError("broke off")
    refused.__cause__ = OSError("all failed")
    refused.__cause__.__context__ = ConnectionRefusedError(111, "refused")
    assert not worth_another_attempt(refused)
    assert worth_another_attempt(slow)
    assert worth_another_attempt(RateLimitError("slow down", status=429))
    assert not worth_another_attempt(ValueError())


def test_lines_and_statuses(capsys: pytest.CaptureFixture[str]) -> None:
    wrong = AuthenticationError("HTTP 401: bad key.", status=401, model="m", provider="openai")
    assert line_of(wrong) == "openai:m: HTTP 401: bad key. Check the API key in OPENAI_API_KEY."
    assert line_of(ConfigurationError("a\n b")) == "a b"
    assert line_of(KeyError()) == "KeyError"
    assert len(line_of(ValueError("x" * 1000))) == 500
    assert status_of(MissingExtraError("p", "local")) == 2
    assert (report(KeyboardInterrupt()), report(BrokenPipeError())) == (130, 141)
    assert capsys.readouterr().err == ""
