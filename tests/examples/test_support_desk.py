"""The support desk: bodies that are wrong, refunds that are asked for again, two services on one folder, its client."""

from __future__ import annotations

import json
import runpy
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.service.serving import served
from tests.support.openai_server import openai_server
from tests.test_examples import EXAMPLES

DESK = EXAMPLES / "support_desk"


def module(name: str, patch: pytest.MonkeyPatch) -> dict[str, Any]:
    patch.syspath_prepend(DESK)
    patch.delenv("AGENTSCOPE_RX_MODEL", raising=False)
    main = runpy.run_path(str(DESK / name), run_name=name)
    sys.modules.pop("desk", None)
    return main


@pytest.fixture
def two(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[str, str]]:
    """The addresses of two services on one folder."""
    application = module("service.py", monkeypatch)["application"]
    with ExitStack() as stack:
        servers = [stack.enter_context(served(application(tmp_path))) for _ in range(2)]
        yield servers[0].url, servers[1].url


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    return module("client.py", monkeypatch)["main"].__globals__


def said(client: dict[str, Any], capfd: pytest.CaptureFixture[str], address: str, *words: str) -> list[str]:
    client["ADDRESS"] = address
    client["main"](*words)
    return capfd.readouterr().out.splitlines()


@pytest.mark.parametrize("body", ["", "{", "[]", "{}", '{"text": 3}', '"text"'])
def test_a_wrong_body_is_the_clients_error(two: tuple[str, str], client: dict[str, Any], body: str):
    client["ADDRESS"] = two[0]
    kind = {"content-type": "application/json"}
    for user, path in (("ann", "/chat/1"), ("staff", "/waiting/ann/1")):
        with client["service"](user) as http:
            answer = http.post(path, content=body, headers=kind)
            assert answer.status_code == 422 and answer.text.startswith("Send JSON with a text")


def test_an_order_is_paid_back_once(
    two: tuple[str, str], client: dict[str, Any], tmp_path: Path, capfd: pytest.CaptureFixture[str]
):
    one, other = two
    assert said(client, capfd, one, "bob", "My cup, order 8, is broken.")[-1] == (
        "  desk: It is done: 15 euros are on their way."
    )
    assert said(client, capfd, one, "bob", "My cup, order 8, is broken.")[-1] == (
        "  desk: It is done: Order 8 was paid back before."
    )
    assert said(client, capfd, one, "ann", "Order 7 is broken.")[-1] == "  (waits for approval)"
    assert said(client, capfd, other, "staff", "--all")[-1] == "  desk: It is done: 120 euros are on their way."
    # the first service has the conversation as it was
    said(client, capfd, one, "staff", "--all")
    assert said(client, capfd, one, "ann", "What of order 9?")[-1] == "  desk: This customer has no order 9."
    paid = [json.loads(line)["order"] for line in (tmp_path / "refunds.jsonl").read_text().splitlines()]
    assert paid == [8, 7]


def test_the_text_of_a_model_is_one_line(
    tmp_path: Path, client: dict[str, Any], monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
):
    application = module("service.py", monkeypatch)["application"]
    with openai_server() as model:
        model.answers.append("Which order is it about?")
        monkeypatch.setenv("AGENTSCOPE_RX_MODEL", "openai:test")
        monkeypatch.setenv("OPENAI_API_KEY", "test")
        monkeypatch.setenv("OPENAI_BASE_URL", model.base_url)
        with served(application(tmp_path)) as server:
            assert said(client, capfd, server.url, "ann", "hi") == ["  desk: Which order is it about?"]


def test_the_client_says_what_is_wrong_in_a_line(
    two: tuple[str, str], monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
):
    def ends(address: str, *words: str) -> str:
        monkeypatch.setenv("DESK_URL", address)
        monkeypatch.setattr(sys, "argv", ["client.py", *words])
        with pytest.raises(SystemExit) as ended:
            runpy.run_path(str(DESK / "client.py"), run_name="__main__")
        return str(ended.value)

    assert ends(two[0], "zoe") == "error: Send a token: authorization: Bearer ..."
    assert ends("http://127.0.0.1:9", "ann").startswith("error: no answer of a service at http://127.0.0.1:9")
    httpx.post(
        f"{two[0]}/chat/1", json={"text": "Order 7 is broken."}, headers={"authorization": "Bearer token-of-ann"}
    )

    def closed(prompt: str) -> str:
        raise EOFError

    monkeypatch.setattr("builtins.input", closed)
    assert ends(two[0], "staff") == "\nstopped"
