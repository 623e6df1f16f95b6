"""What a run of pip-audit comes to: found, none, not to be reached, failed. No test asks a network."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pytest

from tests.security.audit import PROBE, Ended, Kind, audit, verdict

SKIPPED = {
    "name": "packaging",
    "skip_reason": "Dependency not found on PyPI and could not be audited: packaging (24.0)",
}
FINE = {"name": "packaging", "version": "24.0", "vulns": []}
BAD = {
    "name": "flask",
    "version": "0.5",
    "vulns": [
        {"id": "PYSEC-2019-179", "fix_versions": ["1.0"], "aliases": ["CVE-2019-1010083"], "description": "Slow."},
        {"id": "PYSEC-2018-66", "fix_versions": [], "aliases": [], "description": "Slow."},
    ],
}
NO_NAME = """Traceback (most recent call last):
urllib3.exceptions.NameResolutionError: HTTPSConnection(host='index.example', port=443): Failed to resolve
requests.exceptions.ConnectionError: HTTPSConnectionPool(host='index.example', port=443): Max retries exceeded
"""
BLOCKED = """ERROR:pip_audit._cli:Could not connect to PyPI's vulnerability feed
ERROR:pip_audit._cli:Tip: your network may be blocking this service. Try another service with `-s SERVICE`
"""
REFUSED = """Traceback (most recent call last):
requests.exceptions.HTTPError: 503 Server Error: Service Unavailable for url: https://index.example/pypi/packaging/json

The above exception was the direct cause of the following exception:

pip_audit._service.interface.ServiceError
"""


def told(*packages: object, code: int = 0) -> Ended:
    return Ended(code, json.dumps({"dependencies": packages, "fixes": []}), "No known vulnerabilities found\n")


@pytest.mark.parametrize(
    ("ended", "kind", "text"),
    [
        (told(FINE, BAD, code=1), Kind.FOUND, "flask 0.5: PYSEC-2019-179 (fixed in 1.0)"),
        (told(SKIPPED, BAD, code=1), Kind.FOUND, "PYSEC-2018-66 (fixed in no version yet)"),
        (told(FINE, SKIPPED), Kind.NONE, "No known vulnerabilities in 1 packages; 1 are not on the index."),
        (told({**BAD, "name": "pip"}, code=1), Kind.NONE, "No known vulnerabilities"),
        (told(SKIPPED, SKIPPED), Kind.UNREACHABLE, "no advisories"),
        (told(), Kind.UNREACHABLE, "no advisories"),
        (Ended(1, "", NO_NAME), Kind.UNREACHABLE, "Max retries"),
        (Ended(1, "", BLOCKED), Kind.UNREACHABLE, "may be blocking"),
        (Ended(1, "", REFUSED), Kind.UNREACHABLE, "cannot be reached"),
        (Ended(None, "", ""), Kind.UNREACHABLE, "within 300 seconds"),
        (Ended(1, "", "/usr/bin/python: No module named pip_audit\n"), Kind.FAILED, "No module named pip_audit"),
        (Ended(2, "", "usage: pip-audit\npip-audit: error: unrecognized arguments: --x\n"), Kind.FAILED, "exit code 2"),
        (Ended(1, "{", "Traceback\nKeyError: 'x'\n"), Kind.FAILED, "KeyError"),
        (Ended(0, "[]", ""), Kind.FAILED, "it said nothing"),
    ],
)
def test_what_a_run_comes_to(ended: Ended, kind: Kind, text: str):
    found = verdict(ended)
    assert (found.kind, text in found.text) == (kind, True), found
    assert found.kind.exit_code == {Kind.FOUND: 1, Kind.FAILED: 2}.get(kind, 0)


@pytest.mark.parametrize(("first", "asked"), [(told(SKIPPED), 1), (told(FINE), 2), (Ended(2, "", "x"), 1)])
def test_all_is_looked_up_only_where_one_package_is_known(first: Ended, asked: int):
    calls: list[Sequence[str]] = []

    def run(arguments: Sequence[str]) -> Ended:
        calls.append(arguments)
        if len(calls) == 1:
            with open(arguments[1]) as probe:
                assert probe.read() == f"{PROBE}\n"
            return first
        return told(BAD, code=1)

    assert audit(run).kind is (Kind.FOUND if asked == 2 else verdict(first).kind)
    assert len(calls) == asked
