"""The files that a sandbox shows, as options of `bwrap`: programs and libraries of the system, and little else.

| path                                   | in the sandbox                                                             |
|----------------------------------------|----------------------------------------------------------------------------|
| `/usr`, `/bin`, `/lib*`, `/nix/store`  | read-only                                                                  |
| `/etc`                                 | what programs need of it (below); users and hosts are made up              |
| the Python that runs this program      | read-only, with its virtual environment                                    |
| `/tmp`, HOME, `/dev/shm`               | empty, writable, in memory, of bounded size, for one command               |
| `/proc`                                | of the sandbox's own processes, read-only                                  |
| `/dev`                                 | null, zero, full, random, urandom, tty, terminals of its own               |
| `/home`, `/root`, `/run`, `/var`, ...  | not there                                                                  |

`/proc` is read-only as a whole: a process of root may write to `/proc/sys` without any capability, for example the name
of the program that the kernel runs as root for a core dump. bwrap covers `/proc/sys` only where it seems writable to
itself.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

HOME = "/home/sandbox"
"""HOME in a sandbox."""

_IN_MEMORY = ("/dev/shm", "/tmp", HOME)  # noqa: S108 - the sandbox's own
_ROOTS = ("bin", "sbin", "lib", "lib32", "lib64", "libx32")
STORES = ("/nix/store", "/gnu/store")
"""Folders of programs of systems that have few in `/usr`."""
_ETC = (
    "alternatives",
    "ca-certificates",
    "ca-certificates.conf",
    "crypto-policies",
    "debian_version",
    "fonts",
    "host.conf",
    "inputrc",
    "ld.so.cache",
    "ld.so.conf",
    "ld.so.conf.d",
    "locale.alias",
    "localtime",
    "magic",
    "mime.types",
    "nsswitch.conf",
    "os-release",
    "pki/ca-trust/extracted",
    "pki/tls/certs",
    "protocols",
    "services",
    "shells",
    "ssl/certs",
    "ssl/openssl.cnf",
    "terminfo",
    "timezone",
)
_ETC_GLOBS = ("python*", "java-*", "perl", "maven", "gitattributes")
_MADE_UP = ("passwd", "group", "hosts")
_FOLDER = Path(__file__).with_name("etc")


def system_words(*, network: bool, scratch: int) -> Iterator[str]:
    """The options for everything but the Python, the workspace and added paths."""
    yield from ("--ro-bind", "/usr", "/usr")
    for name in _ROOTS:
        path = Path("/", name)
        if path.is_symlink():
            yield from ("--symlink", os.readlink(path), str(path))
        elif path.is_dir():
            yield from ("--ro-bind", str(path), str(path))
    for store in STORES:
        yield from ("--ro-bind-try", store, store)
    yield from ("--perms", "0755", "--dir", "/etc")
    named = [Path("/etc", name) for name in _ETC]
    for path in (*named, *(found for glob in _ETC_GLOBS for found in sorted(Path("/etc").glob(glob)))):
        if path.exists():
            yield from ("--ro-bind", str(path), str(path))
    for name in _MADE_UP:
        # the hosts of the system's file may be reached with its network only
        source = Path("/etc/hosts") if name == "hosts" and network else _FOLDER / name
        yield from ("--ro-bind", str(source), f"/etc/{name}")
    if network and os.path.exists("/etc/resolv.conf"):
        yield from ("--ro-bind", os.path.realpath("/etc/resolv.conf"), "/etc/resolv.conf")
    yield from ("--proc", "/proc", "--dev", "/dev")
    size = str(scratch)
    for path in _IN_MEMORY:
        yield from ("--size", size, "--perms", "0700" if path == HOME else "1777", "--tmpfs", path)


def folder_above(root: str) -> str | None:
    """The topmost folder in a folder in memory that leads to the workspace; None if there is none.

    It is made read-only: what a command writes there would be lost without a word.
    """
    for memory in _IN_MEMORY:
        if within(root, (memory,)):
            above = os.path.join(memory, Path(root).relative_to(memory).parts[0])
            return None if above == root else above
    return None


SEALED = ("--remount-ro", "/", "--remount-ro", "/dev", "--remount-ro", "/proc")
"""Nothing is written beside the workspace and the folders in memory: `/` and `/dev` are in memory, without a bound."""


def python_folders() -> tuple[str, ...]:
    """The folders of the Python that runs this program, and of its virtual environment, that are not in `/usr`.

    Of a folder that is a link, both paths.
    """
    found = (sys.base_prefix, sys.base_exec_prefix, sys.prefix, sys.exec_prefix)
    paths = [path for each in found for path in (os.path.realpath(each), os.path.abspath(each))]
    return tuple(each for each in dict.fromkeys(paths) if not within(each, ("/usr",)))


def visible_folder(folder: str, added: Iterable[str]) -> str | None:
    """The path of a folder of programs in the sandbox, in which the paths `added` are seen as well; None if not."""
    real = os.path.realpath(folder)
    if within(real, STORES):
        return real
    return folder if within(real, ("/usr", "/bin", "/sbin", *map(os.path.realpath, added))) else None


def within(path: str, folders: Iterable[str]) -> bool:
    """True if the path is one of the folders, or below one of them."""
    return any(Path(path).is_relative_to(folder) for folder in folders)
