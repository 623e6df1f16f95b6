"""How the reference shows docstrings.

`Signals:` and `Cancels:` begin paragraphs of their own, as lists and tables do: in the source these lines follow one
another without a blank line, which Markdown takes for one paragraph. Public names in backticks become links.
"""

from __future__ import annotations

import re
from pathlib import Path

import griffe

LAW = re.compile(r"^(Signals(?: and cancels)?|Cancels|Back-pressure): ", re.M)
BLOCK = re.compile(r"^(?![ \t]*(?:[-*] |\d+\. |\|))(\S[^\n]*)\n(?=(?:- |\d+\. |\|))", re.M)
"""A line of text directly before a list or a table."""
NAME = re.compile(r"(?<![`\[])`([A-Za-z]\w*)(?:\.([a-z]\w*))?(?:\(\))?`(?![`\]])")
PAGES = Path(__file__).parent.parent / "reference"

Names = dict[str, list[griffe.Object | griffe.Alias]]
"""The public names of the reference, each with the objects of this name."""


def shown(text: str) -> str:
    """The docstring as Markdown."""
    return BLOCK.sub(r"\1\n\n", LAW.sub(r"\n**\1**: ", text)).strip("\n")


class Docstrings(griffe.Extension):
    """Applies `shown` to every docstring, links the public names in it, and shows the fields of frozen values."""

    def on_alias_instance(self, *, alias: griffe.Alias, **kwargs: object) -> None:
        if alias.target_path == "agentscope_rx.frozen_values.dataclass":
            alias.target_path = "dataclasses.dataclass"

    def on_object(self, *, obj: griffe.Object, **kwargs: object) -> None:
        if obj.docstring is not None:
            obj.docstring.value = shown(obj.docstring.value)

    def on_package(self, *, pkg: griffe.Module, **kwargs: object) -> None:
        if pkg.name == "agentscope_rx":
            link(pkg, public_names(pkg))


def public_names(pkg: griffe.Module) -> Names:
    """The names on the pages of the packages: classes, and names of several words, which are no parameters."""
    found: Names = {}
    for page in sorted(PAGES.glob("*.md")):
        for path in re.findall(r"^::: agentscope_rx\.(\S+)", page.read_text(encoding="utf-8"), re.M):
            module = pkg[path]
            for export in module.exports or ():
                name = str(getattr(export, "name", export))
                if name in module.members and (name[0].isupper() or "_" in name):
                    found.setdefault(name, []).append(module.members[name])
    return found


def link(parent: griffe.Object, names: Names) -> None:
    """Link the names in the docstrings of this object and of everything below it."""
    if parent.docstring is not None:
        lines = parent.docstring.value.split("\n")
        parent.docstring.value = "\n".join(
            line if line.startswith("    ") else NAME.sub(lambda match: linked(match, parent, names), line)
            for line in lines
        )
    for member in parent.members.values():
        if isinstance(member, griffe.Object):
            link(member, names)


def linked(match: re.Match[str], within: griffe.Object, names: Names) -> str:
    """The name as a link; as it is if the reference does not show it, or shows several of this name."""
    text, name, member = match[0], match[1], match[2]
    known = names.get(name, [])
    near = [each for each in known if within.path.startswith(each.path[: -len(name)])] if len(known) > 1 else known
    if len(near) != 1:
        return text
    target = near[0].final_target if isinstance(near[0], griffe.Alias) else near[0]
    own = within.path == target.path or within.path.startswith(f"{target.path}.")
    if member is None:
        return text if own or target.docstring is None else f"[{text}][{near[0].path}]"
    found = target.members.get(member)
    if found is None or found.is_alias or found.docstring is None:
        return text
    return f"[{text}][{near[0].path}.{member}]"
