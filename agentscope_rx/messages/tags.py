"""`Tags`: names of tags that a prompt puts around texts of others, which must not close them.

    DATA = Tags("notes", "summary")
    prompt = f"<notes>\\n{DATA.escaped(text)}\\n</notes>"        # in text, "</Notes >" becomes "&lt;/Notes >"

Only the `<` of these tags, and of names that begin like them, is replaced, so that code and HTML stay readable for the
model. Upper and lower case are the same, spaces may stand around the slash and invisible characters anywhere:
models read such a tag as one, too.
"""

from __future__ import annotations

import re

from agentscope_rx.lazy import pattern

_INVISIBLE = r"\u00ad\u034f\u061c\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufe00-\ufe0f\ufeff"
"""Characters without a form of their own, in a class of a regular expression."""


class Tags:
    """Escapes the tags of these names in a text."""

    __slots__ = ("_escaped", "_plain", "names")

    def __init__(self, *names: str) -> None:
        self.names: tuple[str, ...] = names
        within = f"[{_INVISIBLE}]*"
        around = rf"[\s{_INVISIBLE}]*"
        spelled = "|".join(within.join(map(re.escape, name)) for name in names)
        # (one way to match what stands around the slash: no text may make the search take long)
        tag = f"(?={around}(?:/{around})?(?:{spelled}))"
        self._plain = pattern(f"<{tag}", re.IGNORECASE)
        self._escaped = pattern(f"&lt;{tag}", re.IGNORECASE)

    def escaped(self, text: str) -> str:
        """The text, in which `<` at the beginning of such a tag is `&lt;`."""
        return self._plain().sub("&lt;", text)

    def unescaped(self, text: str) -> str:
        """The text that was escaped."""
        return self._escaped().sub("<", text)

    def __repr__(self) -> str:
        return f"<Tags {', '.join(self.names)}>"
