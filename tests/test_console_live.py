"""A run at a terminal: what stays on its screen, by an emulation of one that is as small as can be."""

from __future__ import annotations

import io
import re
import threading

import pytest

from agentscope_rx import ReActAgent, tool
from agentscope_rx.console import Console, live, print_run
from agentscope_rx.console.live import markdown
from agentscope_rx.testing import ScriptedModel
from agentscope_rx.testing.scripted_model import Turn, call

SECONDS = re.compile(r"\d+\.\d s")
ANSWER = """\
# Ferries

Some **bold** text with <b>HTML</b>, see [the list](http://x.y/z).
Second line.

- Aurora
- Borealis

```python
print("**not bold**")
```

| a | b |
|---|---|
| 1 | 2 |

[1]: http://kept
last `code`"""


@tool
def add(a: int, b: int) -> int:
    """Add."""
    return a + b


class Screen(io.StringIO):
    """A terminal whose screen is long enough: it knows line ends, going up and erasing."""

    def isatty(self) -> bool:
        return True

    @property
    def lines(self) -> list[str]:
        rows, row, column = [""], 0, 0
        for part in re.findall(r"\x1b\[[0-9;?]*[a-zA-Z]|\n|\r|[^\x1b\n\r]+", self.getvalue()):
            if part == "\n":
                row, column = row + 1, 0
                rows += [""] * (row + 1 - len(rows))
            elif part == "\r":
                column = 0
            elif part.startswith("\x1b["):
                number, code = int(part[2:-1]) if part[2:-1].isdigit() else 1, part[-1]
                if code == "A":
                    row -= number
                elif code == "K":
                    rows[row] = ""
            else:
                rows[row] = rows[row][:column] + part + rows[row][column + len(part) :]
                column += len(part)
        if not any(rows[row + 1 :]):
            # below the cursor, what is empty is no line of text
            del rows[row + 1 :]
        return [SECONDS.sub("0.0 s", line.rstrip()) for line in rows]


def shown(*turns: Turn, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("COLUMNS", "60")
    monkeypatch.setenv("LINES", "25")
    screen = Screen()
    agent = ReActAgent("A", ScriptedModel(*turns), tools=[add])
    print_run(agent.stream("?"), Console(screen, color=True, live=True))
    return "\n".join(screen.lines)


@pytest.fixture(params=[10, 100_000], ids=["redrawn", "redrawn_all_the_time"])
def redrawn(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "REFRESHES", request.param)


@pytest.mark.usefixtures("redrawn")
@pytest.mark.parametrize("pause", [0.0, 0.3])
def test_answers_are_markdown(pause: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "PAUSE", pause)
    pieces = [ANSWER[at : at + 7] for at in range(0, len(ANSWER), 7)]
    text = shown(["Let me ", "see.", call("add", a=1, b=2)], pieces, monkeypatch=monkeypatch)
    assert text == (
        "Let me see.\n-> add(a=1, b=2)\n<- 3\n"
        "                          Ferries\n\n"
        "Some bold text with <b>HTML</b>, see the list\n(http://x.y/z).\nSecond line.\n\n"
        " • Aurora\n • Borealis\n\n"
        ' print("**not bold**")\n\n'
        " a  b\n ────\n 1  2\n\n"
        "[1]: http://kept\nlast code\n"
        "-- 2 turns, 1 tool call, 0.0 s\n"
    )


@pytest.mark.usefixtures("redrawn")
@pytest.mark.parametrize("size", [1, 3, 1000])
def test_pieces_of_any_size_come_to_one_screen(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    pieces = [ANSWER[at : at + size] for at in range(0, len(ANSWER), size)]
    assert shown(pieces, monkeypatch=monkeypatch) == shown([ANSWER], monkeypatch=monkeypatch)


@pytest.mark.usefixtures("redrawn")
def test_a_block_longer_than_the_screen_is_printed_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    answer = "\n".join(f"- item {number}" for number in range(100))
    text = shown([answer[at : at + 50] for at in range(0, len(answer), 50)], monkeypatch=monkeypatch)
    assert [f"item {number}" in text for number in range(100)] == [True] * 100
    assert text.count("item 99") == 1


def test_a_spinner_shows_while_nothing_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "PAUSE", 0.0)
    spins = threading.Event()

    class Watched(Screen):
        def write(self, text: str, /) -> int:
            if "\u280b" in text or "\u2819" in text:
                spins.set()
            return super().write(text)

    @tool
    def wait() -> str:
        """Wait for the spinner."""
        return "seen" if spins.wait(30) else "never"

    screen = Watched()
    agent = ReActAgent("A", ScriptedModel(call("wait"), "Done."), tools=[wait])
    print_run(agent.stream("?"), Console(screen, color=True, live=True))
    assert spins.is_set()
    assert [line for line in screen.lines if line] == [
        "-> wait()",
        "<- seen",
        "Done.",
        "-- 2 turns, 1 tool call, 0.0 s",
    ]


def test_without_colours_nothing_is_live() -> None:
    file = io.StringIO()
    agent = ReActAgent("A", ScriptedModel("**plain**"))
    print_run(agent.stream("?"), Console(file, live=True))
    assert file.getvalue().startswith("**plain**\n-- 1 turn")


def test_an_address_is_never_hidden() -> None:
    from rich.console import Console as Rich

    file = io.StringIO()
    Rich(file=file, force_terminal=True, width=80).print(markdown("[your bank](http://evil.example)"))
    assert "\x1b]8" not in file.getvalue()
    assert "http://evil.example" in file.getvalue()
