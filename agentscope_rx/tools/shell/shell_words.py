"""`split_command`: a command line as the arguments of one program. Syntax that only a shell understands is denied.

| written                               | answer                                                    |
|---------------------------------------|-----------------------------------------------------------|
| `git log -n 3 'a b' "c d" e\\ f`      | `("git", "log", "-n", "3", "a b", "c d", "e f")`          |
| `a; b`, `a | b`, `a && b`, `a &`      | denied: one command at a time                             |
| `a > f`, `a < f`                      | denied: nothing is redirected                             |
| `$HOME`, `$(a)`, `` `a` ``, `"$HOME"` | denied: nothing is expanded                               |
| `*.py`, `a?`, `{a,b}`, `~/x`          | denied: nothing is expanded                               |
| `A=1 a`                               | denied: the environment is fixed                          |
| all of these in single quotes         | literal text                                              |

No shell runs the words, so safety does not depend on these rules: without them such a command would do something else
than the model expects. Accepted commands give the words that `shlex.split` gives. `shlex` itself cannot deny the
others: its tokens, with `punctuation_chars` too, no longer show which characters were quoted.
"""

from __future__ import annotations

import re
import unicodedata

from agentscope_rx.errors import CommandDeniedError

MAX_COMMAND = 16_000

_ONE = "Only one command runs at a time, without a shell: call the tool once for each"
_LITERAL = "Nothing is expanded: write it out, or put it in single quotes if it is meant literally"
_REASONS = {
    **dict.fromkeys(";&|\n\r", ("joins commands", _ONE)),
    **dict.fromkeys("<>", ("redirects", "Nothing is redirected: the result is the output, and files have tools")),
    **dict.fromkeys("$`", ("is a variable or a command within the command", _LITERAL)),
    **dict.fromkeys("()", ("is a subshell", _ONE)),
    **dict.fromkeys("*?[", ("is a pattern of file names", _LITERAL)),
    **dict.fromkeys("{}", ("is a choice of words", _LITERAL)),
    "#": ("begins a comment", "Leave it out, or put it in single quotes"),
    "~": ("is a home folder", _LITERAL),
    "!": ("negates, or repeats an earlier command", "Leave it out, or put it in single quotes"),
}
_UNFINISHED = {
    "'": "A single quote (') is not closed",
    '"': 'A double quote (") is not closed',
    "\\": "A backslash at the end of a line does not continue it: write the command on one line",
}
_TOKEN = re.compile(
    r"""(?P<space>[ \t]+)
      | '(?P<literal>[^']*)'
      | "(?P<quoted>(?:[^"\\]|\\.)*)"
      | \\(?P<escaped>[^\n\r])
      | (?P<plain>[^ \t\n\r'"\\;&|<>$`()*?\[{}#~!]+)
      | (?P<leading>[#~!])
      | (?P<refused>.)""",
    re.DOTALL | re.VERBOSE,
)
_IN_QUOTES = re.compile(r'\\([$`"\\\n])|([$`])')
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*(\[.*\])?\+?=")


def split_command(command: str) -> tuple[str, ...]:
    """The program and its arguments; `CommandDeniedError` for a command that needs a shell."""
    if len(command) > MAX_COMMAND:
        raise denied(command, f"It is longer than {MAX_COMMAND} characters. Put long input into a file")
    for each in command:
        if unicodedata.category(each) in ("Cc", "Cs") and each not in "\t\n\r":
            raise denied(command, f"It has {each!r} in it, which no command line can have")
    words = _split(command)
    if not words:
        raise denied(command, "It is empty. Give a program and its arguments")
    if _ASSIGNMENT.match(words[0]):
        raise denied(command, f"{words[0]!r:.80} sets a variable. The environment is fixed: begin with the program")
    if not words[0]:
        raise denied(command, "The name of the program is empty")
    return tuple(words)


def denied(command: str, reason: str) -> CommandDeniedError:
    """The error that says why a command was not run."""
    text = command if len(command) <= 200 else f"{command[:197]}..."
    return CommandDeniedError(f"The command {text!r} is not allowed and has not run. {reason}.", command=command)


def _split(command: str) -> list[str]:
    words: list[str] = []
    word: str | None = None
    for token in _TOKEN.finditer(command):
        kind = token.lastgroup or ""
        text = token[kind]
        if kind == "space":
            words += [] if word is None else [word]
            word = None
            continue
        if kind == "refused":
            raise denied(command, _UNFINISHED[text]) if text in _UNFINISHED else _refusal(command, text)
        if kind == "leading" and (word is None or (text == "~" and word.endswith(("=", ":")))):
            raise _refusal(command, text)
        word = (word or "") + (_unquoted(command, text) if kind == "quoted" else text)
    return words if word is None else [*words, word]


def _unquoted(command: str, text: str) -> str:
    """The text of double quotes: a backslash escapes four characters only, and nothing is expanded."""

    def plain(found: re.Match[str]) -> str:
        if found[2]:
            raise _refusal(command, found[2])
        if found[1] == "\n":
            raise denied(command, _UNFINISHED["\\"])
        return found[1]

    return _IN_QUOTES.sub(plain, text)


def _refusal(command: str, character: str) -> CommandDeniedError:
    meaning, hint = _REASONS[character]
    return denied(command, f"To a shell {character!r} {meaning}. {hint}")
