"""`BubblewrapBackend`: each command runs in a sandbox of its own, made by `bwrap` (bubblewrap). Linux.

    bwrap                             namespaces of processes, files, network, users, names; no capabilities
      supervisor (process 1 there)    sets the limits of each process, reports how the command ends
        command                       sees the workspace, programs of the system, nothing else (see `mounts`)
    watchdog (here)                   measures all processes from outside

Nothing of it remains but what was written to the workspace.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack, suppress
from functools import cache, partial

from agentscope_rx.errors import ConfigurationError
from agentscope_rx.reactive import ENGINE_WORKERS, on_worker
from agentscope_rx.tools.backends.backend import Backend, Guarantee, program_folders
from agentscope_rx.tools.backends.local import unset
from agentscope_rx.tools.backends.masks import DeniedPath, denied_paths
from agentscope_rx.tools.backends.mounts import (
    HOME,
    SEALED,
    folder_above,
    python_folders,
    system_words,
    visible_folder,
    within,
)
from agentscope_rx.tools.files.dirfd import Folder
from agentscope_rx.tools.files.globs import DenyList
from agentscope_rx.tools.files.workspace import OWN_FOLDER, Workspace
from agentscope_rx.tools.options import check_flag
from agentscope_rx.tools.process.limits import MIB, Limits, check_whole
from agentscope_rx.tools.process.run import ProcessResult, Sandbox, run
from agentscope_rx.tools.process.supervised import PROBE_SECONDS, SUPERVISOR, can_supervise, interpreter
from agentscope_rx.tools.process.watchdog import can_watch

SANDBOX_LIMITS = Limits(memory=2048 * MIB, processes=256, file_size=1024 * MIB)
"""The limits of a sandbox that is given none."""
SCRATCH = 256 * MIB

_ISOLATE = (
    *("--unshare-user", "--unshare-ipc", "--unshare-pid", "--unshare-uts", "--unshare-cgroup-try"),
    *("--uid", "1000", "--gid", "1000", "--hostname", "sandbox", "--cap-drop", "ALL"),
    *("--new-session", "--die-with-parent", "--as-pid-1"),
)
_LOADING = ("GCONV_PATH", "GLIBC_TUNABLES", "LOCPATH", "MALLOC_TRACE")
"""Variables, beside `LD_*`, by which a program loads or writes files before it begins."""
_SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib64", "/etc", "/proc", "/sys", "/dev", "/run", "/var", "/home", "/root")
_KERNEL = ("/proc", "/sys", "/dev")
_WAYS = (
    "It needs user namespaces, which the system may forbid: `sysctl user.max_user_namespaces` must not be 0, "
    "`kernel.unprivileged_userns_clone` (Debian) not 0, `kernel.apparmor_restrict_unprivileged_userns` (Ubuntu) not 1, "
    "and a container needs a seccomp profile that allows them, with /proc not masked."
)


class BubblewrapBackend(Backend):
    """Commands in a sandbox: no network, nothing writable but the workspace, no files of the user but the workspace.

    `network=True` gives them the network of this system, its loopback included. `read` lists further paths that they
    may read (sockets there can be used). `readable` are names of denied paths that they may read all the same, but not
    write: programs need `.git`. All other paths that the workspace denies are covered, if they exist when the command
    starts. `scratch` bounds each of the three folders in memory (/tmp, HOME, /dev/shm), in bytes.

    `ConfigurationError` if `bwrap` is missing or may not make sandboxes here: there is no fallback.
    """

    def __init__(
        self,
        workspace: Workspace | str | os.PathLike[str],
        *,
        network: bool = False,
        read: Iterable[str | os.PathLike[str]] = (),
        readable: Iterable[str] = (".git",),
        scratch: int = SCRATCH,
        limits: Limits = SANDBOX_LIMITS,
    ) -> None:
        super().__init__(workspace, limits)
        check_whole("scratch", scratch, MIB, optional=False)
        check_flag("network", network)
        root = str(self.workspace.root)
        if any(within(each, (root,)) for each in _SYSTEM) or within(root, _KERNEL):
            raise ConfigurationError(f"The workspace {root!r} has files of the system in it, which a sandbox needs.")
        if isinstance(readable, str):
            raise ConfigurationError(f"readable takes a list of patterns, as in readable=[{readable!r}].")
        self.network = network
        self.read: tuple[str, ...] = _readable_paths(read)
        self._readable = DenyList(readable)
        self._program, self._by_descriptor = _checked(self._bwrap())
        above = folder_above(root)
        cover = () if above is None else ("--size", str(MIB), "--perms", "0755", "--tmpfs", above)
        self._words = (*_isolation(self._program, network), *system_words(network=network, scratch=scratch), *cover)
        self._sealed = SEALED if above is None else ("--remount-ro", above, *SEALED)
        pythons = python_folders()
        # (a link in the workspace stays one)
        self._inside = tuple(each for each in pythons if within(each, (root,)) and os.path.realpath(each) == each)
        self._outside = (*(each for each in pythons if not within(each, (root,))), *self.read)

    @property
    def guarantees(self) -> frozenset[Guarantee]:
        """The guarantees of this place, with these limits."""
        found = frozenset(Guarantee) - unset(self.limits)
        if self.network:
            found -= {Guarantee.NETWORK}
        return found if can_watch() else found - {Guarantee.TOTAL_MEMORY, Guarantee.PROCESSES}

    @property
    def notice(self) -> str:
        """Facts about the sandbox for a model: its network, and the files that it can write."""
        network = "The network is there" if self.network else "There is no network"
        return (
            f"It runs in a sandbox. {network}. Files of the working directory can be written; those of the system are "
            "read-only, and others are not there. /tmp and HOME are empty for each command, and not kept."
        )

    def search_path(self, path: Sequence[str | os.PathLike[str]] | None = None) -> str:
        """The PATH of commands: these folders, or by default those of PATH that are in the sandbox."""
        if path is not None:
            return super().search_path(path)
        found = [visible_folder(each, self._outside) for each in program_folders(self.workspace)]
        own = [os.path.join(each, "bin") for each in python_folders()]
        return os.pathsep.join(dict.fromkeys([*filter(None, found), "/usr/bin", "/bin", *own]))

    async def run(
        self,
        words: Sequence[str],
        *,
        env: Mapping[str, str],
        cwd: str = ".",
        limits: Limits | None = None,
        show: Callable[[str], object] | None = None,
        given: bytes | None = None,
    ) -> ProcessResult:
        """Run one command in a new sandbox. HOME is in memory, unless `env` has one."""
        with ExitStack() as held, self.workspace.folder(cwd) as folder, folder.as_path() as where:
            root = held.enter_context(self.workspace.folder())
            denied = await on_worker(partial(self._denied, root), ENGINE_WORKERS)
            mounts, descriptors = self._mounts(root, denied, held)
            sandboxed = (*self._words, *mounts, *self._sealed, "--chdir", folder.path, "--")
            loading = {name: value for name, value in env.items() if name.startswith("LD_") or name in _LOADING}
            if loading:
                # set at the last moment: bwrap, outside of the sandbox, must not load a library of the workspace
                words = ("/usr/bin/env", *(f"{name}={value}" for name, value in loading.items()), *words)
            others = {name: value for name, value in env.items() if name not in loading}
            return await run(
                words,
                cwd=where,
                env={"HOME": HOME, "USER": "user", "LOGNAME": "user", **others},
                limits=limits or self.limits,
                show=show,
                given=given,
                sandbox=Sandbox(sandboxed, descriptors, user=True),
            )

    def _bwrap(self) -> str:
        if not can_supervise():
            raise ConfigurationError("BubblewrapBackend works on Linux only, and not in a frozen program.")
        program = shutil.which("bwrap", path=os.pathsep.join(program_folders(self.workspace)))
        if program is None:
            raise ConfigurationError(
                "BubblewrapBackend needs `bwrap` on PATH, outside of the workspace. Install the package `bubblewrap` "
                "of the system's distribution (Debian and Ubuntu: apt-get install bubblewrap)."
            )
        return program

    def _denied(self, root: Folder) -> list[DeniedPath]:
        deny = self.workspace.deny
        if deny.denies((OWN_FOLDER,)):
            # it exists, or the workspace cannot be written
            with suppress(OSError):
                root.mkdir(OWN_FOLDER)
        return denied_paths(root.path, deny)

    def _mounts(
        self, root: Folder, denied: Sequence[DeniedPath], held: ExitStack
    ) -> tuple[tuple[str, ...], tuple[int, ...]]:
        """The options for the Python, added paths and the workspace, and the descriptors that they name."""
        words: list[str] = []
        passed: list[int] = []

        def bind(kind: str, descriptor: int | None, path: str) -> None:
            if descriptor is not None and self._by_descriptor:
                words.extend((f"{kind}-fd", str(descriptor), path))
                passed.append(descriptor)
            else:
                words.extend((kind, path, path))

        for each in self._outside:
            words += ("--ro-bind", each, each)
        bind("--bind", root.descriptor, root.path)
        for each in (*self._inside, str(SUPERVISOR)):
            # what runs outside of the sandbox as well: the program that has made this backend
            words += ("--ro-bind", each, each)
        for each in denied:
            path = os.path.join(root.path, *each.parts)
            opened = self._opened(root, each, held) if self._readable.denies(each.parts) else None
            if opened is not None:
                bind("--ro-bind", opened, path)
            elif each.folder:
                # the library's own folder looks empty: git would warn of one that it cannot open at every command
                mode = "0555" if each.parts == (OWN_FOLDER,) else "0000"
                words += ("--perms", mode, "--tmpfs", path, "--remount-ro", path)
            else:
                words += ("--ro-bind", os.devnull, path)
        return tuple(words), tuple(passed)

    def _opened(self, root: Folder, path: DeniedPath, held: ExitStack) -> int | None:
        """A descriptor of a denied path, opened part by part without following links; None if that is not possible."""
        folder = root
        try:
            for part in path.parts[:-1]:
                folder = held.enter_context(folder.open_folder(part))
            if path.folder:
                return held.enter_context(folder.open_folder(path.parts[-1])).descriptor
            descriptor = folder.open_file(path.parts[-1], os.O_PATH)
        except OSError:
            # replaced meanwhile: it is covered
            return None
        held.callback(os.close, descriptor)
        return descriptor


def _isolation(program: str, network: bool) -> tuple[str, ...]:
    """The program and the options that isolate."""
    nested = ("--disable-userns",) if "--disable-userns" in _help(program) else ()
    return (program, *_ISOLATE, *(() if network else ("--unshare-net",)), *nested)


@cache
def _help(program: str) -> str:
    """The options that this version of `bwrap` knows."""
    return _tried((program, "--help")).stdout


@cache
def _checked(program: str) -> tuple[str, bool]:
    """The program, tried once, and if it takes descriptors; `ConfigurationError` if it makes no sandbox."""
    binds = [word for each in python_folders() for word in ("--ro-bind", each, each)]
    words = (
        *_isolation(program, False),
        *system_words(network=False, scratch=MIB),
        *binds,
        *SEALED,
        *("--chdir", "/", "--", str(interpreter()), "-I", "-S", "-c", "import os; print(os.getpid())"),
    )
    try:
        done = _tried(words)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ConfigurationError(f"{program!r} cannot be used: {error}.") from None
    if done.returncode or done.stdout.strip() != "1":
        said = (done.stderr or done.stdout).strip() or f"exit code {done.returncode}"
        raise ConfigurationError(f"{program!r} cannot make a sandbox here: {said:.300}. {_WAYS}")
    return program, "--ro-bind-fd" in _help(program)


def _tried(words: Sequence[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(  # noqa: S603 - bwrap, found outside of the workspace
        words,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        env={},
        timeout=PROBE_SECONDS,
        check=False,
    )


def _readable_paths(read: Iterable[str | os.PathLike[str]]) -> tuple[str, ...]:
    if isinstance(read, str):
        raise ConfigurationError(f"read takes a list of paths, as in read=[{read!r}].")
    found = tuple(os.fspath(each) for each in read)
    for each in found:
        real = os.path.realpath(each)
        if not os.path.isabs(each) or not os.path.exists(each):
            raise ConfigurationError(f"read takes absolute paths that exist, not {each!r:.200}.")
        if real == "/" or within(real, _KERNEL):
            raise ConfigurationError(f"read cannot add {each!r:.200}: it would show more than files, or all of them.")
    return found
