"""`Decision`: what rules say about one call."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from agentscope_rx.permissions.rule import PermissionRule

Verdict = Literal["allow", "ask", "deny"]


@dataclass(frozen=True, slots=True)
class Decision:
    """The verdict on a call, the rule that it comes from (None: the mode, or the tool), and the reason in words."""

    verdict: Verdict
    rule: PermissionRule | None
    reason: str
