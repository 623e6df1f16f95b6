"""`Secrets`: removes the keys, tokens and passwords of a request from errors.

Servers echo keys ("Incorrect API key provided: ..."), and errors are logged, displayed and saved. So the texts of an
error are searched for the secrets of its request.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import cast
from urllib.parse import parse_qsl, quote, unquote, urlsplit

HIDDEN = "***"

_SHORTEST = 6
"""Shorter values are not secrets, and occur within other words."""

_SECRET_NAME = re.compile(r"auth|key|token|secret|cookie|passw|credential|signature|^sig$", re.IGNORECASE)
_TEXTS = ("body", "code", "request_id", "target", "reason")
_CAUSES = 8


class Secrets:
    """The secret values of a request, in each encoding that an answer may echo."""

    __slots__ = ("_found",)

    def __init__(self, url: str, headers: Mapping[str, str], *more: str | None) -> None:
        values: list[str] = []
        for name, value in headers.items():
            if _SECRET_NAME.search(name):
                # the value with and without its scheme: "Bearer ..."
                values += (value, value.partition(" ")[2])
        for address in (url, *more):
            if address:
                values += _in_url(address)
        encoded = {
            form
            for value in values
            if len(value) >= _SHORTEST
            for form in (value, quote(value, safe=""), value.replace("/", r"\/"))
        }
        self._found = sorted(encoded, key=len, reverse=True)

    def hide(self, text: str) -> str:
        """The text with `***` in place of each secret."""
        for value in self._found:
            text = text.replace(value, HIDDEN)
        return text

    def hide_in(self, error: BaseException) -> None:
        """Hides the secrets in the texts and notes of an error and of its causes."""
        each: BaseException | None = error
        for _ in range(_CAUSES if self._found else 0):
            if each is None:
                return
            args = cast("tuple[object, ...]", each.args)
            each.args = tuple(self.hide(arg) if isinstance(arg, str) else arg for arg in args)
            for name in _TEXTS:
                text: object = getattr(each, name, None)
                if isinstance(text, str) and name in getattr(each, "__dict__", {}):
                    setattr(each, name, self.hide(text))
            notes: list[str] = getattr(each, "__notes__", [])
            if notes:
                notes[:] = [type(note)(self.hide(note)) for note in notes]
            each = each.__cause__ or each.__context__


def _in_url(address: str) -> list[str]:
    try:
        parts = urlsplit(address)
        query = parse_qsl(parts.query)
    except ValueError:
        return []
    password = parts.password or ""
    return [password, unquote(password), *(value for name, value in query if _SECRET_NAME.search(name))]
