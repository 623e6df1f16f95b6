"""`RuleSet`: the rules that deny, ask and allow, and a mode, as values and as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import Literal, cast, get_args

from agentscope_rx.errors import ConfigurationError
from agentscope_rx.frozen_values import dataclass
from agentscope_rx.permissions.rule import PermissionRule

Mode = Literal["plan", "ask", "accept_edits", "workspace"]
"""The treatment of calls that no rule is about.

| mode | runs without asking |
|---|---|
| `"plan"` | only tools that read; rules of `allow` do not count for others |
| `"ask"` | tools that read |
| `"accept_edits"` | also the file tools' `write_file` and `edit_file` |
| `"workspace"` | also every tool that promises to stay in the workspace (`Effects(confined=True)`) |

The file tools promise it, and so do commands and code in a backend that isolates them and has no network.
"""

Verdict = Literal["allow", "ask", "deny"]
"""The call runs, waits for a person, or never runs."""

VERSION = 1
LISTS = ("deny", "ask", "allow")
_KEYS = ("version", "mode", *LISTS)


@dataclass(frozen=True, slots=True)
class Decision:
    """The verdict on a call, the rule that it comes from (None: the mode, or the tool), and the reason in words."""

    verdict: Verdict
    rule: PermissionRule | None
    reason: str


@dataclass(frozen=True, slots=True)
class RuleSet:
    """Rules in three lists, `deny`, `ask` and `allow`, whose order does not matter.

    `mode` is None if the set leaves it to others. `to_json` and `from_json` are its form in a file:

        {"version": 1, "mode": "accept_edits", "deny": ["*(secrets/**)"],
         "ask": [{"tool": "run_command", "command": "git push *"}], "allow": ["write_file(docs/guide/**)"]}
    """

    deny: tuple[PermissionRule, ...] = ()
    ask: tuple[PermissionRule, ...] = ()
    allow: tuple[PermissionRule, ...] = ()
    mode: Mode | None = None

    @classmethod
    def of(
        cls, deny: Iterable[object] = (), ask: Iterable[object] = (), allow: Iterable[object] = (), mode: object = None
    ) -> RuleSet:
        """The set of these rules, which may be texts or dicts; `ConfigurationError`."""
        given = {"deny": deny, "ask": ask, "allow": allow}
        lists: dict[str, tuple[PermissionRule, ...]] = {}
        for name, rules in given.items():
            if isinstance(rules, (str, Mapping)) or not isinstance(cast("object", rules), Iterable):
                raise ConfigurationError(f"{name} takes a list of rules, as in {name}=[{rules!r:.60}].")
            lists[name] = _distinct(map(PermissionRule.of, rules))
        return cls(lists["deny"], lists["ask"], lists["allow"], None if mode is None else check_mode(mode))

    def plus(self, verdict: str, rule: PermissionRule) -> RuleSet:
        """The set with one more rule."""
        return self._with(verdict, _distinct((*self._list(verdict), rule)))

    def minus(self, verdict: str, rule: PermissionRule) -> RuleSet:
        """The set without a rule; `ConfigurationError` if it does not have it."""
        rules = self._list(verdict)
        if rule not in rules:
            raise ConfigurationError(f"There is no rule {str(rule)!r} in {verdict}: {[*map(str, rules)]}.")
        return self._with(verdict, tuple(each for each in rules if each != rule))

    def _list(self, verdict: str) -> tuple[PermissionRule, ...]:
        if verdict not in LISTS:
            raise ConfigurationError(f"A rule is one of deny, ask and allow, not {verdict!r:.60}.")
        return cast("tuple[PermissionRule, ...]", getattr(self, verdict))

    def _with(self, verdict: str, rules: tuple[PermissionRule, ...]) -> RuleSet:
        lists = {name: rules if name == verdict else self._list(name) for name in LISTS}
        return RuleSet(lists["deny"], lists["ask"], lists["allow"], self.mode)

    def to_json(self) -> dict[str, object]:
        """The set as a JSON object; `from_json` reads it."""
        mode = {} if self.mode is None else {"mode": self.mode}
        return {"version": VERSION, **mode, **{name: [rule.to_json() for rule in self._list(name)] for name in LISTS}}

    @classmethod
    def from_json(cls, data: object, where: Where | None = None) -> RuleSet:
        """The set of a JSON object; `ConfigurationError` names the mistake, with its place in a file."""
        at = where or Where("Permissions")
        if not isinstance(data, Mapping):
            raise at.error(data, f"must be an object with {', '.join(_KEYS)}")
        fields = cast("Mapping[str, object]", data)
        for name in fields:
            if name not in _KEYS:
                near = get_close_matches(name[:100], _KEYS, 1)
                raise at.error(name, f"has no {name!r:.60}. " + (f"Did you mean {near[0]!r}?" if near else ""))
        version = fields.get("version")
        if type(version) is not int or version < 1:
            raise at.error("version", f'needs "version": {VERSION}, not {version!r:.60}')
        if version > VERSION:
            raise at.error(
                "version", f"has version {version}; this release reads up to {VERSION}. Update agentscope-rx"
            )
        lists: dict[str, list[PermissionRule]] = {}
        for name in LISTS:
            rules = fields.get(name, [])
            if not isinstance(rules, list):
                raise at.error(name, f"has {name!r} that is no list of rules")
            lists[name] = [at.read(rule) for rule in cast("list[object]", rules)]
        try:
            return cls.of(**lists, mode=fields.get("mode"))
        except ConfigurationError as error:
            raise at.error(fields.get("mode"), f"cannot be used: {error}") from None


class Where:
    """The file that a set is read from: finds the line of what is wrong."""

    def __init__(self, name: str, text: str = "") -> None:
        self._name = name
        self._text = text

    def error(self, value: object, what: str) -> ConfigurationError:
        """The error about this value."""
        return ConfigurationError(f"{self._name}{self._line(value)} {what.rstrip('. ')}.")

    def read(self, rule: object) -> PermissionRule:
        """The rule; its error with the line."""
        try:
            return PermissionRule.of(rule)
        except ConfigurationError as error:
            raise self.error(rule, f"has a rule that cannot be used: {error}") from None

    def _line(self, value: object) -> str:
        wanted = next(iter(cast("Mapping[str, object]", value).values()), "") if isinstance(value, Mapping) else value
        shown = _written(wanted)
        for number, line in enumerate(self._text.splitlines(), 1):
            if any(each in line for each in shown):
                return f", line {number},"
        return ""


def _written(value: object) -> tuple[str, ...]:
    try:
        return (json.dumps(value), json.dumps(value, ensure_ascii=False))
    except (TypeError, ValueError):
        return ()


def check_mode(mode: object) -> Mode:
    """The mode; `ConfigurationError` for another value."""
    if mode in get_args(Mode):
        return cast("Mode", mode)
    near = get_close_matches(str(mode)[:100], get_args(Mode), 1)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    raise ConfigurationError(f"mode must be {', '.join(map(repr, get_args(Mode)))}, not {mode!r:.60}.{hint}")


def _distinct(rules: Iterable[PermissionRule]) -> tuple[PermissionRule, ...]:
    found: list[PermissionRule] = []
    for rule in rules:
        if rule not in found:
            found.append(rule)
    return tuple(found)
