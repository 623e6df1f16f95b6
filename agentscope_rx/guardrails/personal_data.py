"""`PersonalData`: finds numbers of accounts, cards and persons by the check digits that python-stdnum knows."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator
from importlib import import_module
from typing import cast

from agentscope_rx.errors import ConfigurationError, MissingExtraError
from agentscope_rx.guardrails.text_guardrail import Span, TextAction, TextGuardrail
from agentscope_rx.guardrails.verdict import Kind

REACH = 64
"""The length of the longest thing that is found wherever its pieces are cut, if they come within `max_delay`."""

COUNTRIES: dict[str, tuple[tuple[str, str, str], ...]] = {
    "at": (("Austrian social security number", "at.vnr", r"\d{4} ?\d{6}"),),
    "be": (("Belgian national number", "be.nn", r"\d{2}\.?\d{2}\.?\d{2}[- ]?\d{3}[. ]?\d{2}"),),
    "br": (("Brazilian CPF", "br.cpf", r"\d{3}\.?\d{3}\.?\d{3}-?\d{2}"),),
    "ch": (("Swiss social security number", "ch.ssn", r"756\.?\d{4}\.?\d{4}\.?\d{2}"),),
    "cn": (("Chinese resident identity number", "cn.ric", r"\d{17}[\dX]"),),
    "de": (("German tax number", "de.idnr", r"\d{2} ?\d{3} ?\d{3} ?\d{3}"),),
    "es": (("Spanish DNI", "es.dni", r"\d{8}-?[A-Z]"), ("Spanish NIE", "es.nie", r"[XYZ]-?\d{7}-?[A-Z]")),
    "fr": (("French NIR", "fr.nir", r"[12] ?\d{2} ?\d{2} ?\d[\dAB] ?\d{3} ?\d{3} ?\d{2}"),),
    "gb": (("NHS number", "gb.nhs", r"\d{3}[ -]?\d{3}[ -]?\d{4}"),),
    "in": (("Aadhaar number", "in_.aadhaar", r"\d{4} ?\d{4} ?\d{4}"),),
    "it": (("Italian codice fiscale", "it.codicefiscale", r"[A-Z]{6}\d{2}[A-Z]\d{2}[A-Z]\d{3}[A-Z]"),),
    "nl": (("Dutch BSN", "nl.bsn", r"\d{9}"),),
    "pl": (("Polish PESEL", "pl.pesel", r"\d{11}"),),
    "se": (("Swedish personal number", "se.personnummer", r"(?:\d{2})?\d{6}[-+]\d{4}"),),
    "us": (("US social security number", "us.ssn", r"\d{3}-\d{2}-\d{4}"),),
}
"""By country: what it is, the module of stdnum that checks it, and the form in which it is looked for."""

_SEPARATORS = re.compile(r"[ -]")
_CARD = re.compile(r"(?<![\d.,-])(?:\d[ -]?){12,18}\d(?![\d])")
_SCHEME = re.compile(
    r"4|5[1-5]|2(?:22[1-9]|2[3-9]\d|[3-6]\d\d|7[01]\d|720)|3[47]|6(?:011|4[4-9]|5)|35(?:2[89]|[3-8]\d)|3(?:0[0-5]|[68])"
)
_IBAN = re.compile(r"(?<![A-Za-z0-9])[A-Z]{2}\d{2}(?: ?[A-Z0-9]){11,30}(?![a-z])")
_EMAIL = re.compile(r"(?<![\w.+-])[\w+-]+(?:\.[\w+-]+)*@[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)*\.[A-Za-z]{2,}(?![\w-])")
_PHONE = re.compile(r"(?<![\w+])\+[1-9](?:[ ().-]{0,2}\d){7,14}(?!\d)")

_Find = Callable[[str], Iterator[Span]]


class PersonalData(TextGuardrail):
    """Replaces numbers of accounts, cards and persons, and addresses, by `[IBAN removed]`; or stops, or warns.

    `action` is "replace" (default), "stop" or "warn". `find` selects from the table; `countries` are those whose
    numbers of persons are looked for. Extra `guardrails`.

    | what | is found if |
    |---|---|
    | `iban` | its country, length and check digits are right |
    | `card` | 13 to 19 digits that begin as those of a card scheme, with a right check digit (Luhn) |
    | `email` | it is `name@host.domain` |
    | `phone` | it begins with `+` and a country code, and has 8 to 15 digits |
    | a country | its numbers of persons, in their usual form and with right check digits |

    Names, addresses, dates of birth and national forms of phone numbers are not found. Its `reach` is 64 characters.
    """

    reach = REACH

    def __init__(
        self,
        *,
        find: Collection[str] = ("iban", "card", "email", "phone"),
        countries: Collection[str] = (),
        kinds: Iterable[Kind] = ("output",),
        action: TextAction = "replace",
        template: str = "[{kind} removed]",
        tools: Collection[str] | None = None,
    ) -> None:
        super().__init__(kinds, action, template, tools)
        known: dict[str, _Find] = {"iban": _ibans, "card": _cards, "email": _emails, "phone": _phones}
        if isinstance(find, str) or not set(find) <= set(known):
            raise ConfigurationError(f"find takes a list of {', '.join(known)}, not {find!r:.80}.")
        if isinstance(countries, str) or not set(countries) <= set(COUNTRIES):
            raise ConfigurationError(f"countries takes a list of {', '.join(COUNTRIES)}, not {countries!r:.80}.")
        try:
            import_module("stdnum")
            self._finders: list[_Find] = [known[name] for name in known if name in find]
            self._finders += [_persons(*each) for name in COUNTRIES if name in countries for each in COUNTRIES[name]]
        except ImportError as error:
            raise MissingExtraError("python-stdnum", "guardrails") from error

    def find(self, text: str, before: str = "") -> Iterator[Span]:
        """The numbers and addresses in the text."""
        for finder in self._finders:
            yield from finder(text)


def _validator(module: str) -> Callable[[str], bool]:
    return cast("Callable[[str], bool]", import_module(f"stdnum.{module}").is_valid)


def _ibans(text: str) -> Iterator[Span]:
    is_valid = _validator("iban")
    for match in _IBAN.finditer(text):
        # words in capitals may follow
        found = match.group()
        for end in range(len(found), 14, -1):
            if found[end - 1] != " " and (end == len(found) or found[end] == " ") and is_valid(found[:end]):
                yield Span(match.start(), match.start() + end, "IBAN")
                break


def _cards(text: str) -> Iterator[Span]:
    is_valid = _validator("luhn")
    for match in _CARD.finditer(text):
        digits = _SEPARATORS.sub("", match.group())
        if _SCHEME.match(digits) and is_valid(digits):
            yield Span(*match.span(), "card number")


def _emails(text: str) -> Iterator[Span]:
    return (Span(*match.span(), "e-mail address") for match in _EMAIL.finditer(text))


def _phones(text: str) -> Iterator[Span]:
    return (Span(*match.span(), "phone number") for match in _PHONE.finditer(text))


def _persons(label: str, module: str, form: str) -> _Find:
    is_valid = _validator(module)
    pattern = re.compile(rf"(?<![\w.-]){form}(?![\w-])")

    def find(text: str) -> Iterator[Span]:
        return (Span(*match.span(), label) for match in pattern.finditer(text) if is_valid(match.group()))

    return find
