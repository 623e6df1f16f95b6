"""Saving skills and reading them from zip files: whole or not at all, and never outside of the folder."""

from __future__ import annotations

import contextlib
import io
import os
import re
import stat
import zipfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentscope_rx.errors import ConfigurationError, SkillError
from agentscope_rx.skills import FolderSkills, Skill, delete_skill, save_skill, skill_of_zip
from agentscope_rx.tools.files import Workspace
from tests.skills.parts import TRIP, put

BINARY = bytes(range(256))


def zipped(entries: list[tuple[str | zipfile.ZipInfo, bytes | str]]) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, data in entries:
            archive.writestr(path, data)
    return stream.getvalue()


@pytest.mark.spec("9.3 saved skills are read back")
def test_a_saved_skill_is_read_back(tmp_path: Path):
    skill = Skill("trip", "Trips.", "Go.\n", {"a/b.bin": BINARY, "é.md": "x"}, license="MIT", metadata={"v": "1.10"})
    place = save_skill(skill, tmp_path / "new" / "skills")
    assert place == tmp_path / "new" / "skills" / "trip"
    (found,) = FolderSkills(place.parent).scan().skills
    assert found.load() == skill and found.note is None
    assert os.listdir(place.parent) == ["trip"]


def test_an_existing_skill_is_replaced_only_if_asked(tmp_path: Path):
    save_skill(Skill("trip", "One.", "", {"old.txt": "x"}), tmp_path)
    (tmp_path / "trip" / ".hidden").write_text("")
    with pytest.raises(SkillError, match="exists already") as raised:
        save_skill(Skill("trip", "Two.", ""), tmp_path)
    assert raised.value.skill == "trip"
    save_skill(Skill("trip", "Two.", "", {"new.txt": "y"}), tmp_path, overwrite=True)
    assert sorted(os.listdir(tmp_path / "trip")) == ["SKILL.md", "new.txt"] and os.listdir(tmp_path) == ["trip"]


@pytest.mark.parametrize("failing", ["write", "move"])
def test_a_skill_is_saved_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: str):
    save_skill(Skill("trip", "One.", "", {"a.txt": "old"}), tmp_path)
    real = getattr(Workspace, failing)
    calls: list[str] = []

    def fails(self: Workspace, path: str, data: object):
        calls.append(path)
        if len(calls) == 2:
            raise OSError("disk full")
        return real(self, path, data)

    monkeypatch.setattr(Workspace, failing, fails)
    with pytest.raises(SkillError, match="was not saved: disk full"):
        save_skill(Skill("trip", "Two.", "", {"a.txt": "new", "b.txt": "new"}), tmp_path, overwrite=True)
    monkeypatch.undo()
    (found,) = FolderSkills(tmp_path).scan().skills
    assert found.load() == Skill("trip", "One.", "", {"a.txt": "old"}) and os.listdir(tmp_path) == ["trip"]


@pytest.mark.spec("9.3 resources of a saved skill stay in its folder")
def test_a_link_in_the_place_of_a_skill_is_not_followed(tmp_path: Path):
    outside = put(tmp_path / "outside", {"SKILL.md": TRIP, "keep.txt": "k"})
    folder = tmp_path / "skills"
    folder.mkdir()
    (folder / "trip").symlink_to(outside)
    for overwrite in (False, True):
        with pytest.raises(SkillError, match="link"):
            save_skill(Skill("trip", "New.", "", {"keep.txt": "new"}), folder, overwrite=overwrite)
    with pytest.raises(SkillError, match="link"):
        delete_skill("trip", folder)
    assert (outside / "keep.txt").read_text() == "k" and os.listdir(folder) == ["trip"]


def test_deleting_removes_the_whole_folder(tmp_path: Path):
    save_skill(Skill("trip", "One.", "", {"a/b/c.txt": "x"}), tmp_path)
    secret = put(tmp_path / "out", {"keep.txt": "k"})
    (tmp_path / "trip" / "link").symlink_to(secret)
    assert delete_skill("trip", tmp_path) and not delete_skill("trip", tmp_path)
    assert os.listdir(tmp_path) == ["out"] and (secret / "keep.txt").exists()
    assert not delete_skill("trip", tmp_path / "gone") and not delete_skill("out", tmp_path)
    with pytest.raises(ConfigurationError):
        delete_skill("../out", tmp_path)


@pytest.mark.spec("9.3 binary resources of a zip file are whole")
def test_a_zip_file_is_a_skill(tmp_path: Path):
    data = zipped(
        [
            ("trip/", ""),
            ("trip/SKILL.md", TRIP),
            ("trip/assets/all.bin", BINARY),
            ("trip/scripts/a.py", "print()"),
            ("__MACOSX/trip/._SKILL.md", "junk"),
            ("trip/.DS_Store", "junk"),
        ]
    )
    skill = skill_of_zip(data)
    assert dict(skill.resources) == {"assets/all.bin": BINARY, "scripts/a.py": b"print()"}
    (tmp_path / "trip.zip").write_bytes(data)
    assert skill_of_zip(tmp_path / "trip.zip") == skill


LINK = zipfile.ZipInfo("trip/link")
LINK.external_attr = (stat.S_IFLNK | 0o777) << 16


@pytest.mark.parametrize(
    ("entries", "problem"),
    [
        ([("trip/SKILL.md", TRIP), ("trip/../../x", "")], "has '..' in it"),
        ([("trip/SKILL.md", TRIP), ("../x", "")], "has '..' in it"),
        ([("trip/SKILL.md", TRIP), ("/etc/x", "")], "absolute"),
        ([("trip/SKILL.md", TRIP), ("C:\\x", "")], "absolute"),
        ([("trip/SKILL.md", TRIP), ("trip\\..\\x", "")], "has '..' in it"),
        ([("trip/SKILL.md", TRIP), ("~/x", "")], "begins with '~'"),
        ([("trip/SKILL.md", TRIP), ("trip/a\nb", "")], "control character"),
        ([("trip/SKILL.md", TRIP), ("other/x", "")], "more than one folder at its root"),
        ([("SKILL.md", TRIP)], "is not in a folder"),
        ([("trip/inner/SKILL.md", TRIP)], "there is no SKILL.md directly in its folder"),
        ([("trip/SKILL.md", TRIP), ("trip/a", "1"), ("trip/A", "2")], "'A' is there twice"),
        ([("trip/SKILL.md", TRIP), (LINK, "/etc/passwd")], "is a link or a device"),
        ([("trip/SKILL.md", "no front matter")], "line 1: the first line must be"),
        ([("trip/SKILL.md", b"\xff")], "it is not UTF-8"),
        ([("trip/SKILL.md", TRIP), ("trip/bomb", b"\0" * (17 * 1024 * 1024))], "more than 16,777,216 bytes"),
        ([("trip/SKILL.md", TRIP), *((f"trip/{n}", b"\0" * (16 << 20)) for n in range(5))], "all more than 67,108,864"),
        ([("trip/SKILL.md", TRIP), *((f"trip/{n}", "") for n in range(1001))], "more than 1,000 files"),
        ([(f"trip/{n}/", "") for n in range(2001)], "more than 2,000 entries"),
        ([("trip/SKILL.md", TRIP + "x" * (1 << 20))], "more than 1,048,576 bytes"),
    ],
)
@pytest.mark.spec("9.3 zip files have limits")
def test_a_hostile_zip_file_is_refused(entries, problem):
    with pytest.raises(SkillError, match=re.escape(problem)):
        skill_of_zip(zipped(entries))


def test_an_encrypted_entry_is_refused():
    data = bytearray(zipped([("trip/SKILL.md", TRIP)]))
    at = data.index(b"PK\x01\x02")
    data[at + 8] |= 1
    with pytest.raises(SkillError, match="is encrypted"):
        skill_of_zip(bytes(data))


@given(st.binary(max_size=200) | st.builds(lambda cut, at: _damaged(cut, at), st.integers(0, 255), st.integers(0, 300)))
def test_damaged_zip_files_are_typed_errors(data: bytes):
    with contextlib.suppress(SkillError):
        assert skill_of_zip(data).name


def _damaged(value: int, at: int) -> bytes:
    data = bytearray(zipped([("trip/SKILL.md", TRIP), ("trip/a", BINARY)]))
    data[at % len(data)] = value
    return bytes(data)


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_other_compressions_are_refused(method: int):
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", method) as archive:
        archive.writestr("trip/SKILL.md", TRIP)
    with pytest.raises(SkillError, match="in another way than 'deflate'"):
        skill_of_zip(stream.getvalue())


def test_a_missing_zip_file_is_a_typed_error(tmp_path: Path):
    with pytest.raises(SkillError, match="cannot be read as a zip file"):
        skill_of_zip(tmp_path / "gone.zip")
