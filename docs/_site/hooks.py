"""Pages of the site from files outside of `docs/`: the examples, README, CHANGELOG, CONTRIBUTING and SECURITY.

The Markdown files link to them by their paths in the repository, so that the links work there, too.
"""

from __future__ import annotations

import json
import posixpath
import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parent.parent.parent
LINK = re.compile(r"(\]\()(?!https?:|#|mailto:)([^)#\s]+)((?:#[^)]*)?\))")
FENCES = re.compile(r"^ *(```|~~~).*?^ *\1", re.M | re.S)
LANGUAGES = {".py": "python", ".md": "markdown", ".ipynb": ""}


def _outside() -> dict[str, str]:
    """Path in the repository -> path of its page."""
    pages = {
        name: f"{name.removesuffix('.md').lower()}.md"
        for name in ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")
    }
    pages |= {"examples/README.md": "examples/index.md", "examples": "examples/index.md"}
    for file in sorted((ROOT / "examples").rglob("*")):
        path = file.relative_to(ROOT).as_posix()
        if file.suffix in LANGUAGES and path not in pages and "__pycache__" not in path:
            pages[path] = f"{path}.md"
    return pages


OUTSIDE = _outside()
SOURCES = {page: source for source, page in OUTSIDE.items() if (ROOT / source).is_file()}


def _text_of(source: str) -> str:
    file = ROOT / source
    text = file.read_text(encoding="utf-8")
    if file.suffix == ".ipynb":
        return _cells(text)
    if file.suffix == ".md" and (file.name == "README.md" or not source.startswith("examples/")):
        return text
    # the other Markdown files of the examples are prompts and documents: shown as they are
    return f"# {file.name}\n\n````{LANGUAGES[file.suffix]}\n{text}````\n"


def _cells(notebook: str) -> str:
    """Text, code and outputs of a notebook."""
    parts: list[str] = []
    for cell in json.loads(notebook)["cells"]:
        source = "".join(cell["source"])
        parts.append(source if cell["cell_type"] == "markdown" else f"````python\n{source}\n````")
        outputs = cell.get("outputs", ())
        shown = "".join("".join(output.get("text") or output["data"]["text/plain"]) for output in outputs)
        if shown:
            parts.append(f"````text\n{shown.rstrip()}\n````")
    return "\n\n".join(parts) + "\n"


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages from outside."""
    for page, source in SOURCES.items():
        files.append(File.generated(config, page, content=_text_of(source)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Let links that leave `docs/` lead to the pages that stand for their files."""
    here = page.file.src_uri
    if here in SOURCES and not here.endswith("index.md"):
        page.meta["search"] = {"boost": 0.1}  # a program that uses a name comes after the page that explains it
    source = SOURCES.get(here, f"docs/{here}")

    def relinked(match: re.Match[str]) -> str:
        path = posixpath.normpath(posixpath.join(posixpath.dirname(source), match[2]))
        target = OUTSIDE.get(path) or (path.removeprefix("docs/") if path.startswith("docs/") else None)
        if target is None:
            return match[0]
        return match[1] + posixpath.relpath(target, posixpath.dirname(here) or ".") + match[3]

    parts: list[str] = []
    end = 0
    for fence in FENCES.finditer(markdown):
        parts += [LINK.sub(relinked, markdown[end : fence.start()]), fence[0]]
        end = fence.end()
    return "".join([*parts, LINK.sub(relinked, markdown[end:])])
