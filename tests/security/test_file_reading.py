"""Reading local files: what is open counts, no file is endless, and nothing leads out of a root."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentscope_rx.errors import InvalidInputError
from agentscope_rx.messages import Base64Source, FileSource, ImageBlock, Msg, ToolResultBlock
from agentscope_rx.messages.local_file import MAX_FILE_BYTES, read_file
from agentscope_rx.models.wire.media import read_files

# --- reading ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["/dev/zero", "/dev/urandom", "/dev/stdin", "/dev", "/"])
def test_only_regular_files_are_read(path: str) -> None:
    for read in (FileSource(path).read, lambda: Base64Source.of_file(path, "image/png")):
        with pytest.raises(InvalidInputError, match="regular"):
            read()


def test_a_pipe_does_not_hang(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for source in (FileSource(tmp_path / "pipe"), FileSource("pipe", root=tmp_path)):
        with pytest.raises(InvalidInputError, match="regular"):
            source.read()


@pytest.mark.parametrize("target", ["/dev/zero", "pipe", "folder"])
def test_what_is_put_in_the_place_of_a_file_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, target: str
) -> None:
    """The look before the opening is passed; what is open counts."""
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    (tmp_path / "a").write_bytes(b"a")
    real = os.stat(tmp_path / "a")
    other = Path(tmp_path / target)
    monkeypatch.setattr("agentscope_rx.messages.local_file.os.stat", lambda *a, **k: real)
    with pytest.raises(InvalidInputError, match="regular"):
        read_file(other)


def test_a_file_whose_size_is_told_as_zero_is_bounded() -> None:
    """Files of /proc tell no size; how much there is shows while it is read."""
    assert os.stat("/proc/self/maps").st_size == 0
    with pytest.raises(InvalidInputError, match="more than 100 bytes"):
        read_file("/proc/self/maps", 100)
    assert read_file("/proc/self/maps").startswith(b"")


def test_a_file_that_grows_while_it_is_read_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"x" * 10)
    read = os.read

    def growing(descriptor: int, size: int) -> bytes:
        with path.open("ab") as file:
            file.write(b"x" * 10)
        return read(descriptor, size)

    monkeypatch.setattr("agentscope_rx.messages.local_file.os.read", growing)
    with pytest.raises(InvalidInputError, match=r"log has more than 100 bytes"):
        read_file(path, 100)


def test_limits_name_the_file_its_size_and_the_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    huge = tmp_path / "huge.png"
    with huge.open("wb") as file:
        # sparse: nothing is written, and nothing may be read
        file.truncate(MAX_FILE_BYTES + 1)
    for read in (FileSource(huge).read, lambda: Base64Source.of_file(huge, "image/png")):
        with pytest.raises(InvalidInputError, match=r"huge\.png has 52,428,801 bytes; at most 52,428,800"):
            read()
    small = tmp_path / "small.png"
    small.write_bytes(b"x" * 10)
    assert Base64Source.of_file(small, "image/png", max_bytes=10).decode() == b"x" * 10
    with pytest.raises(InvalidInputError, match="at most 9"):
        Base64Source.of_file(small, "image/png", max_bytes=9)
    monkeypatch.setattr("agentscope_rx.models.wire.media.MAX_REQUEST_BYTES", 35)
    block = ImageBlock(FileSource(small))
    assert read_files([Msg.user([block] * 3)])
    with pytest.raises(InvalidInputError, match="35 bytes together"):
        # one after the other, in messages, results and frames
        read_files([Msg.user([block, block]), Msg.tool(ToolResultBlock("c", "t", (block, block)))])


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    for read in (FileSource(tmp_path / "no").read, lambda: Base64Source.of_file(tmp_path / "no", "image/png")):
        with pytest.raises(InvalidInputError, match="no cannot be read"):
            read()


# --- beneath a root --------------------------------------------------------------------------------------------------

BOTH_WAYS = pytest.mark.parametrize("by_parts", [True, False], ids=["folder by folder", "as other systems must"])


@BOTH_WAYS
def test_no_link_leads_out_of_the_root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, by_parts: bool) -> None:
    monkeypatch.setattr("agentscope_rx.messages.local_file._BY_PARTS", by_parts)
    root, out = tmp_path / "root", tmp_path / "out"
    (root / "deep").mkdir(parents=True)
    out.mkdir()
    (out / "secret").write_text("secret")
    (root / "deep" / "a").write_text("a")
    (root / "inner").symlink_to(root / "deep")
    (root / "outer").symlink_to(out)
    (root / "file").symlink_to(out / "secret")
    (root / "up").symlink_to("..")
    (root / "loop").symlink_to("loop")
    assert FileSource("inner/a", root=root).read() == b"a"
    assert FileSource(root / "deep" / ".." / "deep" / "a", root=root).read() == b"a"
    for path in ("outer/secret", "file", "up/out/secret", "../out/secret", str(out / "secret"), ".", "", "deep/../.."):
        with pytest.raises(InvalidInputError):
            FileSource(path, root=root)
    with pytest.raises(InvalidInputError):
        FileSource("loop", root=root).read()
    linked = tmp_path / "linked"
    linked.symlink_to(root)
    assert FileSource("deep/a", root=linked).read() == b"a"
    assert FileSource(root / "deep" / "a", root=linked).read() == b"a"
    (tmp_path / "root2").mkdir()
    with pytest.raises(InvalidInputError):
        FileSource(str(root) + "2/x", root=root)


@BOTH_WAYS
def test_a_link_that_is_put_in_later_is_not_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, by_parts: bool
) -> None:
    """After the path was resolved, and before it is opened."""
    monkeypatch.setattr("agentscope_rx.messages.local_file._BY_PARTS", by_parts)
    root, out = tmp_path / "root", tmp_path / "out"
    (root / "deep").mkdir(parents=True)
    out.mkdir()
    for folder in (root / "deep", out):
        (folder / "a").write_text(folder.name)
    source = FileSource("deep/a", root=root)
    assert source.read() == b"deep"
    resolve = os.path.realpath

    def swapping(path: Any, **options: Any) -> str:
        found = resolve(path, **options)
        if str(path).endswith("deep/a") and not (root / "gone").exists():
            (root / "deep").rename(root / "gone")
            (root / "deep").symlink_to(out)
        return found

    monkeypatch.setattr("agentscope_rx.messages.local_file.os.path.realpath", swapping)
    with pytest.raises(InvalidInputError, match="cannot be read" if by_parts else "leads out"):
        source.read()
    assert (root / "deep").is_symlink()
    with pytest.raises(InvalidInputError, match="leads out"):
        source.read()


@pytest.fixture(scope="module")
def crossed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with links in it that lead in and out."""
    base = tmp_path_factory.mktemp("crossed")
    root = base / "root"
    (root / "a" / "b").mkdir(parents=True)
    (root / "in").symlink_to("a")
    (root / "out").symlink_to(base)
    (root / "a" / "out").symlink_to("/")
    for folder in (base, root, root / "a", root / "a" / "b"):
        (folder / "f").write_text("in" if folder.is_relative_to(root) else "out")
    return root


names = st.lists(st.sampled_from(["..", ".", "a", "b", "in", "out", "", "root"]), min_size=1, max_size=6)


@settings(max_examples=200, deadline=None)
@given(parts=names, absolute=st.booleans())
def test_every_path_beneath_a_root_stays_there(crossed: Path, parts: list[str], absolute: bool) -> None:
    root = crossed
    path = "/".join([*parts, "f"])
    try:
        data = FileSource(f"{root}/{path}" if absolute else path, root=root).read()
    except InvalidInputError:
        return
    assert data == b"in"
