"""`redact_secrets`: a text with `***` in place of its keys, tokens and passwords.

| found by                 | such as                                                                                  |
|--------------------------|------------------------------------------------------------------------------------------|
| the form of the secret   | `sk-...`, `ghp_...`, `AKIA...`, `xoxb-...`, JSON web tokens, private keys, `Bearer ...`  |
| the name before it       | `api_key=...`, `"password": "..."`, `Authorization: ...`, `Cookie: ...`                  |
| its place in a URL       | `https://user:password@host/`, `?sig=...`, `&X-Amz-Signature=...`                        |

A secret without a form of its own, in a sentence, is not found: content that may hold one is not exported at all.
Each pattern takes time in proportion to the text, and is tried only on a text with one of the words that it needs.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Final, cast

from agentscope_rx.lazy import pattern

Redact = Callable[[str], str]
"""A function of a text that returns it without its secrets, such as `redact_secrets`."""

HIDDEN: Final = "***"

_NAME = (
    r"(?:api[_-]?key|apikey|secret|token(?!s|iz)|passw(?:or)?d|passphrase|authorization|credential|cookie"
    r"|private[_-]?key|access[_-]?key|account[_-]?key|signature|auth[_-]?key)"
)

_FORMS = pattern(
    r"""
    -----BEGIN\ [A-Z0-9 ]{0,40}PRIVATE\ KEY(?:\ BLOCK)?-----(?s:.)*?
        (?:-----END\ [A-Z0-9 ]{0,40}PRIVATE\ KEY(?:\ BLOCK)?-----|\Z)
    | (?<![A-Za-z0-9])(?:
        sk-[A-Za-z0-9_-]{12,}
      | [srp]k_(?:live|test)_[A-Za-z0-9]{8,} | whsec_[A-Za-z0-9+/=]{12,}
      | AIza[0-9A-Za-z_-]{24,} | ya29\.[0-9A-Za-z_-]{12,}
      | gh[pousr]_[A-Za-z0-9]{16,} | github_pat_[0-9A-Za-z_]{16,} | glpat-[0-9A-Za-z_-]{12,}
      | hf_[A-Za-z0-9]{16,} | npm_[A-Za-z0-9]{16,} | pypi-[A-Za-z0-9_-]{16,} | dop_v1_[a-f0-9]{16,}
      | xox[abeoprs]-[0-9A-Za-z-]{8,} | xapp-[0-9A-Za-z-]{8,}
      | (?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{12,}
      | SG\.[0-9A-Za-z_-]{12,}\.[0-9A-Za-z_-]{12,}
      | eyJ[A-Za-z0-9_-]{6,}\.[A-Za-z0-9_-]{6,}(?:\.[A-Za-z0-9_-]*)?
    )
    """,
    re.VERBOSE,
)
# a text without any of these has none of the forms above
_FORM_WORDS = (
    "-----BEGIN ", "sk-", "_live_", "_test_", "whsec_", "AIza", "ya29.", "ghp_", "gho_", "ghu_", "ghs_", "ghr_",
    "github_pat_", "glpat-", "hf_", "npm_", "pypi-", "dop_v1_", "xox", "xapp-", "AKIA", "ASIA", "ABIA", "ACCA", "SG.",
    "eyJ",
)  # fmt: skip
# each name has one of these
_NAME_WORDS = ("key", "secret", "token", "passw", "passphrase", "authorization", "credential", "cookie", "signature")
# the words of which a text must have one, in lower case; the part before the secret is the first group, and stays
_PLACES = (
    (("cookie",), pattern(r"((?i:\b(?:set-)?cookie)\s{0,4}:\s{0,4})[^\r\n\"]+")),
    (
        ("authorization",),
        pattern(
            r"((?i:authorization)[\"']?\s{0,4}[:=]\s{0,4}[\"']?(?i:basic|bearer|digest|token|apikey)\s{1,4})[^\s\"',;]+"
        ),
    ),
    (("bearer",), pattern(r"(\b(?i:bearer)\s{1,4})[A-Za-z0-9._~+/=-]{12,}")),
    (("://",), pattern(r"(://)[^\s/?#@:\"']{0,200}:[^\s/?#@\"']{1,300}(?=@)")),
    (
        ("?", "&"),
        pattern(
            r"([?&](?i:sig|key|code|auth|[\w-]{0,30}?(?:signature|token|secret|credential|password|api[_-]?key))=)[^&\s#\"'<>]+"
        ),
    ),
    (_NAME_WORDS, pattern(rf"((?i:{_NAME})[\w-]{{0,40}}\\?[\"']?\s{{0,4}}[:=]\s{{0,4}}\\?\")(?:[^\"\\]|\\.)+")),
    (_NAME_WORDS, pattern(rf"((?i:{_NAME})[\w-]{{0,40}}\\?[\"']?\s{{0,4}}[:=]\s{{0,4}}')[^']+")),
    (
        _NAME_WORDS,
        pattern(
            rf"((?i:{_NAME})[\w-]{{0,40}}[\"']?\s{{0,4}}(?:=|:\s{{0,4}}(?!//)))(?!\d+\b|\*\*\*|(?i:basic|bearer|digest|token|apikey)\s)[^\s\"',;&(){{}}\[\]]{{4,}}"
        ),
    ),
)

_SECRET_FIELD = pattern(_NAME, re.IGNORECASE)
_SCHEMA_VALUES = ("default", "const", "enum", "examples", "example")


def redact_secrets(text: str) -> str:
    """The text with `***` in place of each secret that has a known form, name or place in a URL.

    It knows the keys of common vendors, JSON web tokens, private keys, `Authorization` and cookies, passwords in URLs,
    and values after names such as `api_key=`. It cannot know other secrets, and no personal data.
    """
    if _has(text, _FORM_WORDS):
        text = _FORMS().sub(HIDDEN, text)
    # as `re.IGNORECASE` compares: it takes the letters i with and without a dot for the same
    lower = text.lower() if text.isascii() else text.casefold().replace("i\u0307", "i").replace("\u0131", "i")
    for words, place in _PLACES:
        if _has(lower, words):
            text = place().sub(rf"\g<1>{HIDDEN}", text)
    return text


def _has(text: str, words: tuple[str, ...]) -> bool:
    return any(word in text for word in words)


def is_secret_field(name: str) -> bool:
    """True if a field, header or parameter of this name holds a secret; `max_tokens` does not."""
    return _SECRET_FIELD().search(name) is not None


def redacted(value: object, text: Redact) -> object:
    """A JSON value with `text` applied to each of its texts; what a secret field holds is hidden as a whole."""
    if isinstance(value, str):
        return text(value)
    if isinstance(value, Mapping):
        fields = cast("Mapping[object, object]", value)
        return {text(str(name)): _field(str(name), each, text) for name, each in fields.items()}
    if isinstance(value, Sequence) and not isinstance(value, (bytes, bytearray)):
        return [redacted(each, text) for each in cast("Sequence[object]", value)]
    return value if value is None or isinstance(value, (bool, int, float)) else text(str(value))


def redacted_schema(schema: object, text: Redact, *, secret: bool = False) -> object:
    """A JSON schema: the property `password` stays, and its default is hidden."""
    if isinstance(schema, Mapping):
        fields = cast("Mapping[object, object]", schema)
        return {
            text(str(name)): HIDDEN
            if secret and name in _SCHEMA_VALUES
            else redacted_schema(each, text, secret=is_secret_field(str(name)))
            for name, each in fields.items()
        }
    if isinstance(schema, Sequence) and not isinstance(schema, (str, bytes)):
        return [redacted_schema(each, text, secret=secret) for each in cast("Sequence[object]", schema)]
    return redacted(schema, text)


def _field(name: str, value: object, text: Redact) -> object:
    hidden = is_secret_field(name) and value is not None and not isinstance(value, bool) and value != ""
    return HIDDEN if hidden else redacted(value, text)


def error_text(error: BaseException, most: int = 200) -> str:
    """The error in one line for a log, without secrets and cut to its first `most` characters."""
    text = " ".join(redact_secrets(str(error)[: most * 20]).split())
    kind = type(error).__name__
    return f"{kind}: {text[:most]}" if text else kind
