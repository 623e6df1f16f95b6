"""A corpus of malformed requests, for any protocol that takes JSON by POST.

A request is malformed by its head, by its bytes, or by its JSON. For the last each field of a valid body gets values of
types that it does not have.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

JSON = {"content-type": "application/json"}
DEEP = 100_000


class BadRequest(NamedTuple):
    """One request, and what is wrong with it."""

    what: str
    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes


def bad_heads(path: str, valid: Mapping[str, Any]) -> Iterator[BadRequest]:
    """Requests with a valid body and a head that no endpoint takes."""
    body = json.dumps(valid).encode()
    for method in ("GET", "PUT", "PATCH", "DELETE", "TRACE", "BREW"):
        yield BadRequest(f"method {method}", method, path, JSON, body)
    for kind in (
        "text/plain",
        "application/x-www-form-urlencoded",
        "multipart/form-data",
        "application/xml",
        "nonsense",
    ):
        yield BadRequest(f"type {kind}", "POST", path, {"content-type": kind}, body)
    yield BadRequest("no type", "POST", path, {}, body)
    yield BadRequest("a host of others", "POST", path, {**JSON, "host": "evil.example"}, body)
    yield BadRequest("a page of others", "POST", path, {**JSON, "origin": "https://evil.example"}, body)
    yield BadRequest("a page without origin", "POST", path, {**JSON, "sec-fetch-site": "cross-site"}, body)
    yield BadRequest("through a proxy", "POST", path, {**JSON, "x-forwarded-for": "10.0.0.1"}, body)
    yield BadRequest("another path", "POST", f"{path}/../../etc/passwd/%00", JSON, body)


def bad_bytes(path: str, valid: Mapping[str, Any]) -> Iterator[BadRequest]:
    """Requests whose bodies are no JSON, or too much of it."""
    body = json.dumps(valid).encode()
    bodies: dict[str, bytes] = {
        **{f"cut at {at}": body[: len(body) * at // 8] for at in range(1, 8)},
        "more after it": body + b"}",
        "two of them": body + body,
        "a lone quote": b'"',
        "a word": b"hello",
        "NaN": b'{"a": NaN}',
        "Infinity": b'{"a": -Infinity}',
        "a comment": b"{} // end",
        "single quotes": b"{'a': 1}",
        "a trailing comma": b'{"a": 1,}',
        "bytes that are no UTF-8": b'{"a": "\xff\xfe"}',
        "an overlong NUL": b'{"a": "\xc0\x80"}',
        "UTF-16": json.dumps(valid).encode("utf-16"),
        "a lone surrogate": b'{"a": "\\ud800"}',
        "a raw control character": b'{"a": "\x01"}',
        "only zeros": bytes(1000),
        "gzip": b"\x1f\x8b\x08\x00" + bytes(20),
        "an array": b"[]",
        "an array of it": b"[" + body + b"]",
        "null": b"null",
        "a number": b"1e999",
        "a text": b'"hi"',
        "true": b"true",
        "deep arrays": b"[" * DEEP + b"]" * DEEP,
        "deep objects": b'{"a":' * DEEP + b"1" + b"}" * DEEP,
        "deep and cut": b"[" * DEEP,
        "huge": b'{"a": "' + b"x" * (11 * 1024 * 1024) + b'"}',
        "many values": b"[" + b"1," * 200_000 + b"1]",
        "nothing": b"",
        "spaces": b"   \n ",
    }
    for what, raw in bodies.items():
        yield BadRequest(what, "POST", path, JSON, raw)


def bad_fields(path: str, valid: Mapping[str, Any], wrong: Mapping[str, Sequence[object]]) -> Iterator[BadRequest]:
    """Requests with a wrong value of one field, or one that is not known."""
    for name, values in wrong.items():
        for value in values:
            body = json.dumps({**valid, name: value}).encode()
            yield BadRequest(f"{name}: {value!r:.60}", "POST", path, JSON, body)


def corpus(path: str, valid: Mapping[str, Any], wrong: Mapping[str, Sequence[object]]) -> list[BadRequest]:
    """All of them for one endpoint; `wrong` are values that its fields cannot have."""
    return [*bad_heads(path, valid), *bad_bytes(path, valid), *bad_fields(path, valid, wrong)]
