"""`Tags`: names of tags that a prompt puts around texts of others, which must not close them.

    DATA = Tags("notes", "summary")
    prompt = f"<notes>\\n{DATA.escaped(text)}\\n</notes>"        # in text, "</Notes >" becomes "&lt;/Notes >"

Only the `<` of these tags, and of names that begin like them, is replaced, so that code and HTML stay readable for the
model. Upper and lower case are the same, and spaces may stand around the slash: models read such a tag as one, too.
"""

from __future__ import annotations

import re


class Tags:
    """Escapes the tags of these names in a text."""

    __slots__ = ("_escaped", "_plain", "names")

    def __init__(self, *names: str) -> None:
        self.names: tuple[str, ...] = names
        tag = rf"(?=\s*/?\s*(?:{'|'.join(map(re.escape, names))}))"
        self._plain: re.Pattern[str] = re.compile(f"<{tag}", re.IGNORECASE)
        self._escaped: re.Pattern[str] = re.compile(f"&lt;{tag}", re.IGNORECASE)

    def escaped(self, text: str) -> str:
        """The text, in which `<` at the beginning of such a tag is `&lt;`."""
        return self._plain.sub("&lt;", text)

    def unescaped(self, text: str) -> str:
        """The text that was escaped."""
        return self._escaped.sub("<", text)

    def __repr__(self) -> str:
        return f"<Tags {', '.join(self.names)}>"
