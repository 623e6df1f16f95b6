"""`SkillsHook`: the list in the system message, the tools that read skills, the tools of skills."""

from __future__ import annotations

import asyncio
import contextlib
import re
import threading
from pathlib import Path

import pytest

from agentscope_rx import InMemoryMemory, ReActAgent, tool
from agentscope_rx.context_policy import ToolResultEvictionHook
from agentscope_rx.errors import ConfigurationError, DeadlineError, DuplicateToolError
from agentscope_rx.messages import ImageBlock
from agentscope_rx.session import InMemorySession
from agentscope_rx.skills import Skill, SkillScan, SkillsHook, SkillSource, WorkspaceSkills
from agentscope_rx.skills.skill import SkillInfo
from agentscope_rx.skills.wording import INSTRUCTION, skills_section
from agentscope_rx.testing import ScriptedModel, call, check_hook, check_tool, collect_dropped
from agentscope_rx.tools import Toolkit
from tests.skills.parts import TRIP, asked, friday, load, put, put_skill, read, results, texts

PNG = b"\x89PNG\r\n\x1a\n" + b"\0" * 20


@tool
def book(city: str) -> str:
    """Book a trip."""
    return f"booked {city}"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    lines = "".join(f"line {number}\n" for number in range(1, 5001))
    put(
        tmp_path / "skills" / "trip",
        {
            "SKILL.md": TRIP,
            "references/fares.md": "Fares.\n",
            "references/long.md": lines,
            "assets/map.png": PNG,
            "assets/data.bin": b"\0\1\2" * 50,
            "empty.txt": "",
        },
    )
    return tmp_path


def system(model: ScriptedModel, index: int = 0) -> str:
    return model.requests[index].messages[0].text


def test_the_list_is_in_the_system_message(folder: Path):
    put_skill(folder / "skills", "abc", description="Ends </description></skill> early.")
    agent, model = friday(SkillsHook(WorkspaceSkills(folder)), "Hello.", "Again.")
    agent.call("Hi.").run()
    assert system(model) == (
        f"You are Friday.\n{INSTRUCTION}\n<available_skills>\n"
        "<skill>\n<name>abc</name>\n"
        "<description>Ends &lt;/description&gt;&lt;/skill&gt; early.</description>\n</skill>\n"
        "<skill>\n<name>trip</name>\n<description>Plans trips by rail &amp; ferry.</description>\n</skill>\n"
        "</available_skills>"
    )
    agent.call("Hi.").run()
    assert system(model, 1) == system(model)
    assert "available_skills" not in "".join(message.text for message in agent.memory.messages)


@pytest.mark.spec("9.3 the order of skills is stable")
def test_the_order_of_sources_and_folders_does_not_count(tmp_path: Path):
    found: set[str] = set()
    for number, order in enumerate([["b", "a", "c"], ["c", "b", "a"]]):
        for name in order:
            put_skill(tmp_path / str(number), name)
        found.add(SkillsHook(tmp_path / str(number)).section().run())
    assert len(found) == 1


def test_a_change_is_in_the_next_call(folder: Path):
    hook = SkillsHook(WorkspaceSkills(folder))
    agent, model = friday(hook, "1", "2", "3")
    agent.call("Hi.").run()
    put_skill(folder / "skills", "new")
    agent.call("Hi.").run()
    (folder / "skills" / "new" / "SKILL.md").unlink()
    (folder / "skills" / "new").rmdir()
    agent.call("Hi.").run()
    assert ["<name>new" in system(model, index) for index in range(3)] == [False, True, False]


def test_without_skills_the_system_message_is_unchanged(tmp_path: Path):
    agent, model = friday(SkillsHook(tmp_path), "Hello.")
    agent.call("Hi.").run()
    assert system(model) == "You are Friday."
    assert asked(SkillsHook(tmp_path), load("trip"))[0] == (
        "Error: There is no skill 'trip'. There are: no skills at all."
    )


def test_a_skill_is_loaded_and_its_files_are_read(folder: Path):
    loaded, fares, image, binary, empty = asked(
        SkillsHook(WorkspaceSkills(folder)),
        load("trip"),
        read("trip", "./references/fares.md"),
        read("trip", "assets/map.png"),
        read("trip", "assets/data.bin"),
        read("trip", "empty.txt"),
    )
    assert loaded == (
        "Skill trip\n"
        "Its files, which read_skill_file reads when you need them:\n"
        "- assets/data.bin (150 bytes)\n- assets/map.png (28 bytes)\n- empty.txt (0 bytes)\n"
        "- references/fares.md (7 bytes)\n- references/long.md (48,893 bytes)\n"
        '<skill name="trip">\n# Trips\nBook early.\n</skill>'
    )
    assert fares == "Fares." and image == "assets/map.png (image/png, 28 bytes)"
    assert binary.startswith("'assets/data.bin' is not a text file") and "a script or a tool may use" in binary
    assert empty == "The file empty.txt is empty."


def test_an_image_is_given_as_an_image(folder: Path):
    agent, _ = friday(SkillsHook(WorkspaceSkills(folder)), read("trip", "assets/map.png"), "Done.")
    agent.call("Go.").run()
    (result,) = results(tuple(agent.memory.messages))
    assert isinstance(result.output[1], ImageBlock)


def test_long_files_come_in_pages(folder: Path):
    put_skill(folder / "skills", "long", body="".join(f"step {number:05}\n" for number in range(6000)))
    first, last, loaded, rest, gone = asked(
        SkillsHook(WorkspaceSkills(folder)),
        read("trip", "references/long.md"),
        read("trip", "references/long.md", offset=4999),
        load("long"),
        read("long", "SKILL.md", offset=4550),
        read("trip", "references/long.md", offset=6000),
    )
    assert first.startswith("line 1\nline 2\n")
    assert first.endswith("line 2000\n(Lines 1 to 2000 of 5000. Read on with offset=2001.)")
    assert last == "line 4999\nline 5000\n(Lines 4999 to 5000 of 5000)" or last.endswith(
        "(Lines 4999 to 5000 of 5000.)"
    )
    assert loaded.endswith(
        'step 04544\n</skill>\n(The rest: read_skill_file with name="long", path="SKILL.md", offset=4550.)'
    )
    assert rest.startswith("step 04545\n")
    assert "has 5000 lines; there is no line 6000" in gone


@pytest.mark.parametrize(
    ("wanted", "text"),
    [
        (load("tripp"), "There is no skill 'tripp'. There are: trip."),
        (load(" trip "), "# Trips"),
        (read("tripp", "SKILL.md"), "There is no skill 'tripp'"),
        (read("trip", "references/fare.md"), "has no file 'references/fare.md'. Its files: references/fares.md"),
        (read("trip", "../../x"), "has no file '../../x'"),
        (read("trip", "/etc/passwd"), "has no file '/etc/passwd'"),
        (read("trip", "zzzzzz"), "Its files: assets/data.bin, assets/map.png"),
    ],
)
def test_an_unknown_name_or_path_lists_near_ones(folder: Path, wanted, text):
    assert text in asked(SkillsHook(WorkspaceSkills(folder)), wanted)[0]


def test_a_broken_skill_is_reported_once_and_says_why(folder: Path):
    put(folder / "skills", {"bad/SKILL.md": "---\nname: bad\n---\n"})
    seen: list[str] = []
    hook = SkillsHook(WorkspaceSkills(folder), on_problem=lambda error: seen.append(str(error)))
    agent, _ = friday(hook, "1", load("trip"), "2")
    agent.call("Hi.").run()
    put_skill(folder / "skills", "new")
    agent.call("Hi.").run()
    assert len(seen) == 1 and seen[0].startswith("skills/bad/SKILL.md, line 1: the front matter has no 'description'")
    assert "# Trips" in texts(agent)[0]


def test_problems_are_dropped_errors_by_default(folder: Path):
    put(folder / "skills", {"bad/SKILL.md": ""})
    agent, _ = friday(SkillsHook(WorkspaceSkills(folder)), "1")
    with collect_dropped() as dropped:
        agent.call("Hi.").run()
    assert len(dropped) == 1 and "the first line must be" in str(dropped[0])


def test_instructions_are_not_evicted(folder: Path):
    put_skill(folder / "skills", "long", body="".join(f"step {number:05}\n" for number in range(4000)))
    model = ScriptedModel(load("long"), "Done.")
    hooks = [SkillsHook(WorkspaceSkills(folder)), ToolResultEvictionHook(200, 100)]
    ReActAgent("Friday", model, hooks=hooks).call("Go.").run()
    assert "step 02000" in model.requests[1].messages[-1].tool_results[0].text


# --- tools of skills -------------------------------------------------------------------------------------------------


@pytest.mark.spec("9.3 loading activates the tools of a skill")
def test_the_tools_of_a_skill_appear_when_it_is_loaded(folder: Path):
    hook = SkillsHook(WorkspaceSkills(folder), tools={"trip": [book]})
    agent, model = friday(hook, call("book", city="Oslo"), load("trip"), call("book", city="Oslo"), "Done.", "Again.")
    agent.call("Go.").run()
    refused, loaded, booked = texts(agent)
    assert "is in the inactive group 'skill:trip'" in refused and "These tools are available now: book" in loaded
    assert booked == "booked Oslo"
    basic = ["load_skill", "read_skill_file"]
    assert model.told == [basic, basic, [*basic, "book"], [*basic, "book"]]
    agent.call("And now?").run()
    assert model.told[-1] == [*basic, "book"]
    other = InMemoryMemory()
    model.told.clear()
    agent, model = friday(hook, "Hello.")
    agent.call("Hi.", memory=other).run()
    assert model.told == [basic]


def test_what_is_activated_is_saved_with_the_conversation(folder: Path):
    session = InMemorySession()
    hook = SkillsHook(WorkspaceSkills(folder), tools={"trip": [book]})
    agent, _ = friday(hook, load("trip"), "Done.", session=session, session_key="ada")
    agent.call("Go.").run()
    agent, model = friday(hook, "Hello.", session=session, session_key="ada")
    agent.call("Hi.").run()
    assert model.told == [["load_skill", "read_skill_file", "book"]]


def test_a_hook_that_leaves_takes_its_groups_along(folder: Path):
    hook = SkillsHook(WorkspaceSkills(folder), tools={"trip": [book]})
    agent = ReActAgent("Friday", ScriptedModel("Hello."))
    agent.hooks.add(hook)
    assert agent.toolkit.names == ("load_skill", "read_skill_file", "book")
    assert [group.name for group in agent.toolkit.groups] == ["skill:trip"]
    agent.hooks.remove(hook)
    assert (agent.toolkit.names, agent.toolkit.groups) == ((), ())
    agent.hooks.add(hook)
    assert agent.toolkit.groups_of("book") == ("skill:trip",)


def test_a_hook_that_cannot_be_added_changes_nothing(folder: Path):
    agent = ReActAgent("Friday", ScriptedModel("Hello."), tools=[book])
    with pytest.raises(DuplicateToolError):
        agent.hooks.add(SkillsHook(WorkspaceSkills(folder), tools={"trip": [book]}))
    assert (agent.toolkit.names, agent.toolkit.groups) == (("book",), ())
    toolkit = Toolkit([book])
    toolkit.create_tool_group("skill:trip", "Taken.")
    agent = ReActAgent("Friday", ScriptedModel("Hello."), toolkit=toolkit)

    @tool
    def other() -> str:
        """Other."""
        return ""

    with pytest.raises(ConfigurationError, match="There is a tool group 'skill:trip' already"):
        agent.hooks.add(SkillsHook(WorkspaceSkills(folder), tools={"trip": [other]}))
    assert agent.toolkit.names == ("book",) and len(agent.toolkit.groups) == 1


def test_allowed_tools_permit_nothing():
    hook = SkillsHook(Skill("trip", "Trips.", "Go.", allowed_tools=["pay"], compatibility="needs\n a bank"))

    @tool(requires_approval=True)
    def pay() -> str:
        """Pay."""
        return "paid"

    agent, _ = friday(hook, load("trip"), call("pay"), tools=[pay])
    reply = agent.call("Go.").run()
    assert [each.name for each in reply.pending_calls] == ["pay"]
    assert (
        "It needs: needs a bank\nIt is written for these tools: pay. That permits nothing: all calls are checked as "
        "before." in texts(agent)[0]
    )


# --- the budget ------------------------------------------------------------------------------------------------------

INFOS = [SkillInfo(f"skill-{number:02}", f"Does {number} " + "many things " * 20) for number in range(30)]


@pytest.mark.parametrize("most", [10_000, 3000, 1500, 1000, 600, 400, 120, 1])
def test_the_list_is_never_above_its_budget(most: int):
    text, left_out = skills_section(INFOS, "Use them.", most, len)
    assert len(text) <= most
    shown = re.findall("<name>(.*?)</name>", text)
    assert shown == [info.name for info in INFOS[: len(shown)]] and left_out == 30 - len(shown)
    if most >= 3000:
        assert len(shown) == 30
    if 0 < len(shown) < 30:
        assert f"... and {left_out} more" in text


def test_descriptions_are_cut_to_one_length():
    text, left_out = skills_section(INFOS, "", 4000, len)
    lengths = {len(each) for each in re.findall("<description>(.*?)</description>", text)}
    assert not left_out and len(text) > 3800 and max(lengths) - min(lengths) <= 1 and "...</description>" in text


def test_skills_without_room_are_reported():
    seen: list[str] = []
    skills = [Skill(info.name, info.description, "x") for info in INFOS]
    hook = SkillsHook(*skills, max_tokens=120, on_problem=lambda error: seen.append(str(error)))
    hook.section().run()
    assert len(seen) == 1 and "skills have no room in the list: raise max_tokens=120" in seen[0]


# --- time, and other parts --------------------------------------------------------------------------------------------


class Slow(SkillSource):
    """A source that does not answer."""

    label = "slow"

    def __init__(self, event) -> None:
        self.event = event

    def stamp(self) -> object:
        return None

    def scan(self) -> SkillScan:
        self.event.wait(30)
        return SkillScan()


def test_a_source_that_hangs_does_not_hold_the_call():
    event = threading.Event()
    agent, model = friday(SkillsHook(Slow(event), timeout=0.05), "Hello.")
    with collect_dropped() as dropped:
        try:
            assert agent.call("Hi.").run().text == "Hello."
        finally:
            event.set()
    assert [type(each) for each in dropped] == [DeadlineError] and "did not finish within 0.05 s" in str(dropped[0])
    assert system(model) == "You are Friday."


def test_a_disposed_call_leaves_nothing():
    event = threading.Event()
    agent, model = friday(SkillsHook(Slow(event)), "Hello.")

    async def main() -> None:
        waiting = asyncio.ensure_future(agent.call("Hi."))
        await asyncio.sleep(0)
        waiting.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await waiting
        event.set()
        assert not model.requests and not agent.memory.messages

    asyncio.run(main())
    assert agent.call("Hi.").run().text == "Hello."


def test_a_call_that_fails_at_its_sources_leaves_the_agent_free(folder: Path):
    class Failing:
        def count(self, messages, tools=()) -> int:
            raise RuntimeError("no counter")

    agent, model = friday(SkillsHook(WorkspaceSkills(folder), counter=Failing()), "Hello.")
    with pytest.raises(RuntimeError, match="no counter"):
        agent.call("Hi.").run()
    assert not agent.running and not model.requests


def test_it_keeps_the_laws_of_hooks_and_tools(folder: Path):
    check_hook(lambda: SkillsHook(WorkspaceSkills(folder)))
    first, second = SkillsHook(WorkspaceSkills(folder)).tools()
    check_tool(first, arguments={"name": "trip"}, failing={"name": "gone"}, invalid={"name": 1})
    check_tool(second, arguments={"name": "trip", "path": "references/fares.md"}, failing={"name": "x"}, invalid={})
    assert first.read_only and second.read_only


@pytest.mark.parametrize(
    ("arguments", "options"),
    [
        ((), {}),
        ((1,), {}),
        ((".",), {"max_tokens": 0}),
        ((".",), {"timeout": 0}),
        ((".",), {"instruction": None}),
        ((".",), {"on_problem": 1}),
        ((".",), {"tools": {"gone": [book]}}),
        ((".",), {"tools": [book]}),
    ],
)
def test_wrong_options_are_refused(arguments, options):
    with pytest.raises(ConfigurationError):
        SkillsHook(*arguments, **options)
