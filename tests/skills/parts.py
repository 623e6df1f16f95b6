"""What the tests of skills share: folders with skills, agents with a hook."""

from __future__ import annotations

import sys
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from agentscope_rx import Msg, ReActAgent
from agentscope_rx.messages import ToolResultBlock
from agentscope_rx.skills import SkillsHook
from agentscope_rx.testing import ScriptedModel, call

TRIP = "---\nname: trip\ndescription: Plans trips by rail & ferry.\n---\n# Trips\nBook early.\n"


def skill_text(name: str, description: str = "Does things.", body: str = "Do it.\n") -> str:
    return f"---\nname: {name}\ndescription: {description}\n---\n{body}"


def put(folder: Path, files: Mapping[str, str | bytes]) -> Path:
    """Write these files below the folder."""
    for path, data in files.items():
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data.encode() if isinstance(data, str) else data)
    return folder


def put_skill(folder: Path, name: str, **changes: str) -> Path:
    """Write a skill below the folder."""
    put(folder, {f"{name}/SKILL.md": skill_text(name, **changes)})
    return folder / name


WHEEL = {
    "tiny_skills/__init__.py": "",
    "tiny_skills/skills/hello/SKILL.md": skill_text("hello", "Greets."),
    "tiny_skills/skills/hello/scripts/hi.py": "print('hi from a package')\n",
    "tiny_skills/skills/broken/SKILL.md": "no front matter\n",
    "tiny_skills/skills/__pycache__/x.pyc": b"\0",
    "tiny_skills/skills/readme.txt": "not a skill\n",
    "tiny_skills-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: tiny-skills\nVersion: 1.0\n",
    "tiny_skills-1.0.dist-info/entry_points.txt": (
        "[agentscope_rx.skills]\ntiny = tiny_skills:skills\ntiny_gone = tiny_skills:missing\n"
        "bad = tiny_no_such:skills\n"
    ),
}
"""The files of an installed package with skills."""


@contextmanager
def installed(folder: Path, *, zipped: bool) -> Iterator[None]:
    """The package above, unpacked or as a zip file, on the path of Python."""
    place = folder / "tiny_skills-1.0-py3-none-any.whl"
    if zipped:
        with zipfile.ZipFile(place, "w") as archive:
            for path, data in WHEEL.items():
                archive.writestr(path, data)
    else:
        put(place, WHEEL)
    sys.path.insert(0, str(place))
    try:
        yield
    finally:
        sys.path.remove(str(place))
        sys.path_importer_cache.pop(str(place), None)
        sys.modules.pop("tiny_skills", None)


class Seen(ScriptedModel):
    """Notes which tools it is told of in each round."""

    def __init__(self, *turns: object) -> None:
        super().__init__(*turns)  # pyright: ignore[reportArgumentType]
        self.told: list[list[str]] = []

    def do_stream(self, messages, tools, options):
        self.told.append([each.name for each in tools])
        return super().do_stream(messages, tools, options)


def friday(hook: SkillsHook, *turns: object, **options) -> tuple[ReActAgent, Seen]:
    """An agent with the hook, and its model."""
    model = Seen(*turns)
    return ReActAgent("Friday", model, "You are Friday.", hooks=[hook], **options), model


def results(messages: tuple[Msg, ...]) -> list[ToolResultBlock]:
    return [result for message in messages for result in message.tool_results]


def texts(agent: ReActAgent) -> list[str]:
    """The texts of all results in memory."""
    return [result.text for result in results(tuple(agent.memory.messages))]


def asked(hook: SkillsHook, *calls: object, **options) -> list[str]:
    """The results of these calls, each in a round of its own."""
    agent, _ = friday(hook, *calls, "Done.", **options)
    assert agent.call("Go.").run().text == "Done."
    return texts(agent)


def load(name: str) -> object:
    return call("load_skill", name=name)


def read(name: str, path: str, **more: object) -> object:
    return call("read_skill_file", name=name, path=path, **more)
