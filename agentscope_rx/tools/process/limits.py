"""`Limits`: how much one command may use. Which of them hold depends on the system (see `Backend.guarantees`).

| limit       | of                       | held by                                            | beyond it            |
|-------------|--------------------------|----------------------------------------------------|----------------------|
| `time`      | the command, in seconds  | this process                                       | all are ended        |
| `output`    | the bytes that are kept  | this process                                       | the middle is cut    |
| `memory`    | each process, in bytes   | RLIMIT_DATA: its private memory                    | an allocation fails  |
|             | all processes together   | the watchdog, every `INTERVAL` seconds             | all are killed       |
| `processes` | processes and threads    | the watchdog; in a sandbox RLIMIT_NPROC, not root  | all are killed       |
| `file_size` | each file, in bytes      | RLIMIT_FSIZE                                       | a write fails        |
| `cpu`       | each process, in seconds | RLIMIT_CPU                                         | it is killed         |

Core dumps are switched off. RLIMIT_AS would be more common than RLIMIT_DATA, but counts address space that is reserved
and never used: Go, Java and JavaScript programs reserve many gigabytes of it.
"""

from __future__ import annotations

import math

from agentscope_rx.errors import ConfigurationError
from agentscope_rx.frozen_values import dataclass

MIB = 1024 * 1024
TIMEOUT = 60.0
MAX_OUTPUT = 30_000

_LEAST = {"output": 100, "memory": 16 * MIB, "processes": 1, "file_size": 1}


@dataclass(frozen=True, slots=True)
class Limits:
    """What one command may use, at most; None is no limit.

    | limit | of | beyond it |
    |---|---|---|
    | `time` | the command, in seconds | all its processes are ended |
    | `output` | the bytes that are kept | the middle is cut |
    | `memory` | each process and all together, in bytes | an allocation fails; all are killed |
    | `processes` | processes and threads together | all are killed |
    | `file_size` | each file, in bytes | a write fails |
    | `cpu` | each process, in seconds | it is killed |

    `Guarantee` says which of them a backend enforces.
    """

    time: float = TIMEOUT
    output: int = MAX_OUTPUT
    memory: int | None = None
    processes: int | None = None
    file_size: int | None = None
    cpu: float | None = None

    def __post_init__(self) -> None:
        check_seconds("time", self.time)
        if self.cpu is not None:
            check_seconds("cpu", self.cpu)
        for name, least in _LEAST.items():
            check_whole(name, getattr(self, name), least, optional=name != "output")

    def rlimits(self, *, sandbox: bool = False) -> str:
        """The limits that the kernel holds, as the supervisor takes them.

        In a `sandbox` with a user namespace, its processes are counted for themselves, and the keyring is a new one.
        """
        found = {
            "DATA": self.memory,
            "FSIZE": self.file_size,
            "CPU": None if self.cpu is None else math.ceil(self.cpu),
            # the supervisor and the process in between count as well
            "NPROC": self.processes + 2 if sandbox and self.processes is not None else None,
            "KEYRING": 0 if sandbox else None,
        }
        return ",".join(["CORE=0", *(f"{name}={most}" for name, most in found.items() if most is not None)])


def check_seconds(name: str, value: object) -> None:
    """`ConfigurationError` unless it is a positive, finite number."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < float("inf"):
        raise ConfigurationError(f"{name} must be more than 0 seconds, not {value!r}.")


def check_whole(name: str, value: object, least: int, *, optional: bool = True) -> None:
    """`ConfigurationError` unless it is a whole number of at least `least`; or None, if that is possible."""
    if value is None and optional:
        return
    if type(value) is not int or value < least:
        unit = "a number of processes" if name == "processes" else "in bytes"
        raise ConfigurationError(f"{name} is {unit}, a whole number of at least {least:,}, not {value!r}.")
