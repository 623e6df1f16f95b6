"""The command line's tools: the library's file tools, read-only, over the working directory, and the time."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from agentscope_rx import Toolkit
from agentscope_rx.cli.tools import builtin_tools
from agentscope_rx.messages import ToolResultBlock, ToolUseBlock

SECRET = "the secret outside"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A folder beside a secret, with a link that leads there."""
    (tmp_path / "secret.txt").write_text(SECRET)
    root = tmp_path / "root"
    (root / "docs").mkdir(parents=True)
    (root / "docs" / "index.md").write_text("# Index\nsee hooks\n")
    (root / ".env").write_text("KEY=1")
    (root / "a:1.txt").write_text("odd")
    (root / "link.txt").symlink_to(tmp_path / "secret.txt")
    return root


def used(toolkit: Toolkit, name: str, **given: object) -> ToolResultBlock:
    return toolkit.call(ToolUseBlock("1", name, given)).run()


def test_the_tools_are_the_librarys_file_tools_that_only_read(root: Path) -> None:
    toolkit = builtin_tools(root)
    assert toolkit.names == ("read_file", "list_directory", "glob", "grep", "current_time")
    assert used(toolkit, "read_file", path="docs/index.md").text == "     1\t# Index\n     2\tsee hooks"
    assert used(toolkit, "list_directory", path="docs").text == "docs/index.md  (18)"
    assert used(toolkit, "glob", pattern="**/*.md").text == "docs/index.md"
    assert used(toolkit, "grep", pattern="hooks").text == "docs/index.md:2: see hooks"


@pytest.mark.parametrize("path", ["../secret.txt", "docs/../../secret.txt", "link.txt", "/etc/passwd", ".env"])
def test_no_path_leads_out_or_to_what_is_denied(root: Path, path: str) -> None:
    toolkit = builtin_tools(root)
    for name in ("read_file", "list_directory", "grep"):
        given = {"pattern": "secret|KEY|root"} if name == "grep" else {}
        result = used(toolkit, name, path=path, **given)
        assert result.is_error
        assert not {SECRET, "KEY=1"} & set(result.text.splitlines())


def test_a_name_that_another_system_does_not_have_is_read(root: Path) -> None:
    assert used(builtin_tools(root), "read_file", path="a:1.txt").text == "     1\todd"


@pytest.mark.parametrize(
    ("asked", "zone"),
    [
        ("Europe/Paris", "Europe/Paris"),
        ("europe/paris", "Europe/Paris"),
        ("Tokyo", "Asia/Tokyo"),
        ("new york", "America/New_York"),
        ("GMT", "UTC"),
        ("", "UTC"),
    ],
)
def test_the_time_of_a_city_or_zone(root: Path, asked: str, zone: str) -> None:
    told = used(builtin_tools(root), "current_time", timezone=asked).text
    assert re.fullmatch(rf"\w+day, \d+ \w+ \d{{4}}, \d\d:\d\d {zone}", told)


def test_a_zone_that_there_is_not_is_named_with_similar_ones(root: Path) -> None:
    result = used(builtin_tools(root), "current_time", timezone="Pariss")
    assert result.is_error
    assert "no time zone 'Pariss'" in result.text
    assert "Europe/Paris" in result.text
