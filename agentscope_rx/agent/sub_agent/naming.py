"""The name that an agent has as a tool: `call_` and what model providers accept of its own."""

from __future__ import annotations

import re
from hashlib import md5

MAX_NAME = 64


def tool_name(agent: str) -> str:
    """`call_<name>`; where that cannot say the whole name, a few digits that tell it from others follow."""
    lower = agent.strip().lower()
    plain = re.sub(r"_{2,}", "_", re.sub(r"[^a-z0-9_-]+", "_", lower)).strip("_") or "agent"
    name = f"call_{plain}"
    if not re.search(r"[^a-z0-9_\-\s]", lower) and len(name) <= MAX_NAME:
        return name
    digits = md5(agent.encode(), usedforsecurity=False).hexdigest()[:8]
    return f"{name[: MAX_NAME - len(digits) - 1].rstrip('_')}_{digits}"
