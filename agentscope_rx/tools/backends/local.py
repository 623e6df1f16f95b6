"""`LocalBackend`: commands run on this system, as this user. It is no sandbox: it bounds, and isolates nothing."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence

from agentscope_rx.errors import ConfigurationError
from agentscope_rx.tools.backends.backend import Backend, Guarantee
from agentscope_rx.tools.files.workspace import Workspace
from agentscope_rx.tools.options import check_flag
from agentscope_rx.tools.process.environment import with_home
from agentscope_rx.tools.process.limits import Limits
from agentscope_rx.tools.process.run import ProcessResult, Sandbox, run
from agentscope_rx.tools.process.supervised import can_supervise, interpreter
from agentscope_rx.tools.process.supervised import namespace as namespace_on
from agentscope_rx.tools.process.watchdog import can_watch

POSIX = os.name == "posix"


class LocalBackend(Backend):
    """Commands as processes of this user.

    With `namespace`, each command runs in a PID namespace of its own, which no process leaves: always (True, which
    needs `bwrap`), never (False), or where the system can (None). Without one, a supervisor follows the processes.

    Guarantees: TIME, OUTPUT, FOLDER (POSIX) and ENVIRONMENT. Of the limits that are set, FILE_SIZE (POSIX) and MEMORY
    (Linux), unless this is root, who may lift them. With a namespace DESCENDANTS, TOTAL_MEMORY, PROCESSES, and, if
    this is not root, HOST_PROCESSES; without one, the limits hold for commands that do not work against them.
    """

    def __init__(
        self,
        workspace: Workspace | str | os.PathLike[str],
        *,
        namespace: bool | None = None,
        limits: Limits = Limits(),  # noqa: B008 - a frozen value
    ) -> None:
        super().__init__(workspace, limits)
        if namespace is not None:
            check_flag("namespace", namespace)
        found = None if namespace is False else namespace_on(self.search_path())
        if found is None and namespace:
            raise ConfigurationError(
                "namespace=True needs `bwrap` (bubblewrap) on PATH, outside of the workspace, and a system that lets "
                "it make PID namespaces. Install it, or leave namespace out: on Linux a supervisor then follows the "
                "commands."
            )
        self._sandbox = Sandbox(found or ())

    @property
    def guarantees(self) -> frozenset[Guarantee]:
        """The guarantees of this place, with these limits."""
        found = {Guarantee.TIME, Guarantee.OUTPUT, Guarantee.ENVIRONMENT}
        if POSIX:
            found.add(Guarantee.FOLDER)
            if interpreter() is not None and os.geteuid() != 0:
                found |= {Guarantee.FILE_SIZE, Guarantee.MEMORY} if can_supervise() else {Guarantee.FILE_SIZE}
        if self._sandbox.words:
            found.add(Guarantee.DESCENDANTS)
            if can_watch():
                found |= {Guarantee.TOTAL_MEMORY, Guarantee.PROCESSES}
            if os.geteuid() != 0:
                # root may uncover what the namespace covers
                found.add(Guarantee.HOST_PROCESSES)
        return frozenset(found) - unset(self.limits)

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
        """Run one command. HOME is a new, empty folder outside the workspace, unless `env` has one."""
        with self.workspace.folder(cwd) as folder, folder.as_path() as where:
            async with with_home(env, self.workspace.root) as homed:
                return await run(
                    words,
                    cwd=where,
                    env=homed,
                    limits=limits or self.limits,
                    show=show,
                    given=given,
                    sandbox=self._sandbox,
                )


def unset(limits: Limits) -> frozenset[Guarantee]:
    """The guarantees of limits that are not set."""
    found: set[Guarantee] = set()
    if limits.memory is None:
        found |= {Guarantee.MEMORY, Guarantee.TOTAL_MEMORY}
    if limits.processes is None:
        found.add(Guarantee.PROCESSES)
    if limits.file_size is None:
        found.add(Guarantee.FILE_SIZE)
    return frozenset(found)
