"""A workspace in a folder full of what must not be touched, and how to tell that it was not."""

from __future__ import annotations

import os
import socket
from pathlib import Path

SECRET = "the secret outside"


class Fence:
    """`root` is the workspace; everything else below `base` is outside, and `check` compares it with what it was."""

    def __init__(self, base: Path) -> None:
        self.base = base
        self.outside = base / "outside"
        (self.outside / "more").mkdir(parents=True)
        (base / "secret.txt").write_text(SECRET)
        (self.outside / "secret.txt").write_text(SECRET)
        (self.outside / "more" / "deeper.txt").write_text(SECRET)
        self.root = base / "root"
        (self.root / "docs").mkdir(parents=True)
        (self.root / "docs" / "index.md").write_text("# Index\nsee hooks\n")
        (self.root / "README.md").write_text("# Read me\nBananas are yellow.\n")
        self._links()
        os.mkfifo(self.root / "pipe")
        here = os.getcwd()
        os.chdir(self.root)
        try:
            with socket.socket(socket.AF_UNIX) as listener:
                listener.bind("socket")
        finally:
            os.chdir(here)
        self._before = self._snapshot()

    def _links(self) -> None:
        root = self.root
        (root / "link.txt").symlink_to(self.base / "secret.txt")
        (root / "up").symlink_to("..")
        (root / "away").symlink_to(self.outside)
        (root / "docs" / "deep").symlink_to("../../outside")
        (root / "abs").symlink_to("/")
        (root / "loop").symlink_to("loop")
        (root / "chain").symlink_to("away")
        (root / "proc").symlink_to("/proc")
        (root / "device").symlink_to("/dev/zero")
        (root / "dangling").symlink_to("../new_outside")
        (root / "nothing_outside").symlink_to(self.outside / "new.txt")
        (root / "inner").symlink_to("docs")

    def fill(self, text: str) -> str:
        """A text of the corpus with the paths of this fence in it."""
        return text.replace("{outside}", str(self.outside)).replace("{root}", str(self.root))

    def check(self) -> None:
        """Nothing outside has changed: no name, no content, no time."""
        assert self._snapshot() == self._before

    def _snapshot(self) -> dict[str, tuple[object, ...]]:
        found: dict[str, tuple[object, ...]] = {}
        for folder, folders, files in os.walk(self.base):
            if Path(folder) == self.base:
                folders.remove("root")
            for path in (folder, *(os.path.join(folder, name) for name in (*folders, *files))):
                seen = os.lstat(path)
                content = Path(path).read_bytes() if os.path.isfile(path) else b""
                found[path] = (seen.st_ino, seen.st_mode, seen.st_nlink, seen.st_mtime_ns, seen.st_ctime_ns, content)
        return found
