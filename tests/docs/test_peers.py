"""The runner of other libraries' programs, with this interpreter in place of theirs: nothing is downloaded."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import httpx
import pytest

from benchmarks import peers as environments
from tests.docs.peers import Program, main, programs, run_program
from tests.support.openai_server import openai_server

CODE = """
import json, os, urllib.request

def ask(**body):
    body |= {"messages": [{"role": "user", "content": "Hello"}]}
    url = os.environ["OPENAI_BASE_URL"] + "/chat/completions"
    return urllib.request.urlopen(urllib.request.Request(url, json.dumps(body).encode())).read()

print("asked:", json.loads(ask())["choices"][0]["message"]["content"])
print(len(ask(stream=True).splitlines()) > 3)
"""
PAGE = f"""
<!-- answers: ["Hi.", "One two."] -->
```python title="other"
{CODE}```

```text
asked: Hi.
True
```

```python
print("ours")
```
"""


def program(folder: Path, text: str = PAGE) -> Program:
    page = folder / "page.md"
    page.write_text(text, encoding="utf-8")
    (found,) = programs([page], ["other"])
    return found


def test_a_program_prints_what_its_page_shows(tmp_path: Path):
    with openai_server() as server:
        run_program(program(tmp_path), Path(sys.executable), server, tmp_path)
        assert len(server.requests) == 2


@pytest.mark.parametrize(
    ("old", "new", "error"),
    [
        ("asked: Hi.", "asked: Ho.", "other"),
        ('"One two."', '"One two.", "Three."', "Three"),
        ('print("asked', 'boom("asked', "NameError"),
    ],
    ids=["another output", "an answer too many", "a program that fails"],
)
def test_a_program_that_does_something_else_fails(old: str, new: str, error: str, tmp_path: Path):
    with openai_server() as server, pytest.raises(AssertionError, match=error):
        run_program(program(tmp_path, PAGE.replace(old, new)), Path(sys.executable), server, tmp_path)


def test_a_program_has_to_show_its_output(tmp_path: Path):
    with pytest.raises(ValueError, match=r"page\.md:\d+"):
        program(tmp_path, PAGE.replace("```text", "Text:\n\n```text"))


def test_an_unknown_library_is_named(capsys: pytest.CaptureFixture[str]):
    assert main(["nothing"]) == 2
    assert "nothing" in capsys.readouterr().err


def test_an_environment_is_made_once_for_its_packages(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    commands: list[list[str]] = []

    def run(command: list[object], **options: object) -> None:
        commands.append([str(each) for each in command])
        (tmp_path / ".venv-peers-other").mkdir(exist_ok=True)

    monkeypatch.setattr(environments.subprocess, "run", run)
    for packages in (["other>=1"], ["other>=1"], ["other>=2", "more[x]>=1"]):
        python = environments.environment("other", packages, tmp_path)
        assert python.parent.parent == tmp_path / ".venv-peers-other"
    assert [command[-2:] for command in commands[1::2]] == [["--no-input", "other>=1"], ["other>=2", "more[x]>=1"]]
    assert len(commands) == 4


def test_versions_are_of_the_environment():
    assert (
        environments.versions(Path(sys.executable), ["pytest>=8", "httpx[http2]; extra"])["pytest"]
        == pytest.__version__
    )


def test_calls_in_pieces_are_whole_without_a_stream():
    body = {
        "messages": [{"role": "user", "content": "Go"}],
        "tools": [{"function": {"name": "add", "parameters": {
            "type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}}}],
    }  # fmt: skip
    with openai_server() as server:
        answer = httpx.post(f"{server.base_url}/chat/completions", json=body, trust_env=False).json()
    (call,) = answer["choices"][0]["message"]["tool_calls"]
    assert json.loads(call["function"]["arguments"]) == {"city": "Paris"} and answer["usage"]["total_tokens"] == 18


def test_every_library_with_an_environment_has_a_program():
    assert {each.peer for each in programs()} == set(environments.PEERS)
