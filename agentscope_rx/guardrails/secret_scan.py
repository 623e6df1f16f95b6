"""`Secrets`: finds keys, tokens and passwords by the detectors of detect-secrets. It needs the extra `guardrails`.

Nothing is verified over the network, and nothing is read from a configuration: a text gives the same findings wherever
it is judged. A secret is known by its form, so one without a form of its own (a password in a sentence) is not found.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Literal, Protocol, cast

from agentscope_rx.errors import ConfigurationError, MissingExtraError
from agentscope_rx.guardrails.text_guardrail import Span, TextAction, TextGuardrail
from agentscope_rx.guardrails.verdict import Kind

REACH = 512
"""The length of the longest secret that is found wherever its pieces are cut, if they come within `max_delay`."""
PIECE = 4 * REACH
"""The length of the pieces in which a text is searched; each begins `REACH` characters before the last one ends.

Some patterns of the library take time that grows with the square of the length of a word: a text that is made for it
must not block the process.
"""

SHORT = 8
"""A shorter group of a pattern is no secret by itself, but a prefix: then the whole match is."""

_DETECTORS = {
    "aws": "AWSKeyDetector",
    "azure_storage_key": "AzureStorageKeyDetector",
    "basic_auth": "BasicAuthDetector",
    "cloudant": "CloudantDetector",
    "discord": "DiscordBotTokenDetector",
    "github_token": "GitHubTokenDetector",
    "gitlab_token": "GitLabTokenDetector",
    "ibm_cos_hmac": "IbmCosHmacDetector",
    "jwt": "JwtTokenDetector",
    "mailchimp": "MailchimpDetector",
    "npm": "NpmDetector",
    "openai": "OpenAIDetector",
    "pypi_token": "PypiTokenDetector",
    "sendgrid": "SendGridDetector",
    "slack": "SlackDetector",
    "square_oauth": "SquareOAuthDetector",
    "stripe": "StripeDetector",
    "telegram_token": "TelegramBotTokenDetector",
    "twilio": "TwilioKeyDetector",
}
"""The detectors of secrets with a form of their own: module and class. (Others match ordinary words.)"""

_OWN = {
    "Anthropic Token": r"\bsk-ant-[A-Za-z0-9_-]{20,}",
    "OpenAI Token": r"\bsk-(?:proj|svcacct|admin)-[A-Za-z0-9_-]{20,}",
    "Google API Key": r"\bAIza[0-9A-Za-z_-]{35}(?![0-9A-Za-z_-])",
    "GitHub Token": r"\bgithub_pat_[0-9A-Za-z_]{22,}",
    "Hugging Face Token": r"\bhf_[A-Za-z0-9]{30,}",
}
"""Forms that detect-secrets does not know."""

_LABEL = r"(?:[A-Z0-9]+ )*PRIVATE KEY(?: BLOCK)?-----"
_KEY_BLOCK = re.compile(rf"-{{0,5}}BEGIN {_LABEL}(?P<end>.*?-----END {_LABEL})?", re.DOTALL)
_KEY_REST = re.compile(
    # lines of a key and its headers; then its end, or the beginning of it
    r"(?:[A-Za-z0-9+/=]+(?=\s|\Z|-)|[A-Z][A-Za-z-]+: [^\n]*|\s)*"
    rf"(?:(?P<end>-*END {_LABEL})|-[-A-Z ]*\Z)?"
)
_OPEN_KEY = "[private key removed"
"""In the place of a key whose end has not come yet: what follows it belongs to the key. Its end closes the bracket."""
_WORD = re.compile(r"[A-Za-z0-9_-]*")
_JWT_WORD = re.compile(r"[A-Za-z0-9_.+/=-]*")
_KEY = "Private Key"


class _Detector(Protocol):
    """A plugin of detect-secrets."""

    @property
    def secret_type(self) -> str: ...

    def analyze_string(self, string: str) -> Iterable[str]: ...


class _Patterns(_Detector, Protocol):
    @property
    def denylist(self) -> Iterable[re.Pattern[str]]: ...


class _Entropy(_Detector, Protocol):
    entropy_limit: float

    def calculate_shannon_entropy(self, data: str) -> float: ...


class Secrets(TextGuardrail):
    """Replaces secrets by `[secret removed]`, private keys by `[private key removed]`; or stops, or warns.

    It finds keys and tokens of some 25 services, private keys and passwords in URLs, by detect-secrets (extra
    `guardrails`). Nothing is verified over the network. `action` is "replace" (default), "stop" or "warn".

    - `keywords`: also looks for quoted values of names such as `password`
    - `entropy`: also for quoted texts that look random: True, or the limits in bits per character, `{"base64": 4.5,
      "hex": 3.0}`
    - `patterns`: regular expressions of your own, by the name of their finds
    - `allow`: a regular expression; a text that it matches is not a secret

    A secret without a form of its own is not found: a password in a sentence, a token of an unknown service. `keywords`
    and `entropy` also find things that are no secrets. A search takes about 0.4 ms of CPU time for 1,000 characters.
    Its `reach` is 512 characters; of a private key all that follows its beginning is removed.
    """

    reach = REACH

    def __init__(
        self,
        *,
        kinds: Iterable[Kind] = ("output", "tool_result"),
        action: TextAction = "replace",
        keywords: bool = False,
        entropy: bool | Mapping[Literal["base64", "hex"], float] = False,
        patterns: Mapping[str, str] | None = None,
        allow: str | None = None,
        template: str = "[secret removed]",
        tools: Collection[str] | None = None,
    ) -> None:
        super().__init__(kinds, action, template, tools)
        if patterns is not None and not isinstance(patterns, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigurationError(
                "patterns takes regular expressions by what they find, as in {'ticket': 'T-[0-9]+'}, not "
                f"{patterns!r:.60}."
            )
        try:
            self._forms = [*_forms_of_library(), *_compiled({**_OWN, **(patterns or {})})]
            self._keywords = _keyword_detector() if keywords else None
            self._entropy = _entropy_detectors(entropy)
            from detect_secrets.filters import heuristic
        except ImportError as error:
            raise MissingExtraError("detect-secrets", "guardrails") from error
        self._unlikely = (
            heuristic.is_sequential_string,
            heuristic.is_potential_uuid,
            heuristic.is_templated_secret,
            heuristic.is_prefixed_with_dollar_sign,
            heuristic.is_not_alphanumeric_string,
        )
        self._allow = None if allow is None else next(_compiled({"allow": allow}))[1]

    def find(self, text: str, before: str = "") -> Iterator[Span]:
        """The secrets in the text."""
        found = [*self._private_keys(text, before)]
        for at in range(0, max(len(text) - REACH, 1), PIECE - REACH):
            piece = text[at : at + PIECE]
            found += (span.moved(at) for span in self._by_form(piece))
            if self._keywords is not None or self._entropy:
                found += (span.moved(at) for span in self._by_line(piece))
        for span in found:
            if self._allow is None or not self._allow.search(text[span.start : span.end]):
                yield span

    def _by_form(self, text: str) -> Iterator[Span]:
        for label, pattern, is_valid in self._forms:
            for match in pattern.finditer(text):
                # the secret is the group, if there is one, as in `AWS_SECRET = "(...)"`
                groups = [n for n in range(1, pattern.groups + 1) if len(match.group(n) or "") >= SHORT] or [0]
                for group in groups:
                    start, end = match.span(group)
                    if is_valid is None or is_valid(match.group(group)):
                        # to the end of the word: patterns may end before the secret does
                        rest = (_WORD if is_valid is None else _JWT_WORD).match(text, end)
                        yield Span(start, end if rest is None or group else rest.end(), label)

    def _private_keys(self, text: str, before: str) -> Iterator[Span]:
        """Whole keys, and all that follows the beginning of one; also one whose beginning was removed before."""
        for match in _KEY_BLOCK.finditer(text):
            if match.group("end"):
                yield Span(*match.span(), _KEY, _OPEN_KEY + "]")
            else:
                yield Span(match.start(), len(text), _KEY, _OPEN_KEY)
                break
        places = [match.end() for match in re.finditer(re.escape(_OPEN_KEY) + r"(?!\])", text)]
        for place in [0, *places] if before.endswith(_OPEN_KEY) else places:
            rest = _KEY_REST.match(text, place)
            end = place if rest is None else rest.end()
            if rest is not None and rest.group("end"):
                yield Span(place, end, _KEY, "]")
            else:
                yield Span(place, end, _KEY, "" if end == len(text) else "] ")

    def _by_line(self, text: str) -> Iterator[Span]:
        at = 0
        for line in text.splitlines(keepends=True):
            yield from self._in_line(line, at)
            at += len(line)

    def _in_line(self, line: str, at: int) -> Iterator[Span]:
        values: list[tuple[str, str]] = []
        if self._keywords is not None:
            values += [(self._keywords.secret_type, value) for value in self._keywords.analyze_string(line) if value]
        for detector in self._entropy:
            random = (
                v
                for v in detector.analyze_string(line)
                if detector.calculate_shannon_entropy(v) > detector.entropy_limit
            )
            values += [(detector.secret_type, value) for value in random]
        for label, value in values:
            if any(unlikely(value) for unlikely in self._unlikely):
                continue
            start = line.find(value)
            while start >= 0:
                yield Span(at + start, at + start + len(value), label)
                start = line.find(value, start + len(value))


_Form = tuple[str, "re.Pattern[str]", "Callable[[str], bool] | None"]


def _forms_of_library() -> Iterator[_Form]:
    """The patterns of the detectors."""
    from importlib import import_module

    for module, name in _DETECTORS.items():
        detector = cast("_Patterns", getattr(import_module(f"detect_secrets.plugins.{module}"), name)())
        for pattern in detector.denylist:
            yield detector.secret_type, pattern, getattr(detector, "is_formally_valid", None)


def _compiled(patterns: Mapping[str, str]) -> Iterator[_Form]:
    for label, pattern in patterns.items():
        try:
            yield label, re.compile(pattern), None
        except re.error as error:
            raise ConfigurationError(f"The pattern {label!r} is no regular expression: {error}") from error


def _keyword_detector() -> _Detector:
    from detect_secrets.plugins.keyword import KeywordDetector

    return cast("_Detector", KeywordDetector())


def _entropy_detectors(entropy: bool | Mapping[Literal["base64", "hex"], float]) -> list[_Entropy]:
    if entropy is False:
        return []
    from detect_secrets.plugins.high_entropy_strings import Base64HighEntropyString, HexHighEntropyString

    limits: Mapping[Literal["base64", "hex"], float] = {"base64": 4.5, "hex": 3.0} if entropy is True else entropy
    makers = {"base64": Base64HighEntropyString, "hex": HexHighEntropyString}
    if not set(limits) <= set(makers):
        raise ConfigurationError(f"entropy takes limits for 'base64' and 'hex', not {limits!r:.80}.")
    try:
        return [cast("_Entropy", makers[name](limit)) for name, limit in limits.items()]
    except (TypeError, ValueError) as error:
        raise ConfigurationError(f"entropy: {error}") from error
