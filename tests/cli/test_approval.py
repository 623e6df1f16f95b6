"""Calls that wait for a person: asked at a terminal, told without one, and taken up again by name."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from agentscope_rx import Approve, ReActAgent, Reject, ToolUseBlock, tool
from agentscope_rx.cli.approval import ask_person
from agentscope_rx.cli.main import main
from agentscope_rx.cli.terminal import Terminal
from agentscope_rx.messages.blocks import IN_DOUBT
from agentscope_rx.permissions import PermissionRules
from agentscope_rx.testing import ScriptedModel, call

from .processes import Start
from .scripted_server import Server, calls, says

BANK = '''
from agentscope_rx import tool

@tool(requires_approval=True)
def transfer(amount: int, to: str) -> str:
    """Send money."""
    return f"{amount} sent to {to}"
'''
FLAGS = ("--tools", "bank:transfer", "--no-builtin-tools")
Cli = Callable[..., "subprocess.CompletedProcess[str]"]
PAY = calls("transfer", amount=50, to="bakery")


@pytest.fixture
def bank(tmp_path: Path) -> Path:
    (tmp_path / "bank.py").write_text(BANK)
    return tmp_path


def sent(server: Server, request: int = -1) -> list[str]:
    """The results that a request has told the model of."""
    messages = server.requests[request]["messages"]
    assert isinstance(messages, list)
    return [message["content"] for message in messages if message["role"] == "tool"]


@pytest.mark.usefixtures("bank")
def test_ask_shows_the_call_and_runs_it_on_yes(terminal: Start, server: Server) -> None:
    server.answers += [PAY, says("Paid.")]
    ask = terminal("ask", "Pay.", *FLAGS)
    shown = ask.until("[a]lways: ")
    assert "transfer waits for your approval:" in shown
    assert "amount: 50" in shown
    assert 'to: "bakery"' in shown
    ask.type("y\n")
    ask.until("Paid.")
    assert ask.wait() == 0
    assert sent(server) == ["50 sent to bakery"]


@pytest.mark.usefixtures("bank")
def test_an_empty_line_never_approves(terminal: Start, server: Server) -> None:
    server.answers += [PAY, says("Then not.")]
    ask = terminal("ask", "Pay.", *FLAGS)
    for typed in ("", "yes please", "ok"):
        ask.until("[a]lways: ")
        ask.type(f"{typed}\n")
        ask.until("does not approve")
    ask.until("[a]lways: ")
    ask.type("n\n")
    ask.until("Why not?")
    ask.type("too much\n")
    ask.until("Then not.")
    assert ask.wait() == 0
    assert "too much" in sent(server)[0]


@pytest.mark.usefixtures("bank")
def test_edited_arguments_are_checked_shown_and_asked_about(terminal: Start, server: Server) -> None:
    server.answers += [PAY, says("Paid.")]
    ask = terminal("ask", "Pay.", *FLAGS)
    ask.until("[a]lways: ")
    ask.type("e\n")
    ask.until("as JSON: ")
    # the line is there to be edited: Ctrl-U clears it
    ask.until('"bakery"}')
    ask.type('\x15{"amount": "much"}\n')
    ask.until("not accepted: ")
    ask.until("[a]lways: ")
    ask.type("e\n")
    ask.until("as JSON: ")
    ask.until('"bakery"}')
    ask.type('\x15{"amount": 5, "to": "baker"}\n')
    ask.until("amount: 5")
    ask.until("[a]lways: ")
    ask.type("y\n")
    ask.until("Paid.")
    assert ask.wait() == 0
    assert sent(server) == ["5 sent to baker"]


@pytest.mark.usefixtures("bank")
def test_always_is_for_the_tool_and_the_conversation(terminal: Start, server: Server) -> None:
    server.answers += [PAY, calls("transfer", amount=9, to="mill"), says("Both paid.")]
    chat = terminal("chat", *FLAGS)
    chat.until("> ")
    chat.type("pay\n")
    chat.until("[a]lways: ")
    chat.type("a\n")
    assert "waits for your approval" not in chat.until("Both paid.")
    assert sent(server) == ["50 sent to bakery", "9 sent to mill"]


@pytest.mark.usefixtures("bank")
def test_what_was_typed_ahead_approves_nothing(terminal: Start, server: Server) -> None:
    server.answers += [PAY, says("Then not.")]
    ask = terminal("ask", "Pay.", *FLAGS)
    ask.type("y\ny\n")
    ask.until("[a]lways: ")
    ask.type("n no\n")
    ask.until("Then not.")
    assert ask.wait() == 0
    assert "sent" not in sent(server)[0]


@pytest.mark.usefixtures("bank")
def test_ctrl_c_and_approve_in_chat(terminal: Start, server: Server) -> None:
    server.answers += [PAY, says("Paid.")]
    chat = terminal("chat", *FLAGS)
    chat.until("> ")
    chat.type("pay\n")
    chat.until("[a]lways: ")
    chat.interrupt_until("not approved; /approve")
    chat.until("> ")
    chat.type("/approve\n")
    chat.until("[a]lways: ")
    chat.type("y\n")
    chat.until("Paid.")
    assert sent(server) == ["50 sent to bakery"]


@pytest.mark.usefixtures("bank")
def test_without_a_terminal_it_says_what_waits(cli: Cli, server: Server) -> None:
    server.answers += [PAY]
    done = cli("ask", "Pay.", *FLAGS, "--model", "openai:m", "--base-url", server.url, "-q")
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr == (
        'agentscope-rx: waiting: transfer(amount=50, to="bakery") needs approval. Approve beforehand with --approve '
        "transfer, or save the conversation with --session NAME.\n"
    )


@pytest.mark.usefixtures("bank")
def test_what_waits_goes_on_in_another_process(cli: Cli, server: Server) -> None:
    flags = (*FLAGS, "--model", "openai:m", "--base-url", server.url)
    server.answers += [PAY, says("Paid.")]
    first = cli("ask", "Pay.", *flags, "--session", "ann")
    assert first.returncode == 3
    assert "--session ann --approve transfer" in first.stderr
    again = cli("ask", *flags, "-c")
    assert again.returncode == 3
    done = cli("ask", *flags, "-c", "--approve", "transfer", "-q")
    assert (done.returncode, done.stdout) == (0, "Paid.\n")
    assert done.stderr == "agentscope-rx: session: ann (goes on)\n"
    assert sent(server) == ["50 sent to bakery"]


@pytest.mark.usefixtures("bank")
def test_always_chooses_a_rule_that_is_kept(terminal: Start, server: Server, bank: Path) -> None:
    (bank / "rules.json").write_text('{"version": 1}')
    server.answers += [PAY, calls("transfer", amount=9, to="mill"), says("Both paid.")]
    ask = terminal("ask", "Pay.", *FLAGS, "--permissions", "rules.json")
    ask.until("[a]lways: ")
    ask.type("a\n")
    shown = ask.until("Enter to go back: ")
    assert '1: transfer(arguments: {"amount": 50, "to": "bakery"})' in shown and "2: transfer" in shown
    ask.type("\n")
    ask.until("[a]lways: ")
    ask.type("a\n")
    ask.until("Enter to go back: ")
    ask.type("2\n")
    assert "waits for your approval" not in ask.until("Both paid.")
    assert ask.wait() == 0
    assert json.loads((bank / "rules.json").read_text())["allow"] == ["transfer"]


@pytest.mark.usefixtures("bank")
def test_permissions_and_modes_hold_on_the_command_line(cli: Cli, server: Server, bank: Path) -> None:
    flags = (*FLAGS, "--model", "openai:m", "--base-url", server.url, "-q")
    (bank / ".agentscope").mkdir()
    (bank / ".agentscope" / "permissions.json").write_text('{"version": 1, "mode": "workspace", "allow": ["*"]}')
    server.answers += [PAY, says("Not paid.")]
    assert cli("ask", "Pay.", *flags, "--mode", "plan").stdout == "Not paid.\n"
    assert "This call is not permitted" in sent(server)[0]
    server.answers += [PAY]
    assert cli("ask", "Pay.", *flags, "--mode", "ask").returncode == 3, "the folder's own file allows nothing"
    server.answers += [PAY, says("Paid.")]
    assert cli("ask", "Pay.", *flags, "--permissions", ".agentscope/permissions.json").stdout == "Paid.\n"
    server.answers += [PAY]
    absent = cli("ask", "Pay.", *flags, "--permissions", "rules.json")
    assert absent.returncode == 3 and "rules.json is not there yet" in absent.stderr
    (bank / "rules.json").write_text('{"version": 1,\n"alow": []}')
    wrong = cli("ask", "Pay.", *flags, "--permissions", "rules.json")
    assert wrong.returncode == 2 and "line 2, has no 'alow'" in wrong.stderr


# --- in this process --------------------------------------------------------------------------------------------------


@tool(requires_approval=True)
def run(script: str) -> str:
    """Run."""
    return script


def asked(typed: str, *waiting: ToolUseBlock) -> tuple[list[object], str]:
    """What a person says by these lines, and what they were shown."""
    shown = io.StringIO()
    agent = ReActAgent("A", ScriptedModel(), tools=[run])
    answers = ask_person(Terminal(io.StringIO(typed), shown), agent, waiting)
    return list(answers), shown.getvalue()


def test_all_of_a_call_is_shown_and_none_of_it_is_obeyed() -> None:
    long = ToolUseBlock("1", "run", {"script": f"echo {'x' * 5000}\nrm -rf \x1b[2K\u202e/\n"})
    answers, shown = asked("y\n", long)
    assert answers == [Approve(long)]
    assert f"    | echo {'x' * 5000}\n    | rm -rf \\x1b[2K\\u202e/\n" in shown
    assert "\x1b" not in shown


def test_answers() -> None:
    one, two = ToolUseBlock("1", "run", {"script": "a"}), ToolUseBlock("2", "run", {"script": "b"})
    assert asked("Y\nNO too late\n", one, two)[0] == [Approve(one), Reject(two, "too late")]
    assert asked("always\n", one, two)[0] == [Approve(one, remember="tool"), Approve(two)]
    assert asked('e\n{"script": "c"}\ny\n', one)[0] == [Approve(one, {"script": "c"})]
    assert asked("e\n[1]\ne\n{\ne\n\ny\n", one)[0] == [Approve(one)]
    with pytest.raises(EOFError):
        asked("\n \n", one)


# --- conversations and agents of one's own ----------------------------------------------------------------------------


def test_a_saved_conversation_goes_on(bare: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ask", "-c", "Hm?"], model=ScriptedModel()) == 2
    assert "no saved conversation" in capsys.readouterr().err
    assert main(["ask", "I am Ada.", "--session", "ada", "-q"], model=ScriptedModel("Hello.")) == 0
    model = ScriptedModel("Ada.")
    assert main(["ask", "Who am I?", "-c", "-q"], model=model) == 0
    assert [message.text for message in model.requests[0].messages][1:] == ["I am Ada.", "Hello.", "Who am I?"]
    out, err = capsys.readouterr()
    assert out == "Hello.\nAda.\n"
    assert "session: ada (new)" in err
    assert "session: ada (goes on)" in err
    assert (bare / ".agentscope_rx" / "conversations" / "ada").is_dir()


AGENTS = """
from agentscope_rx import ReActAgent
from agentscope_rx.testing import ScriptedModel

def make():
    return ReActAgent("Mine", ScriptedModel("It is me."))

def broken():
    return 1 / 0

friday = make()
"""


@pytest.mark.parametrize("name", ["friday", "make"])
def test_an_agent_of_ones_own(name: str, cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(AGENTS)
    done = cli("ask", "Who?", "--agent", f"mine:{name}", "-q")
    assert (done.returncode, done.stdout, done.stderr) == (0, "It is me.\n", "")


@pytest.mark.parametrize(
    ("flags", "complaint"),
    [
        (["--agent", "mine:broken"], "--agent mine:broken: calling it failed with ZeroDivisionError"),
        (["--agent", "mine:AGENTS"], "--agent mine:AGENTS: 'mine' has no 'AGENTS'"),
        (["--agent", "json:decoder"], "this is not an Agent"),
        (["--agent", "mine:make", "--model", "openai:m"], "leave --model out"),
        (["--agent", "mine:make", "--max-iters", "3"], "leave --max-iters out"),
        (["--mcp", "'"], "--mcp ': this is not a command"),
        (["--mcp", "no-such-program-here"], "--mcp no-such-program-here: "),
    ],
)
def test_what_cannot_be_used_is_one_line(flags: list[str], complaint: str, cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(AGENTS)
    done = cli(
        "ask", "?", *flags, *(() if "--agent" in flags else ("--model", "openai:m", "--base-url", "http://[::1]:9"))
    )
    assert done.returncode == 2
    assert complaint in done.stderr
    assert done.stderr.count("\n") == 1


SHOP = '''
from mcp.server.mcpserver import MCPServer
from mcp.types import ToolAnnotations

server = MCPServer("shop")

@server.tool(annotations=ToolAnnotations(read_only_hint=True))
async def price(article: str) -> str:
    """What an article costs."""
    return f"{article}: 3"

@server.tool()
async def order(article: str) -> str:
    """Order an article."""
    return f"{article} ordered"

server.run()
'''


def test_tools_of_an_mcp_server(cli: Cli, server: Server, tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(SHOP)
    server.answers += [calls("price", article="tea"), calls("order", article="tea")]
    program = f"{sys.executable} shop.py"
    flags = ("--model", "openai:m", "--base-url", server.url)
    done = cli("ask", "Tea?", "--mcp", program, "--mcp", program, *flags)
    assert done.returncode == 2
    done = cli("ask", "Tea?", "--mcp", program, "--no-builtin-tools", "--json", *flags)
    assert done.returncode == 3
    assert 'order(article="tea") needs approval' in done.stderr
    assert "tea: 3" in done.stdout
    assert json.loads(done.stdout.splitlines()[-1])["type"] == "post_call"


def test_pending_calls_come_first_at_a_terminal_only(bare: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (bare / "bank2.py").write_text(BANK)
    flags = ["--tools", "bank2:transfer", "--no-builtin-tools", "--session", "s", "-q"]
    first = ScriptedModel(call("transfer", amount=1, to="x"))
    assert main(["ask", "Pay.", *flags], model=first) == 3
    # without a terminal a new question passes the call by
    second = ScriptedModel("As you like.")
    assert main(["ask", "Forget it.", *flags], model=second) == 0
    assert capsys.readouterr().out == "As you like.\n"
    assert "had no effect" in second.requests[0].messages[-2].tool_results[0].text


@tool(requires_approval=True)
def send(to: str) -> str:
    """Send."""
    return to


def asked_under_rules(typed: str, *waiting: ToolUseBlock) -> tuple[list[object], str, PermissionRules]:
    shown = io.StringIO()
    agent = ReActAgent("A", ScriptedModel(), tools=[run, send])
    rules = PermissionRules()
    answers = ask_person(Terminal(io.StringIO(typed), shown), agent, waiting, rules)
    return list(answers), shown.getvalue(), rules


def test_a_rule_covers_the_other_calls_of_the_batch() -> None:
    one, two = ToolUseBlock("1", "send", {"to": "ann"}), ToolUseBlock("2", "send", {"to": "bob"})
    answers, shown, rules = asked_under_rules("a\n2\n", one, two)
    assert answers == [Approve(one), Approve(two)] and shown.count("waits for your approval") == 1
    assert [*map(str, rules.allow)] == ["send"]
    answers, shown, rules = asked_under_rules("a\n1\nn no\n", one, two)
    assert answers == [Approve(one), Reject(two, "no")] and shown.count("waits for your approval") == 2


@pytest.mark.parametrize("choice", ["", "0", "3", "x", "-1", "\u00b2", "1 2"])
def test_no_choice_approves_nothing(choice: str) -> None:
    one = ToolUseBlock("1", "send", {"to": "ann"})
    answers, _, rules = asked_under_rules(f"a\n{choice}\nn no\n", one)
    assert answers == [Reject(one, "no")] and rules.allow == ()


def test_where_no_rule_may_allow_a_call_always_says_so() -> None:
    for waiting in (ToolUseBlock("1", "run", {"script": "ls"}), ToolUseBlock("p/q", "send", {"to": "ann"})):
        answers, shown, rules = asked_under_rules("a\nn no\n", waiting)
        assert answers == [Reject(waiting, "no")] and "no rule can allow this call" in shown and rules.allow == ()


def test_a_rule_answers_no_doubt_about_a_call_that_has_begun() -> None:
    one = ToolUseBlock("1", "send", {"to": "ann"})
    doubtful = ToolUseBlock("2", "send", {"to": "bob"}).replace(metadata={IN_DOUBT: True})
    answers, shown, _ = asked_under_rules("a\n2\nn no\n", one, doubtful)
    assert answers == [Approve(one), Reject(doubtful, "no")] and "may have had its effect" in shown
