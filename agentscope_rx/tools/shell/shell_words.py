"""`parsed`: a command line as the arguments of one program. What a shell would do something with is denied, with why.

| written                               | answer                                                    |
|---------------------------------------|-----------------------------------------------------------|
| `git log -n 3 'a b' "c d" e\\ f`      | `("git", "log", "-n", "3", "a b", "c d", "e f")`          |
| `a; b`, `a | b`, `a && b`, `a &`      | denied: one command at a time                             |
| `a > f`, `a < f`                      | denied: nothing is redirected                             |
| `$HOME`, `$(a)`, `` `a` ``, `"$HOME"` | denied: nothing is expanded                               |
| `*.py`, `a?`, `{a,b}`, `~/x`          | denied: nothing is expanded                               |
| `A=1 a`                               | denied: the environment is fixed                          |
| all of these in single quotes         | as they are                                               |

No shell runs what is parsed, so nothing depends on getting one's rules right: what is denied would just not do what the
model thinks that it does. Unquoted it is what `sh` makes of it, and `shlex.split`.
"""

from __future__ import annotations

import re
import unicodedata

from agentscope_rx.errors import CommandDeniedError

MAX_COMMAND = 16_000

_ONE = "Only one command runs at a time, without a shell: call the tool once for each"
_PLAIN = "Nothing is expanded: write it out, or put it in single quotes if it is meant as it is"
_MEANINGS = {
    **dict.fromkeys(";&|\n\r", ("joins commands", _ONE)),
    **dict.fromkeys(
        "<>", ("redirects", "Nothing is redirected: the output is the result, and files have their own tools")
    ),
    **dict.fromkeys("$`", ("is a variable or a command within the command", _PLAIN)),
    **dict.fromkeys("()", ("is a subshell", _ONE)),
    **dict.fromkeys("*?[", ("is a pattern of file names", _PLAIN)),
    **dict.fromkeys("{}", ("is a choice of words", _PLAIN)),
}
_FIRST = {
    "#": ("begins a comment", "Leave it out, or put it in single quotes"),
    "~": ("is somebody's home folder", _PLAIN),
    "!": ("negates, or repeats an earlier command", "Leave it out, or put it in single quotes"),
}
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*(\[.*\])?\+?=")


def parsed(command: str) -> tuple[str, ...]:
    """The program and its arguments; `CommandDeniedError` for what only a shell could run."""
    if len(command) > MAX_COMMAND:
        raise denied(command, f"It is longer than {MAX_COMMAND} characters. Put long input into a file")
    for each in command:
        if unicodedata.category(each) in ("Cc", "Cs") and each not in "\t\n\r":
            raise denied(command, f"It has {each!r} in it, which no command line can have")
    words = tuple(_Words(command).all())
    if not words:
        raise denied(command, "It is empty. Give a program and its arguments")
    if _ASSIGNMENT.match(words[0]):
        raise denied(command, f"{words[0]!r:.80} sets a variable. The environment is fixed: begin with the program")
    if not words[0]:
        raise denied(command, "The name of the program is empty")
    return words


def denied(command: str, why: str) -> CommandDeniedError:
    """The error that says why a command has not run."""
    text = command if len(command) <= 200 else f"{command[:197]}..."
    return CommandDeniedError(f"The command {text!r} is not allowed and has not run. {why}.", command=command)


class _Words:
    """Reads a command line from left to right."""

    def __init__(self, command: str) -> None:
        self._command = command
        self._at = 0

    def all(self) -> list[str]:
        words: list[str] = []
        while True:
            while self._peek() in (" ", "\t"):
                self._at += 1
            if not self._peek():
                return words
            words.append(self._word())

    def _peek(self) -> str:
        return self._command[self._at : self._at + 1]

    def _next(self) -> str:
        each = self._peek()
        self._at += 1
        return each

    def _word(self) -> str:
        if meaning := _FIRST.get(self._peek()):
            raise self._denied(self._peek(), *meaning)
        taken: list[str] = []
        while (each := self._peek()) and each not in " \t":
            self._at += 1
            if each == "'":
                taken.append(self._single())
            elif each == '"':
                taken.append(self._double())
            elif each == "\\":
                taken.append(self._escaped())
            elif meaning := _MEANINGS.get(each):
                raise self._denied(each, *meaning)
            elif each == "~" and taken and taken[-1][-1:] in ("=", ":"):
                raise self._denied(each, *_FIRST["~"])
            else:
                taken.append(each)
        return "".join(taken)

    def _single(self) -> str:
        end = self._command.find("'", self._at)
        if end < 0:
            raise denied(self._command, "A single quote (') is not closed")
        text = self._command[self._at : end]
        self._at = end + 1
        return text

    def _double(self) -> str:
        taken: list[str] = []
        while each := self._next():
            if each == '"':
                return "".join(taken)
            if each in "$`":
                raise self._denied(each, *_MEANINGS[each])
            if each == "\\" and self._peek() in ("$", "`", '"', "\\", "\n"):
                taken.append(self._escaped())
            else:
                taken.append(each)
        raise denied(self._command, 'A double quote (") is not closed')

    def _escaped(self) -> str:
        each = self._next()
        if not each:
            raise denied(self._command, "It ends with a backslash")
        if each in "\n\r":
            raise denied(self._command, "A backslash at the end of a line does not continue it: write it on one line")
        return each

    def _denied(self, what: str, meaning: str, hint: str) -> CommandDeniedError:
        return denied(self._command, f"To a shell {what!r} {meaning}. {hint}")
