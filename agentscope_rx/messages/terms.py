"""A text as terms for SQLite's full-text search, and a query as an expression that it takes.

SQLite's tokenizers split at spaces, and scripts without spaces (Chinese, Japanese, Thai) would become one long word.
Its trigram tokenizer needs three characters, and most Chinese words have two. So runs of such scripts become pairs:

    "I like 喝咖啡"   ->   i like 喝咖 咖啡 啡          the last character by itself, so that each begins a term
    query 咖啡        ->   "咖啡"                       query 咖   ->   "咖" *

Other words stay as they are; the tokenizer takes off their accents and English endings (porter). With `names=True`
the parts of names in code are words, too, because a question names one or the other, and so are the characters of a
query, because words that mean the same mostly share one:

    "getUserName"     ->   getusername get user name      (the tokenizer itself splits get_user_name)
    query 咖啡        ->   "咖啡" OR "咖" * OR "啡" *
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from typing import NamedTuple

from agentscope_rx.errors.text import encodable

MAX_TERMS = 64
"""The terms of a query; a longer one is searched for by its first ones and its last ones."""
_MAX_LETTERS = 64

# (the vowel signs of Indic scripts are no letters to `re`; without them a word would fall into its consonants)
_WORD = re.compile(r"[\w\u0900-\u0963\u0966-\u0dff]+")
_UNSPACED = (
    r"\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
    r"\U00020000-\U0003ffff"
)
# where a name in code has its parts: getUser|Name, HTTP|Server
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_RUNS = re.compile(rf"[{_UNSPACED}]+|[^{_UNSPACED}]+")
_IS_UNSPACED = re.compile(rf"[{_UNSPACED}]")

# words that say nothing about what a question is about; negations and numbers are not among them
_STOP = frozenset(
    """a about all am an and any are as at be been but by can could did do does for from had has have he her hers him
    his how i if in is it its just may me might mine my of on or our ours please shall she should so some than that the
    their them then there these they this those to us was we were what when where which who whom whose why will with
    would you your yours tell know remember""".split()  # noqa: SIM905 (a list of words is easier to read)
)

# words without which a sentence still says the same: no pronouns, verbs or negations
_FILLERS = frozenset(["a", "an", "the", "please", "just", "really", "actually"])
# marks that end or enclose words of a sentence; others mean something: C++ and C#, -5 and 5, a question and its answer
_ENCLOSING = ".,;:!…\"'()[]{}«»“”‘’„‚。、「」『』،؛।"


def normalized(text: str) -> str:
    """The text without differences of case, width and space: equal for two facts that are the same."""
    return " ".join(_folded(text).split()).rstrip(" .!。")


def gist(text: str) -> str:
    """The words without articles, fillers and the punctuation around them: equal for facts that nearly are the same."""
    words = [word.strip(_ENCLOSING).replace("’", "'") for word in _folded(text).split()]
    words = [word for word in words if word]
    return " ".join([word for word in words if word not in _FILLERS] or words)


def index_terms(text: str, *, names: bool = False) -> str:
    """What is indexed for this text; with `names` also the parts of names such as `getUserName`."""
    return " ".join(term for word in _words(text, names) for term in _pairs(word))


class Term(NamedTuple):
    """A term of a query: letters and digits of one word, or the begin of one. Parts that `_` or a space separates
    follow each other in what is found."""

    text: str
    is_prefix: bool = False

    @property
    def expression(self) -> str:
        """What FTS5 takes: letters, digits, spaces and `_` in quotes need no escape."""
        return f'"{self.text}" *' if self.is_prefix else f'"{self.text}"'


def query_terms(query: str, *, names: bool = False) -> list[Term]:
    """The terms of a query, each once, without words that say nothing, at most `MAX_TERMS`."""
    words = list(dict.fromkeys(_words(query)))
    words = [word for word in words if word not in _STOP] or words
    terms = list(dict.fromkeys(term for word in words for term in _asked(word, singly=names)))
    if names:
        terms += [Term(part) for part in dict.fromkeys(_split_names(query)) if Term(part) not in terms]
    if len(terms) > MAX_TERMS:
        # (the topic of a long message is mostly named at its beginning, its question at its end)
        terms = [*terms[: MAX_TERMS // 2], *terms[-MAX_TERMS // 2 :]]
    return terms


def match_of(query: str, *, names: bool = False) -> str:
    """The expression that finds texts with any of the query's terms; '' if it has none."""
    return " OR ".join(term.expression for term in query_terms(query, names=names))


def _folded(text: str) -> str:
    """The text without differences of case and width."""
    return unicodedata.normalize("NFKC", encodable(text)).casefold()


def _words(text: str, names: bool = False) -> Iterator[str]:
    """Its words in lower case; a run of an unspaced script is one word."""
    for word in _WORD.findall(_folded(text)):
        for run in _RUNS.findall(word):
            yield run if _IS_UNSPACED.match(run) else run.strip("_")[:_MAX_LETTERS]
    if names:
        for name in _split_names(text):
            yield from name.split()


def _split_names(text: str) -> Iterator[str]:
    """The names in the text that have parts by their capitals, with spaces between these, in lower case."""
    for word in _WORD.findall(encodable(text)):
        name = word[:_MAX_LETTERS]
        if name.isascii() and not name.islower() and (parts := _CAMEL.sub(" ", name)) != name:
            yield " ".join(parts.replace("_", " ").split()).lower()


def _pairs(word: str) -> list[str]:
    if not _IS_UNSPACED.match(word):
        return [word]
    return [word[i : i + 2] for i in range(len(word))]


def _asked(word: str, *, singly: bool = False) -> list[Term]:
    if not word:
        return []
    if not _IS_UNSPACED.match(word):
        return [Term(word)]
    pairs = [Term(word[i : i + 2]) for i in range(len(word) - 1)]
    # (each character begins one pair, so that the index of pairs is an index of characters, too)
    return [*pairs, *(Term(each, is_prefix=True) for each in word)] if singly or not pairs else pairs
