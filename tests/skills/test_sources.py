"""Where skills are found: folders, packages, code; what is wrong with one takes no other away."""

from __future__ import annotations

import os
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from agentscope_rx.errors import ConfigurationError, SkillError
from agentscope_rx.skills import (
    FolderSkills,
    GivenSkills,
    PackageSkills,
    Skill,
    SkillCatalog,
    SkillScan,
    SkillSource,
    UserSkills,
    WorkspaceSkills,
    usual_sources,
)
from agentscope_rx.skills.folders import user_folder
from agentscope_rx.tools.files import Workspace
from agentscope_rx.tools.files.dirfd import Folder
from tests.skills.parts import TRIP, installed, put, put_skill, skill_text


def names(scan: SkillScan) -> list[str]:
    return [each.name for each in scan.skills]


def problems(scan: SkillScan) -> list[str]:
    return [str(each) for each in scan.problems]


def test_a_folder_gives_its_skills_by_name(tmp_path: Path):
    put(tmp_path, {"skills/trip/SKILL.md": TRIP, "skills/trip/a/b.md": "x", "skills/note.txt": "no skill"})
    put_skill(tmp_path / "skills", "abc")
    scan = WorkspaceSkills(tmp_path).scan()
    assert names(scan) == ["abc", "trip"] and not scan.problems
    trip = scan.skills[1]
    assert (trip.source, trip.place, trip.note) == ("workspace", "skills/trip", None)
    assert trip.info.description == "Plans trips by rail & ferry."
    assert [(each.path, each.size) for each in trip.files.list()] == [("a/b.md", 1)]
    assert trip.load() == Skill("trip", "Plans trips by rail & ferry.", "# Trips\nBook early.\n", {"a/b.md": "x"})


def test_hidden_files_are_left_out(tmp_path: Path):
    put(tmp_path, {"trip/SKILL.md": TRIP, "trip/.env": "k", "trip/.git/x": "", "trip/node_modules/x": "", "trip/a": ""})
    put_skill(tmp_path, ".hidden")
    scan = FolderSkills(tmp_path).scan()
    assert [each.path for each in scan.skills[0].files.list()] == ["a"] and len(scan.skills) == 1


@pytest.mark.spec("9.3 lookup is by the declared name")
def test_the_declared_name_counts_and_is_compared(tmp_path: Path):
    put(tmp_path, {"one/SKILL.md": skill_text("trip"), "two/SKILL.md": skill_text("trip")})
    scan = FolderSkills(tmp_path, label="mine").scan()
    assert names(scan) == ["trip"] and scan.skills[0].source == "mine"
    assert scan.skills[0].note == "the folder is named 'one', and the skill 'trip'. Give both the same name."
    assert problems(scan) == [
        f"{tmp_path}/two/SKILL.md: {tmp_path}/one declares the name 'trip', too. Rename one of them."
    ]


def test_a_bad_skill_is_a_problem_and_the_others_are_found(tmp_path: Path):
    put_skill(tmp_path / "skills", "good")
    put(
        tmp_path / "skills",
        {
            "empty/readme.md": "",
            "latin/SKILL.md": b"---\nname: latin\ndescription: \xe9t\xe9\n---\n",
            "large/SKILL.md": skill_text("large", body="x" * 1_100_000),
            "bad/SKILL.md": "---\nname: bad\n---\n",
        },
    )
    scan = WorkspaceSkills(Workspace(tmp_path)).scan()
    assert names(scan) == ["good"]
    assert problems(scan) == [
        "skills/bad/SKILL.md, line 1: the front matter has no 'description'. Add a line such as 'description: ...'.",
        "skills/empty/SKILL.md: there is no such file.",
        "skills/large/SKILL.md: it cannot be read: 'skills/large/SKILL.md' is too large: 1,100,046 bytes, and at most "
        "1,048,576 bytes are read.",
        "skills/latin/SKILL.md, line 3: it is not UTF-8. Save it in that encoding.",
    ]


def test_no_link_leads_out_of_the_folder(tmp_path: Path):
    secret = put(tmp_path / "out", {"secret.txt": "s", "skill/SKILL.md": skill_text("outside")})
    inside = put_skill(tmp_path / "skills", "inside")
    (inside / "secret.txt").symlink_to(secret / "secret.txt")
    (inside / "folder").symlink_to(secret)
    (tmp_path / "skills" / "outside").symlink_to(secret / "skill")
    (tmp_path / "skills" / "half").mkdir()
    (tmp_path / "skills" / "half" / "SKILL.md").symlink_to(secret / "skill" / "SKILL.md")
    for source in (FolderSkills(tmp_path / "skills"), WorkspaceSkills(tmp_path)):
        scan = source.scan()
        assert names(scan) == ["inside"] and scan.skills[0].files.list() == ()
        assert len(scan.problems) == 2 and "link" in problems(scan)[0] and "link" in problems(scan)[1]
        with pytest.raises(SkillError, match="link"):
            scan.skills[0].files.read("secret.txt")
        with pytest.raises(SkillError):
            scan.skills[0].files.read("../../out/secret.txt")


def test_a_folder_may_be_missing_or_no_folder(tmp_path: Path):
    source = FolderSkills(tmp_path / "later")
    assert source.scan() == SkillScan() and source.stamp() is None
    put_skill(tmp_path / "later", "abc")
    assert names(source.scan()) == ["abc"] and source.stamp() is not None
    assert WorkspaceSkills(tmp_path).scan() == SkillScan()
    (tmp_path / "file").write_text("")
    assert "cannot be read" in problems(FolderSkills(tmp_path / "file").scan())[0]
    (tmp_path / "skills").write_text("")
    assert "cannot be read" in problems(WorkspaceSkills(tmp_path).scan())[0]
    assert "give the folder above it" in problems(FolderSkills(put_skill(tmp_path, "abc")).scan())[0].lower()


def test_the_folder_of_the_user_can_be_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(Path, "home", lambda: tmp_path)
    assert user_folder() == tmp_path / ".agentscope" / "skills"
    put_skill(user_folder(), "mine")
    assert names(UserSkills().scan()) == ["mine"] and UserSkills().scan().skills[0].source == "user"
    assert names(UserSkills(put_skill(tmp_path / "other", "x").parent).scan()) == ["x"]


@pytest.mark.parametrize("zipped", [False, True], ids=["folder", "zip"])
def test_installed_packages_have_skills(tmp_path: Path, zipped: bool):
    with installed(tmp_path, zipped=zipped):
        source = PackageSkills()
        scan = source.scan()
        assert names(scan) == ["hello"] and scan.skills[0].source == "package:tiny"
        assert [each.path for each in scan.skills[0].files.list()] == ["scripts/hi.py"]
        assert scan.skills[0].load().resources["scripts/hi.py"] == b"print('hi from a package')\n"
        with pytest.raises(SkillError, match="there is no such file"):
            scan.skills[0].files.read("../../__init__.py")
        found = problems(scan)
        assert len(found) == 3 and "tiny_no_such" in found[0] and "ModuleNotFoundError" in found[0]
        assert found[1].startswith("tiny_skills:skills/broken/SKILL.md, line 1: the first line must be")
        assert found[2] == "tiny_skills:missing: the package has no such folder."
        assert source.scan() is scan
        assert names(PackageSkills(only=["other"]).scan()) == []
        assert (
            "no installed package has an entry point of this name" in problems(PackageSkills(only=["other"]).scan())[0]
        )
        assert problems(PackageSkills(only=["tiny"]).scan()) == [found[1]]


def test_earlier_sources_hide_later_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(Path, "home", lambda: tmp_path / "home")
    workspace = tmp_path / "work"
    put_skill(workspace / "skills", "hello", description="of the workspace")
    put_skill(workspace / "skills", "zoo")
    put_skill(user_folder(), "hello", description="of the user")
    put_skill(user_folder(), "art")
    with installed(tmp_path, zipped=False):
        skills = SkillCatalog(*usual_sources(workspace)).read()
    assert list(skills.by_name) == ["art", "hello", "zoo"]
    assert skills.by_name["hello"].info.description == "of the workspace"
    assert [(hidden.source, by.source) for hidden, by in skills.shadowed] == [
        ("package:tiny", "workspace"),
        ("user", "workspace"),
    ]


def test_skills_in_code_come_first(tmp_path: Path):
    put_skill(tmp_path, "hello")
    skills = SkillCatalog(tmp_path, Skill("hello", "of the code", "")).read()
    assert skills.by_name["hello"].source == "code" and len(skills.shadowed) == 1


def in_one_step(status: os.stat_result) -> SimpleNamespace:
    """The status of a file that was written at 1000 s."""
    values = {name: getattr(status, name) for name in dir(status) if name.startswith("st_")}
    return SimpleNamespace(**values | {"st_mtime_ns": 1000 * 10**9, "st_ctime_ns": 1000 * 10**9})


def test_a_skill_written_twice_in_one_step_of_time_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    put_skill(tmp_path, "abc", description="one")
    file = tmp_path / "abc" / "SKILL.md"
    real = Folder.stat
    clock = [1000.0]
    monkeypatch.setattr(Folder, "stat", lambda folder, name: in_one_step(real(folder, name)))
    monkeypatch.setattr("agentscope_rx.skills.folders._clock", lambda: clock[0])

    def described(catalog: SkillCatalog = SkillCatalog(tmp_path)) -> str:
        return catalog.read().by_name["abc"].info.description

    assert described() == "one"
    file.write_text(file.read_text().replace("one", "two"))
    assert described() == "two"
    file.write_text(file.read_text().replace("two", "six"))
    clock[0] = 1004.0
    assert described() == "six"


def test_a_catalog_reads_again_what_has_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    started = time.time()
    monkeypatch.setattr("agentscope_rx.skills.folders._clock", lambda: started)
    one, two = tmp_path / "one", tmp_path / "two"
    put_skill(one, "abc")
    put_skill(two, "xyz")
    scans: list[str] = []

    class Counted(FolderSkills):
        def scan(self) -> SkillScan:
            scans.append(self.path.name)
            return super().scan()

    catalog = SkillCatalog(Counted(one), Counted(two))
    first = catalog.read()
    assert catalog.read() is first and scans == ["one", "two"]
    put_skill(two, "new")
    assert list(catalog.read().by_name) == ["abc", "new", "xyz"] and scans == ["one", "two", "two"]
    put_skill(one, "abc", description="A longer description.")
    assert catalog.read().by_name["abc"].info.description == "A longer description."
    (two / "new" / "SKILL.md").unlink()
    assert list(catalog.read().by_name) == ["abc", "xyz"]
    os.utime(one / "abc" / "SKILL.md", ns=(1, 1))
    before = len(scans)
    catalog.read()
    assert len(scans) == before + 1


def test_a_source_that_fails_is_a_problem():
    class Broken(SkillSource):
        label = "broken"

        def stamp(self) -> object:
            raise OSError("no disk")

        def scan(self) -> SkillScan:
            raise RuntimeError("no luck")

    skills = SkillCatalog(Broken(), Skill("a", "b", "c")).read()
    assert list(skills.by_name) == ["a"]
    assert [str(each) for each in skills.problems] == ["broken: its skills cannot be read: RuntimeError: no luck"]


@pytest.mark.parametrize(
    "make",
    [
        lambda: SkillCatalog(1),
        lambda: GivenSkills(["x"]),
        lambda: GivenSkills([Skill("a", "b", "c"), Skill("a", "b", "c")]),
        lambda: FolderSkills(None),
        lambda: PackageSkills("tiny"),
    ],
)
def test_wrong_sources_are_refused(make):
    with pytest.raises(ConfigurationError):
        make()


def test_too_many_or_too_large_files_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    put_skill(tmp_path, "big")
    put(tmp_path / "big", {"a": "12345", "b": "12345", "c": ""})
    skill = FolderSkills(tmp_path).scan().skills[0]
    monkeypatch.setattr("agentscope_rx.skills.source.MAX_TOTAL", 8)
    with pytest.raises(SkillError, match="10 bytes; at most 8"):
        skill.load()
    monkeypatch.setattr("agentscope_rx.skills.folders.MAX_FILES", 2)
    with pytest.raises(SkillError, match="more than 2 files"):
        skill.files.list()
