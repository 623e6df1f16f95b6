"""`index DIR`: make the documents of a folder ready for `ask --knowledge DIR`, or follow the folder.

| command             | does                                                                                |
|---------------------|-------------------------------------------------------------------------------------|
| `index DIR`         | indexes what is new or has changed, and removes what is gone                        |
| `index DIR --watch` | goes on, with each change, until Ctrl-C                                             |
| `index --rebuild`   | begins anew: for another embedding model                                            |

It can be stopped at any moment. Status 1: some documents could not be read. Status 2: there is nothing to read.
"""

from __future__ import annotations

import argparse
import os
import shlex
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from reactivex import operators as ops

from agentscope_rx.cli import knowledge_place
from agentscope_rx.cli.exit_codes import ANSWERED, FAILED, note
from agentscope_rx.cli.index_view import IndexView, index_view_of, report_failures, summary
from agentscope_rx.cli.knowledge_place import (
    LOCAL,
    IndexPlace,
    Settings,
    add_embedding_flag,
    advised,
    folder_of,
    without_password,
)
from agentscope_rx.console.wording import clean, counted
from agentscope_rx.errors import ConfigurationError, InvalidInputError, KnowledgeFormatError
from agentscope_rx.reactive import concat_map

if TYPE_CHECKING:
    from argparse import _SubParsersAction

    from agentscope_rx.knowledge import Indexer, IndexProgress, KnowledgeBase

_TEXT = """\
Index the documents of a folder, so that they can be searched and asked: text, Markdown, HTML, PDF, DOCX, PPTX, XLSX,
CSV and source code. What has not changed since the last time is skipped. Ctrl-C stops it; the next time goes on."""


def add_index(commands: _SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to a command line."""
    index = commands.add_parser("index", help="index the documents of a folder for --knowledge", description=_TEXT)
    index.add_argument("folder", metavar="DIR", help="the folder; hidden files and node_modules are left out")
    index.add_argument("-w", "--watch", action="store_true", help="go on, and index each change, until Ctrl-C")
    index.add_argument("--into", metavar="FILE|URL", help="where the index is kept (DIR/.agentscope/knowledge.db)")
    add_embedding_flag(index)
    index.add_argument("--rebuild", action="store_true", help="index all documents anew")
    patterns = "(repeatable); remembered"
    index.add_argument("--include", metavar="GLOB", action="append", help=f"only these, such as '*.md' {patterns}")
    ignored = f"not these, such as 'drafts/' {patterns}"
    # (--exclude is the older name)
    index.add_argument("--ignore", "--exclude", dest="ignore", metavar="GLOB", action="append", help=ignored)
    form = index.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print the progress as lines of JSON")
    form.add_argument("-q", "--quiet", action="store_true", help="print only what could not be indexed")


def index(flags: argparse.Namespace) -> int:
    """Run the command and return its exit status."""
    place = _place_of(flags)
    return _end(advised(lambda: _index(place, flags), place), place, flags)


def bring_up_to_date(place: IndexPlace, *, quiet: bool) -> KnowledgeBase:
    """Index what is new in the folder of this place before it is asked; the base."""
    assert place.folder is not None
    base = place.base()
    view = index_view_of(json_lines=False, quiet=quiet)
    indexer, folder = place.indexer(base), place.folder
    done = advised(lambda: _shown(view, indexer, folder, watch=False), place)
    if not done.found:
        base.store.close().run()
        place.discard()
        raise _nothing(place.name, done)
    if not quiet and (done.done or done.removed):
        note(f"{clean(place.name)}: {summary(done)}")
    report_failures(done)
    return base


def _place_of(flags: argparse.Namespace) -> IndexPlace:
    """The place with these flags in the place of what is remembered, which they replace."""
    folder = folder_of(flags.folder)
    known = Settings.of(folder)
    if flags.into is None and known.into:
        raise ConfigurationError(
            f"The index is in {clean(known.into)}: if it may go there, add --into {clean(known.into)}."
        )
    embedding = flags.embedding or known.embedding
    if flags.embedding is None and embedding not in LOCAL:
        raise ConfigurationError(
            f"The index was made with {clean(embedding)}: if its server may get the documents, add --embedding "
            f"{clean(embedding)}."
        )
    settings = Settings(
        embedding=embedding,
        into="" if flags.into is None else _absolute(flags.into),
        include=known.include if flags.include is None else tuple(flags.include),
        ignore=known.ignore if flags.ignore is None else tuple(flags.ignore),
    )
    # (a wrong name must not be remembered)
    knowledge_place.embedding_of(embedding)
    return IndexPlace(flags.folder, folder, settings)


def _absolute(into: str) -> str:
    # the folder may be asked from another one
    return into if "://" in into else os.path.abspath(os.path.expanduser(into))


def _index(place: IndexPlace, flags: argparse.Namespace) -> IndexProgress:
    assert place.folder is not None
    base = place.base()
    try:
        if flags.rebuild:
            _remove_all(base, place)
        view = _Remembering(place, index_view_of(json_lines=flags.json, quiet=flags.quiet, summaries=flags.watch))
        indexer = place.indexer(base)
        if flags.watch and not flags.quiet and not flags.json:
            note(f"following {clean(flags.folder)}; Ctrl-C ends it")
        return _shown(view, indexer, place.folder, watch=flags.watch)
    except KeyboardInterrupt:
        if not flags.watch:
            note("stopped; what is indexed stays, and the same command goes on with the rest")
        raise
    finally:
        base.store.close().run()


def _shown(view: IndexView, indexer: Indexer, folder: object, *, watch: bool) -> IndexProgress:
    path = str(folder)
    progress = indexer.watch(path) if watch else indexer.folder(path)
    try:
        return progress.pipe(concat_map(view.show)).run()
    finally:
        view.end()


class _Remembering:
    """Remembers the settings of a folder once the store has taken them."""

    def __init__(self, place: IndexPlace, view: IndexView) -> None:
        self._place = place
        self._view = view
        self._saved = False

    def show(self, progress: IndexProgress) -> IndexProgress:
        """The progress, shown."""
        folder, settings = self._place.folder, self._place.settings
        if not self._saved and progress.found and progress.phase != "looking" and folder is not None:
            self._saved = True
            if replace(settings, into=without_password(settings.into)) != Settings.of(folder):
                _remember(settings, folder)
        return self._view.show(progress)

    def end(self) -> None:
        """End the view."""
        self._view.end()


def _remember(settings: Settings, folder: Path) -> None:
    try:
        settings.save(folder)
    except ConfigurationError as error:
        # (a folder that cannot be written to can be indexed into a file elsewhere)
        note(f"the flags are not remembered: {error}")


def _remove_all(base: KnowledgeBase, place: IndexPlace) -> None:
    """Empty the store: it takes the vectors of any model then. A damaged file in the folder itself is removed."""
    ids = base.store.documents().pipe(ops.map(lambda each: each.document.id), ops.to_list())
    try:
        ids.pipe(concat_map(base.store.remove)).run()
    except KnowledgeFormatError:
        if not place.is_own:
            raise
        place.remove_file()


def _end(report: IndexProgress, place: IndexPlace, flags: argparse.Namespace) -> int:
    report_failures(report)
    if not report.found and not report.removed and not report.failed:
        place.discard()
        raise _nothing(flags.folder, report)
    if not flags.quiet and not flags.json:
        print(f"{summary(report)}, in {place.shown}")
        name = shlex.quote(clean(flags.folder) if not place.settings.into else place.shown)
        note(f'ask with: agentscope-rx ask --knowledge {name} "..."')
    return FAILED if report.failed else ANSWERED


def _nothing(name: str, report: IndexProgress) -> InvalidInputError:
    others = f" but {counted(report.skipped, 'file')} of other kinds" if report.skipped else ""
    return InvalidInputError(
        f"{clean(name)} has no document that can be read{',' if others else ''}{others}. Hidden files, links and what "
        "--include and --ignore leave out do not count."
    )
