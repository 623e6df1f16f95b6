"""Known vulnerabilities of what is installed, by pip-audit; skipped, with a line, where no advisories can be reached.

    python -m tests.security.audit          what `make audit` does

| pip-audit                                                   | verdict       | exit code |
|-------------------------------------------------------------|---------------|-----------|
| names a vulnerability of a package                          | `FOUND`       | 1         |
| has looked packages up and names none                       | `NONE`        | 0         |
| reaches nothing, or a mirror that knows of no package at all | `UNREACHABLE` | 0         |
| fails in any other way                                      | `FAILED`      | 2         |

A mirror of the package index without its advisories answers that it does not know a package; pip-audit calls that
"skipped" and succeeds. So one package that the index has is looked up first, and nothing else if that is unknown.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from enum import Enum
from pathlib import Path
from typing import Any, NamedTuple

TIMEOUT = 300.0
"""Seconds for each of the two runs of pip-audit."""
PROBE = "packaging==24.0"
"""A package and version that the index has."""
NOT_OURS = frozenset({"pip", "setuptools"})
"""What a virtual environment begins with: no dependency brings it, and no release of ours can change it."""

_UNREACHABLE = re.compile(
    r"Could not connect|Connection(Error|Refused|Reset)|ConnectTimeout|ReadTimeout|NameResolutionError|ProxyError"
    r"|SSLError|Max retries exceeded|is not redirecting properly|network may be blocking|HTTPError: (403|407|429|5\d\d)"
)


class Kind(Enum):
    """What an audit comes to, as the exit code of it."""

    FOUND = 1
    NONE = 0
    UNREACHABLE = "unreachable"
    FAILED = 2

    @property
    def exit_code(self) -> int:
        """0 also for what could not be looked up."""
        return self.value if isinstance(self.value, int) else 0


class Ended(NamedTuple):
    """What a run of pip-audit has said; `code` None if it was stopped for taking too long."""

    code: int | None
    stdout: str
    stderr: str


class Verdict(NamedTuple):
    """What it comes to, in a line or more."""

    kind: Kind
    text: str


def verdict(ended: Ended) -> Verdict:
    """What a run of pip-audit comes to."""
    if ended.code is None:
        return _unreachable(f"there was no answer within {TIMEOUT:.0f} seconds")
    packages = _packages(ended.stdout)
    if packages is None:
        last = next((line for line in reversed(ended.stderr.splitlines()) if line.strip()), "it said nothing")
        if _UNREACHABLE.search(ended.stderr):
            return _unreachable(last.strip())
        return Verdict(Kind.FAILED, f"pip-audit failed with exit code {ended.code}: {last.strip()}")
    audited = [package for package in packages if "vulns" in package]
    if not audited:
        return _unreachable("the package index here has no advisories")
    lines = [
        f"{package['name']} {package.get('version', '?')}: {vulnerability['id']}"
        f" (fixed in {', '.join(vulnerability.get('fix_versions') or ['no version yet'])})"
        for package in audited
        if package["name"] not in NOT_OURS
        for vulnerability in package["vulns"]
    ]
    if lines:
        return Verdict(Kind.FOUND, "\n".join(["Known vulnerabilities:", *lines]))
    unknown = len(packages) - len(audited)
    beside = f"; {unknown} are not on the index" if unknown else ""
    return Verdict(Kind.NONE, f"No known vulnerabilities in {len(audited)} packages{beside}.")


def _unreachable(why: str) -> Verdict:
    return Verdict(Kind.UNREACHABLE, f"Audit skipped: advisory data cannot be reached ({why}).")


def _packages(stdout: str) -> list[dict[str, Any]] | None:
    try:
        found = json.loads(stdout)["dependencies"]
    except (ValueError, KeyError, TypeError):
        return None
    return found if isinstance(found, list) else None


def audit(run: Callable[[Sequence[str]], Ended]) -> Verdict:
    """The verdict on what is installed; `run` is given the arguments of pip-audit."""
    with tempfile.TemporaryDirectory() as folder:
        probe = Path(folder, "probe.txt")
        probe.write_text(f"{PROBE}\n")
        first = verdict(run(["--requirement", str(probe), "--no-deps", "--disable-pip"]))
    if first.kind in (Kind.UNREACHABLE, Kind.FAILED):
        return first
    return verdict(run(["--local", "--skip-editable"]))


def pip_audit(arguments: Sequence[str]) -> Ended:
    """One run of pip-audit."""
    command = [sys.executable, "-m", "pip_audit", "--format", "json", "--progress-spinner", "off", *arguments]
    try:
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=TIMEOUT)
    except subprocess.TimeoutExpired:
        return Ended(None, "", "")
    return Ended(done.returncode, done.stdout, done.stderr)


def main() -> int:
    found = audit(pip_audit)
    sys.stdout.write(f"{found.text}\n")
    return found.kind.exit_code


if __name__ == "__main__":
    sys.exit(main())
