"""The code of README and docs runs as printed, against a real server on loopback in place of the provider."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentscope_rx.errors import ConfigurationError, MissingExtraError
from tests.docs.pages import PAGES, TUTORIAL, PageRunner, blocks_of, compare, name_of
from tests.support.openai_server import openai_server

NOT_EVERYWHERE = {"embeddings"}
"""Extras of the development environment whose packages not every Python has wheels for."""
RUN = [page for page in PAGES if TUTORIAL not in page.parents and blocks_of(page.read_text(encoding="utf-8"))]


@pytest.mark.parametrize("page", RUN, ids=name_of)
def test_the_code_of_a_page_runs(page: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.chdir(tmp_path)
    with openai_server() as server:
        monkeypatch.setenv("OPENAI_API_KEY", "test")
        monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
        try:
            PageRunner(page, tmp_path, server).run()
        except MissingExtraError as error:
            if error.extra not in NOT_EVERYWHERE:
                raise
            pytest.skip(f"{error.package} is not installed")
        except ConfigurationError as error:
            if "bwrap" not in str(error):
                raise
            pytest.skip(str(error))
        assert not server.answers, "answers that no request has taken"


PAGE = """
# Page

```python title="hello.py"
print("Hello")
```

```console
$ pip install nothing
$ python hello.py
Hello
```

<!-- answers: [{"add": {"a": 1}}, "2"] -->
```python
import asyncio
await asyncio.sleep(0)
print("one\\ntwo\\n12 ms")
```

```text
one
two
... ms
```
"""


def run(text: str, folder: Path) -> list[object]:
    page = folder / "page.md"
    page.write_text(text)
    with openai_server() as server:
        PageRunner(page, folder, server).run()
        return list(server.answers)


def test_a_page_is_carried_out_as_printed(tmp_path: Path):
    assert run(PAGE, tmp_path) == [{"add": {"a": 1}}, "2"]
    assert (tmp_path / "hello.py").exists()


@pytest.mark.parametrize("shown", ["$ python hello.py\nHello", "one\ntwo"])
def test_another_output_fails(shown: str, tmp_path: Path):
    with pytest.raises(AssertionError, match=r"page\.md"):
        run(PAGE.replace(shown, shown + "!"), tmp_path)


def test_ellipses_stand_for_any_text():
    compare("took ... ms\n", "took 12 ms\n", "here")
    with pytest.raises(AssertionError, match="here"):
        compare("took ... s\n", "took 12 ms\n", "here")


SERVICE = """
```python title="app.py"
async def app(scope, receive, send):
    await send({"type": "http.response.start", "status": 200})
    await send({"type": "http.response.body", "body": b"hello"})
```

```console
$ uvicorn app:app --port 8000 --lifespan off &
... running on http://127.0.0.1:8000 ...
$ curl -s http://127.0.0.1:8000/
hello
$ kill %1
$ curl -s http://127.0.0.1:8000/ || echo gone
gone
```
"""


def test_a_background_command_runs_until_it_is_stopped(tmp_path: Path):
    run(SERVICE, tmp_path)


def test_a_background_command_that_ends_fails(tmp_path: Path):
    with pytest.raises(AssertionError, match="Hello"):
        run("```console\n$ python -c 'print(1)' &\nHello\n```\n", tmp_path)
