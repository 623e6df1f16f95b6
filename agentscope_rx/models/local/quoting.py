"""The pattern of an answer that quotes what was observed. Pure.

    a statement                                   17 * 23 = 391
    words of the question, a statement's end      The captain of the ship is Ingrid Solberg.

What is said is the model's choice, within three laws: a number or a name that was not seen cannot be said; what the
statement shares with the question is said, by one part or the other; a number of the question is said only with a
statement that holds it. A line that a search found keeps its place, a list of names is not cut, and of an equation
there is the whole or the result.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from agentscope_rx.models.local.focus import is_found, is_list
from agentscope_rx.models.local.grounded import numbers
from agentscope_rx.models.local.schema import literal
from agentscope_rx.models.local.words import Features, is_function_word, matter, shape

_LEAD_WORDS = 16
_SPAN_WORDS = 60
_ASKING = "what which who whom whose how where when why do does did is are was were many much"
_NOT_TAKEN_UP = frozenset(_ASKING.split(" "))
_VERB = "((is|are|was|has|says) )?"


def quoting(question: str, statements: Sequence[str]) -> str:
    """The pattern of an answer to a question from these statements, as it stands in JSON."""
    forms = [literal(statement) for statement in statements]
    clauses = list(_clauses(question))
    asked = matter(question)
    for statement in statements:
        if not is_found(statement):
            forms += _taken_up(clauses, asked, statement)
    return f"^({'|'.join(forms)})$"


def _taken_up(clauses: Sequence[Sequence[str]], asked: Features, statement: str) -> Iterator[str]:
    """The forms that begin with words of the question and end with this statement."""
    ending = statement.split()[-_SPAN_WORDS:]
    shared = asked & matter(" ".join(ending))
    held = numbers(statement)
    for clause in clauses:
        for start in _beginnings(clause):
            lead = _sayable(clause[start:], held)
            limits = [_limit(shared - matter(" ".join(lead[: length + 1])), ending) for length in range(len(lead))]
            for limit, group in groupby(range(len(lead)), limits.__getitem__):
                lengths = list(group)
                taken = _run(lead[: lengths[-1] + 1], lengths[0])
                yield f"(The )?{taken} {_VERB}{_ending(ending, limit, whole=is_list(statement))}"


def _clauses(question: str) -> Iterator[list[str]]:
    """The runs of words of a question that an answer can take up; a sign, which would compute, is not one of them."""
    run: list[str] = []
    for token in question.split()[:_LEAD_WORDS]:
        word = token.strip(".,;:!?\"'`()")
        if not word or word.lower() in _NOT_TAKEN_UP or shape(word) == "<sign>":
            if run:
                yield run
            run = []
        else:
            run.append(word)
    if run:
        yield run


def _beginnings(clause: Sequence[str]) -> Iterator[int]:
    """Where in a clause a sentence can begin: not with a number, whose unit or sum may be before it."""
    for at, word in enumerate(clause):
        if word.lower() in ("the", "a", "an") or not (is_function_word(word) or shape(word) == "<number>"):
            yield at


def _sayable(clause: Sequence[str], held: frozenset[str]) -> Sequence[str]:
    """The words up to a number that the statement does not hold."""
    for index, word in enumerate(clause):
        if shape(word) == "<number>" and not numbers(word) <= held:
            return clause[:index]
    return clause


def _limit(missing: Features, ending: Sequence[str]) -> int:
    """The last word from which the ending still says all that is missing."""
    return max(at for at in range(len(ending)) if at == 0 or missing <= matter(" ".join(ending[at:])))


def _run(lead: Sequence[str], least: int) -> str:
    """The words up to that at `least`, and on, up to any of them."""
    pattern = ""
    for word in reversed(lead[least + 1 :]):
        pattern = f"( {literal(word)}{pattern})?"
    return " ".join(map(literal, lead[: least + 1])) + pattern


def _ending(found: Sequence[str], limit: int, *, whole: bool) -> str:
    """The words from any of the first ones, up to that at `limit`, to the end; all of them if `whole`."""
    result = _result_at(found)
    if result is not None and limit >= result:
        return f"({' '.join(map(literal, found[:result]))} )?{' '.join(map(literal, found[result:]))}"
    if whole or result is not None:
        limit = 0
    pattern = ""
    for word in found[:limit]:
        pattern = f"({pattern}{literal(word)} )?"
    return pattern + " ".join(map(literal, found[limit:]))


def _result_at(found: Sequence[str]) -> int | None:
    """Where in an equation its result begins; None if it is none."""
    if "=" not in found[1:-1] or not any(shape(word) == "<sign>" and word != "=" for word in found):
        return None
    return len(found) - found[::-1].index("=")
