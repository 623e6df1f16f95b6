"""Every example runs offline, without a warning, prints what it promises, and runs with a model behind HTTP, too."""

from __future__ import annotations

import ast
import asyncio
import json
import runpy
import subprocess
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest

from agentscope_rx.testing import run_virtual
from tests.support.openai_server import OpenAIServer, openai_server

EXAMPLES = Path(__file__).parent.parent / "examples"

EXPECTED = {
    "code_reviewer/review.py": [
        "  orders.py      started",
        "  report.py      reports: 3 noted.",
        "  lead           3 of 3 files are reviewed. (model_stop)",
        "     9 bug       A mutable default is shared by all calls. Use None, and make it inside.",
        "shipping.py: 0 findings",
    ],
    "research_assistant/assistant.py": [
        "  read: 4, unchanged: 0, removed: 0",
        "? When was the lighthouse built?",
        "  The lighthouse was built in 1868, after the brig Ceres had run aground on the western reef. [1]",
        "    [1] lighthouse.md > The lighthouse of Skarholm",
        "? And in October?",
        "  From October to April it is open on Sundays only, from eleven to three. [2]",
        "  I have not found it in these documents.",
    ],
    "support_desk/demo.py": [
        "  desk: It is done: 15 euros are on their way.",
        "  (waits for approval)",
        "  A colleague is looking at your refund. We will write to you.",
        "(the service was killed, and starts again)",
        "  desk: It is done: 120 euros are on their way.",
        "  Desk: It is done: 120 euros are on their way.",
        '  {"order": 7, "to": "ann", "euros": 120}',
    ],
    "hello.py": [
        "reply:  It is sunny in Paris.",
        "stream: As sunny ",
        "stream: I think.",
    ],
    "model_wrappers.py": [
        "   1.0 s  again, after: no route to host",
        "   2.0 s  Friday 1: From the second model.",
        "   2.0 s  again, after: Model scripted gave no first item within 2 s",
        "   3.0 s  Friday 1: From the second attempt.",
        "   3.0 s  Friday 2: Here it is.",
        "   6.0 s  Friday 4: Here it is.",
    ],
    "tool_groups.py": [
        "  offered: stock, reset_equipped_tools",
        "  reset_equipped_tools: Active groups: wholesale.",
        "  offered: stock, price, order, reset_equipped_tools",
        "  price: one teapot: 12 EUR",
        "Clerk: Yes, tomorrow.",
    ],
    "slow_reader.py": [
        "WAIT: 8.0 s, 16 pieces, merged 0, dropped 0",
        "COALESCE: 2.0 s, 4 pieces, merged 12, dropped 0",
        "DROP_OLDEST: 3.0 s, 6 pieces, merged 0, dropped 10",
    ],
    "ending_runs.py": [
        "  interrupted; then 'Where were we?'",
        "  'Once ' is all that is read",
        "  RunDeadlineError: The run of agent 'Teller' did not finish within 5 s",
        "  the first: interrupted; the second: 'Where were we?'",
        "  after ten seconds of patience: AgentShuttingDownError",
    ],
    "recorded_run.py": [
        "recorded: 13 events",
        "replayed: 'warm '",
        "as a test: It is warm in Rome.",
        "with another tool: RecordedMismatchError",
    ],
    "script.py": [
        "  delivery   311  The parcel of order 311 is a week late. Where is i",
        "! money      298  I was charged twice for order 298. Please pay one ",
        "  question     -  Do you ship to Iceland?",
    ],
    "asyncio_agents.py": [
        " 1.0 s  Ann: Soup.",
        " 2.0 s  Bob is cancelled",
        " 3.0 s  Eve: A cake.",
        "Bob remembers: ['What do we cook?']",
        "30.0 s  Bob is cancelled",
        "the time is up, and everything has stopped: [False, False, False]",
    ],
    "fastapi_app.py": [
        "  'questions. '",
        "    (server: it is complete)",
        "  reply: Long, and full of questions. (This is a script.)",
        "client: And your night?",
        "  (client: leaves)",
    ],
    "front_end.py": [
        '  TEXT_MESSAGE_CONTENT "I will write to Ann. "',
        "  asked: send_mail: This call waits for approval.",
        '  TOOL_CALL_RESULT "Sent to ann@example.org: Hi, Ann!"',
    ],
    "rxpy_pipeline.py": [
        "   2.0 s  Ann 9, Bob 3, Eve 1",
        "  16.5 s  Ann 0, Bob 0, Eve 1",
        "   6.5 s  Bob: ...ime trees in the middle ",
        "   3.3 s  Eve writes 'a '",
    ],
    "stream_of_questions.py": [
        "in the order of the questions:",
        "  (question 4 is read)",
        " 5.0 s  It is 9.",
        "as they are ready:",
        " 4.0 s  It is 25.",
    ],
    "chunk_stream.py": [
        "in groups of three:",
        "  'Oslo has 720 000'",
        "  ' of Norway.'",
        "  53 characters",
        "until the tool has answered:",
        "   6 post_acting",
    ],
    "permissions.py": [
        "read_file: rejected",
        "move_file: rejected",
        "2 calls wait; always means one of ['write_file(docs/a.md)', 'write_file(docs/**)']",
        "I did what I could. ['a.md', 'b.md', 'review.md']",
        '    "write_file(docs/**)"',
    ],
    "redact.py": [
        "shown       'The key of ann is '",
        "shown       '[secret], as ask'",
        "remembered  tool: 'app.ini: user=ann key=[secret]'",
        "remembered  assistant: 'The key of ann is [secret], as asked.'",
        "sent        tool: 'app.ini: user=ann key=[secret]'",
    ],
    "handoffs.py": [
        "approve transfer_to_refunds? yes, says Ann (Triage is active)",
        "Refunds: Your money is on its way.",
        "Refunds: By Friday.",
        "  assistant: Let me pass you on.",
    ],
    "supervisor.py": [
        "  Engineer: It carries 40 tons.",
        "Boss: Built in 1911, it carries 40 tons. (model_stop)",
        "Boss: Trucks over 30 tons need a permit (section 12, paragraph 3). (return_direct)",
    ],
    "goal_loop.py": [
        "feedback: ... AssertionError: add(2, 3) is -1",
        "done after 2 rounds: It was the sign. I mended it.",
    ],
    "guardrails.py": [
        "  remembered 'Let us talk about servers.'",
        "  shown 'The key is [secret removed], as asked. Keep it.'",
        "  warning of InjectionHints: found a phrase of injected instructions",
        "  last result: Error: This conversation holds results from outside (fetch)",
    ],
    "audit.py": [
        "reply: The bakery has its money; the casino needs a second signature.",
        "  transfer({'amount': 40, 'to': 'the bakery'}): ok: 40 sent to the bakery",
        "the file tells the same reply: True",
    ],
    "long_task.py": [
        "drop_old_results: 3214 -> 2764 tokens",
        "summarize: 2764 -> 1781 tokens",
        "201 requests, the largest within 4,000 tokens: True",
        "memory has 200 results, whole:",
        "  Room 3: the code of room 3 is x",
        "Friday: The code of room 3 is x21.",
    ],
    "ask_user.py": [
        "Which day? (Friday / Saturday)",
        "  'Tomorrow' does not answer the question 'Which day?'. The options are 'Friday', 'Saturday'.",
        "  answered: Saturday",
        "  answered: No nuts, please.",
        "Waiter: A table on Saturday, and no nuts.",
    ],
    "resume_after_crash.py": [
        "  (the balance is read)",
        "  (sent: 40 to the bakery)",
        "the first process has ended by signal 9",
        "goes on from round 1 of the run that was killed",
        "in doubt: transfer({'amount': 40, 'to': 'the bakery'}); the bank's list says sent",
        "Bank: I have sent 40 euros to the bakery.",
    ],
    "time_travel.py": [
        "3 questions; the history:",
        "  3: 6 messages, after checkpoint 2",
        "back to checkpoint 1:",
        "  1 question",
        "  Then Oslo, by train.",
        "  4: 4 messages, after checkpoint 1",
        "  Guide: Book the aisle.",
    ],
    "debate.py": [
        "Bob (to Alice, Judge): Four times: what counts is the way of the centre, a circle of radius 3 + 1.",
        "round 1: go on",
        "round 2: over, the answer is 4",
        "the judge remembers: ['Alice', 'Bob', 'Host', 'Judge', 'Alice', 'Bob', 'Host', 'Judge']",
    ],
    "werewolf.py": [
        "  village, 7 hear: Moderator: Seven players live in the village. The night begins.",
        "  den, 1 hear: Finn: Agreed, Gus.",
        "  village, 7 hear: Moderator: Gus was found dead in the morning.",
        "  village: {'Finn': 4, 'Ann': 2}",
        "  village, 6 hear: Moderator: Finn was voted out.",
        "  den, 0 hear: Ben: Dora knows.",
        "won by the village",
        "Dora (seer) has heard 15 messages, the last: Dora was found dead in the morning.",
        "Gus (villager) has heard 2 messages, the last: Gus was found dead in the morning.",
    ],
    "round_table.py": [
        "Gaston: A lime tree, and a bench around it.  -> Bella",
        "  (Ann reads 3 messages)",
        "  [Gaston has left]",
        "Mona: I can build the oven with what is left of the bridge.  -> Bella, Ann",
        "Gaston remembers: Host Bella Gaston Ann Gaston",
        "Mona remembers: Host Mona Bella Ann",
        "Ann remembers: Host Bella Gaston Ann Gaston Host Mona Bella Ann",
    ],
    "conversation.py": [
        "  (Ann has heard: nobody yet)",
        "Ann: Hello, what is there for dinner?",
        "  (Ann has heard: Cook, Waiter)",
        "Ann: No lemons in it, please.",
        "Waiter: One risotto, lemons on the side. Ten minutes!",
        "  user      Cook: There are rice, peas and lemons: I could make a risotto.",
        "  assistant Waiter: A risotto. Ann, would you like the lemons in it?",
    ],
    "approval.py": [
        "  (sent: 3 to the florist)",
        "approval_required: 2 calls wait",
        "send 9000 to the casino? not without a second signature",
        "  (sent: 40 to the bakery)",
        "reply: Florist and bakery have their money; the casino has not.",
        "  rejected: Error: not without a second signature",
    ],
    "long_conversation.py": [
        "stored: 4003 messages",
        "in the process: 23",
        "sent: 5, the last of them 'Do we know each other?'",
        "a request begins with: 'Ann asked 1,995 questions, and Friday answered them.'",
    ],
    "planning.py": [
        "dig: Error: Plan mode is on, and this tool may change something, so it was not run",
        "to approve: Dig the north bed, then the south bed. The roses stay.",
        "mode_off",
        "  (digging the south bed)",
        "subtask_finished 1",
        "finished",
        "- [x] Dig the south bed",
    ],
    "skills.py": [
        "to approve: scripts/fares.py of ferry-fares with ['oslo-kiel', '2', '2']",
        "the model saw: ['ferry-fares']",
        "load_skill: Skill ferry-fares",
        "run_skill_script: 324.00 euros, with a group discount",
        "Purser: Oslo to Kiel costs you 324 euros, with the discount for groups.",
    ],
    "mcp_tools.py": [
        "tools: garden_water, garden_repot",
        "  (watering the fern)",
        "  (watering the ivy)",
        "reply: Fern and ivy are watered.",
        "tool_suspended: Tool 'repot' needs approval. Its arguments: {'plant': 'fern'}",
        "reply: The fern has more room now.",
    ],
    "sub_agents_from_files.py": [
        "  (in the background: critic started)",
        "  fact-finder: In May 1911 (record 7).",
        "  fact-finder: No record says.",
        "  critic: It does not say in which year.",
        "  (in the background: critic completed)",
        "Editor: It opened in May 1911 (record 7); who opened it is not recorded.",
        "started: critic-1 (critic), opening (fact-finder)",
    ],
    "background_work.py": [
        "[build promoted]",
        "Friday: The build is going on.",
        "[build completed]",
        "Friday: It is built.",
        "reply: It is built.",
    ],
    "sub_agents.py": [
        "   6   Researcher pre_call",
        "   9   Researcher post_reasoning",
        "  18 Editor post_call",
        "approve open_letter(3)? yes, says Ann",
        "   2   Researcher pre_call",
        "Editor: ['It opened in May 1911.']",
    ],
    "pipelines.py": [
        "    Critics: call_facts -> 'Error: ModelConnectionError: no line'",
        "  waits: publish(Tea)",
        "  Published: Tea.",
        "  It opens at nine.",
        "  Hello!!!",
        "  Better draft",
        "  tre",
    ],
    "around_cache.py": [
        "1: 720 000 people live in Oslo.",
        "  (from the cache)",
        "2: 720 000 people live in Oslo.",
        "model calls: 2",
    ],
    "around_retry.py": [
        " 6.0 s  tool again",
        " 7.0 s  tool again",
        " 7.5 s  'sun'",
        " 7.5 s  model again, discarding what was shown",
        " 8.0 s  reply: It is sunny in Oslo.",
    ],
    "around_redaction.py": [
        "shown  'The key of ann is '",
        "shown  '[secret], as ask'",
        "sent   tool: 'app.ini: user=ann key=[secret]'",
        "sent   assistant: 'The key of ann is [secret], as asked.'",
    ],
    "tracing.py": [
        "0.0 to 0.5 s  chat first, type agentscope_rx.errors.model.ModelConnectionError, exception",
        "0.5 to 1.5 s  chat second, time_to_first_chunk 1.0",
        "1.5 to 2.0 s  execute_tool call_expert",
        "              ask the station",
        "1.5 to 3.0 s  execute_tool weather",
        "0.0 to 4.0 s  invoke_agent Friday, output_tokens 10, agentscope.retry",
        "Sunny: take a hat.",
    ],
    "around_tracer.py": [
        "0.0 to 1.0 s      scripted(1 messages, temperature 0.2): ok, 8 tokens",
        "0.0 to 1.0 s    reasoning 0: ok",
        "1.0 to 3.0 s      weather({'city': 'Oslo'}): ok, sunny in Oslo",
        "0.0 to 3.5 s  call of Friday('How is Oslo?'): ok, 132 tokens",
        "It is sunny.",
    ],
    "shared_run.py": [
        " 0.0 s  early: 'Oslo '",
        " 0.5 s  paused",
        "10.6 s  late : 'Oslo '",
        "11.5 s  early: 'plane.'",
        "11.5 s  early: (input) And without flying?",
        "12.5 s  late : 'Or by train.'",
        "12.5 s  reply: Or by train.",
        "12.5 s  ended, 11 events, unread: ()",
    ],
    "long_term_memory.py": [
        "ann: I have moved from Oslo to Bern.",
        "  notes: ['Ann lives in Oslo.']",
        "  notes: ['Ann lives in Bern.']",
        "bob: In which city do I live?",
        "version 1: Ann lives in Oslo. superseded",
        "version 2: Ann lives in Bern. holds",
        "forgotten: True, left: ()",
    ],
    "knowledge.py": [
        "  the hook found [1] leave.md",
        "  cited: [1] leave.md, Leave; not retrieved: []",
        "  the hook found [2] travel.md",
        "  the tool found [3] office.md",
        "  cited: [1] leave.md, Leave, [2] travel.md, Travel, [3] office.md, Office; not retrieved: [99]",
    ],
    "workspace.py": [
        "made: AGENTS.md, memory/, notes/, knowledge/, skills/, subagents/, .agentscope/",
        "user: I water in the evening. What grows in the north bed?",
        "  AGENTS.md: Answer in one sentence.",
        "  beds/AGENTS.md, with read_file: Name plants in Latin.",
        "  MEMORY.md: (none)",
        "user: When do I water?",
        "  MEMORY.md: - Ann waters in the evening.",
        "the folder: AGENTS.md, MEMORY.md",
    ],
    "sandboxed_shell.py": [
        "guaranteed: network: True",
        "$ sort -n tides.txt | tail -n 2 > highest.txt; cat highest.txt",
        "  551",
        "  cat: .env: Permission denied",
        "  touch: cannot touch '/usr/x': Read-only file system",
        "  ConnectionRefusedError: [Errno 111] Connection refused",
        "left: ['.agentscope', '.env', 'highest.txt', 'tides.txt']",
    ],
    "operators_in_hooks.py": [
        "   1.0 s  'Rome was not built in '",
        "   2.5 s  '[61 characters]'",
        "   2.6 s  'ROME WAS NOT BUILT IN A DAY, BUT BRICKS WERE LAID EVERY HOUR.'",
    ],
}


ELSEWHERE = {"sse_service.py"}
"""Servers: tests/service/test_example.py runs this one."""


@pytest.fixture(autouse=True)
def no_model_of_the_environment(monkeypatch: pytest.MonkeyPatch):
    for name in ("AGENTSCOPE_RX_MODEL", "OPENAI_API_KEY", "OPENAI_BASE_URL", "OPENAI_MODEL", "AGENT_TOKEN"):
        monkeypatch.delenv(name, raising=False)


def run(name: str, *arguments: str) -> None:
    """Run an example as `python examples/name` does, in this process, with modules and state of its own."""
    file = EXAMPLES / name
    known = set(sys.modules)
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        patch.setattr(sys, "argv", [str(file), *arguments])
        patch.syspath_prepend(file.parent)
        try:
            runpy.run_path(str(file), run_name="__main__")
        finally:
            # modules beside the file belong to it
            for module in set(sys.modules) - known:
                if str(EXAMPLES) in str(getattr(sys.modules[module], "__file__", "")):
                    del sys.modules[module]


def docstring(name: str) -> str:
    return ast.get_docstring(ast.parse((EXAMPLES / name).read_text(encoding="utf-8"))) or ""


def takes_a_real_model(name: str) -> bool:
    return "\nThe model is scripted, because " not in docstring(name)


@pytest.mark.parametrize("name", [*EXPECTED, *ELSEWHERE])
def test_an_example_says_what_to_look_at_and_how_to_run(name: str):
    text = docstring(name)
    first, _, rest = text.partition("\n")
    assert first.endswith((".", ":")) and rest.startswith("\nLook at: ")
    # or in a folder the command of its service
    assert f"    python examples/{name}" in text or f"python -m examples.{name.removesuffix('.py')}" in text
    assert ("AGENTSCOPE_RX_MODEL" in text) is takes_a_real_model(name)


@pytest.fixture(scope="module")
def server() -> Iterator[OpenAIServer]:
    """A model behind HTTP that calls the first tool it is offered, and then says what it has heard."""
    with openai_server() as server:
        yield server


# (seven players that repeat what they have heard say more and more, for seventy turns)
ECHO = [name for name in EXPECTED if takes_a_real_model(name) and name != "werewolf.py"]


@pytest.mark.parametrize("name", ECHO)
def test_an_example_runs_with_a_model_behind_http(
    name: str, server: OpenAIServer, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
):
    monkeypatch.setenv("AGENTSCOPE_RX_MODEL", "openai:test")
    monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
    if "run_virtual(main())" in (EXAMPLES / name).read_text(encoding="utf-8"):
        # its sleeps take no time here either: the clock follows the sockets only
        monkeypatch.setattr(asyncio, "run", run_virtual)
    asked = len(server.requests)
    run(name)
    assert "Traceback" not in capfd.readouterr().err
    assert len(server.requests) > asked


def test_a_client_that_leaves_stops_the_run(capfd: pytest.CaptureFixture[str]):
    run("fastapi_app.py")
    lines = capfd.readouterr().out.splitlines()
    assert lines[-2:] == ["  (client: leaves)", "    (server: the run has ended)"]
    assert lines.count("    (server: it is complete)") == 1


def test_the_tests_in_virtual_time_pass():
    command = [sys.executable, "-W", "error", "-m", "pytest", "-p", "no:xdist", str(EXAMPLES / "pytest_virtual_time")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout


def test_every_example_is_run():
    assert {file.name for file in EXAMPLES.glob("*.py")} == {
        name for name in {*EXPECTED, *ELSEWHERE} if "/" not in name
    }


@pytest.mark.parametrize("name", EXPECTED)
def test_an_example_prints_what_it_promises(name: str, capfd: pytest.CaptureFixture[str]):
    run(name)
    printed = capfd.readouterr()
    assert printed.err == ""
    lines = printed.out.splitlines()
    assert lines
    if "bwrap" in lines[0]:
        pytest.skip(lines[0])
    places = [lines.index(expected) for expected in EXPECTED[name]]
    assert places == sorted(places)


@pytest.mark.parametrize("name", ["redact.py", "around_redaction.py"])
def test_no_secret_is_printed_by_an_example_that_redacts(name: str, capfd: pytest.CaptureFixture[str]):
    run(name)
    printed = capfd.readouterr().out
    assert "4711" not in printed and "sk-" not in printed


def test_the_audit_is_a_file_of_json_lines(tmp_path: Path):
    file = tmp_path / "audit.jsonl"
    run("audit.py", str(file))
    lines = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    assert [line["type"] for line in lines][0 :: len(lines) - 1] == ["pre_call", "post_call"]
    assert {"pre_acting", "acting_chunk", "post_acting"} <= {line["type"] for line in lines}
