"""Tables of known programs: how they read their words (`syntax_of`), and which of them run others (`runs_any`).

An unlisted program gets the strictest reading: each word that begins with `-`, `+` or `@` is an option and is compared
as it stands, also behind `--`. The tables were compared with the GNU, BSD and busybox programs; where these differ, the
stricter reading is listed.

| kind           | a rule such as `P *` runs any program, because      | with `options`                              |
|----------------|-----------------------------------------------------|---------------------------------------------|
| `BY_OPERANDS`  | its operands are programs, code or their settings   | refused: they would promise nothing         |
| `BY_OPTIONS`   | some of its options run programs                    | promised                                    |
| `BY_COMMAND`   | some of its commands run programs                   | promised if the pattern names another one   |
| `BY_FILES`     | it runs files that a tool may have written          | promised, of the words; the files stay open |
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import replace

from agentscope_rx.frozen_values import dataclass


@dataclass(frozen=True, slots=True)
class Syntax:
    """How a program reads the words behind its name."""

    letters: bool = False
    """`-la` is `-l -a`, and `--` ends the options."""
    values: str = ""
    """Letters that take the rest of their word as a value: `-n5`."""
    starts: str = "-"
    """A word that begins with one of these is an option."""
    bundle: bool = False
    """The first word is letters without a dash: `tar cf`."""
    every_word: bool = False
    """Each word is an option: `ps aux`, `dd if=x`."""
    operators: frozenset[str] = frozenset()
    """Words that are always allowed: the brackets of `find`."""
    known: bool = True


def _table(text: str, why: str) -> dict[str, str]:
    return dict.fromkeys(text.split(), why)


BY_OPERANDS: Mapping[str, str] = {
    **_table(
        "sh bash dash zsh ksh mksh fish csh tcsh ash rbash pwsh powershell cmd wscript cscript python pypy ipython "
        "perl ruby irb node nodejs deno bun php lua luajit tclsh wish expect rscript r julia java jshell groovy "
        "kotlin scala erl escript elixir iex ghci runghc ocaml guile racket sbcl clisp octave gnuplot osascript",
        "runs the code that it is given",
    ),
    **_table(
        "env xargs sudo doas su runuser setpriv nohup nice ionice chrt taskset timeout time stdbuf unbuffer setsid "
        "setarch chroot unshare nsenter firejail bwrap proot fakeroot strace ltrace gdb lldb valgrind perf watch "
        "parallel flock script busybox toybox systemd-run start-stop-daemon daemonize at batch crontab entr screen "
        "tmux run-parts command exec eval watchexec dbus-run-session xvfb-run ld.so ssh-agent socat nc ncat netcat "
        "faketime direnv rlwrap",
        "runs the program that its arguments name",
    ),
    **_table(
        "awk gawk mawk nawk sed gsed m4 bc dc ed ex vi vim nvim view vimdiff rvim emacs nano pico joe less more most "
        "man info sqlite3 psql mysql mariadb ftp sftp telnet tex latex pdftex pdflatex xelatex lualatex latexmk",
        "has commands of its own that run programs or write files",
    ),
    **_table(
        "make gmake bmake nmake cmake ninja meson bazel gradle gradlew mvn ant rake just task scons invoke fab npx "
        "yarn bunx uvx pipx tox nox pre-commit hatch pdm ansible ansible-playbook vagrant terraform",
        "builds or starts what its arguments and the project's files name",
    ),
    **_table("ssh mosh scp rsync rsh rlogin", "starts programs on other machines, and local ones by its settings"),
    **_table(
        "apt apt-get aptitude dpkg rpm dnf yum zypper pacman apk brew port snap flatpak gem cpan luarocks easy_install",
        "installs programs, and runs their scripts",
    ),
}
BY_OPTIONS: Mapping[str, str] = {
    **_table("find gfind", "runs programs with -exec, and deletes and writes with -delete, -fprint and -fls"),
    **_table("fd fdfind", "runs programs with -x and -X"),
    **_table("tar gtar gnutar bsdtar star", "runs programs with --to-command, -I, --checkpoint-action and others"),
    **_table("zip", "runs programs with -TT"),
    **_table("cpio rg ctags strip-nondeterminism", "has options that run programs"),
    **_table("sort gsort", "runs programs with --compress-program"),
    **_table("split gsplit", "runs programs with --filter"),
    **_table("install", "runs programs with --strip-program"),
    **_table("curl", "reads and writes files by its options, and options from files"),
    **_table("wget", "runs programs with --use-askpass, and reads options from files"),
    **_table("gcc g++ cc c++ clang clang++ ld gold lld rustc javac ar nm objdump", "loads programs by its options"),
    **_table("svn hg diff3 sdiff", "runs programs by its options"),
}
BY_COMMAND: Mapping[str, frozenset[str]] = {
    name: frozenset(commands.split())
    for names, commands in (
        (
            "git",
            "bisect citool config credential daemon difftool filter-branch for-each-repo gui help hook instaweb "
            "mergetool send-email shell submodule",
        ),
        (
            "docker podman nerdctl",
            "run exec create build buildx builder compose container image stack service swarm plugin context import "
            "load",
        ),
        ("kubectl oc", "exec run debug apply create cp attach plugin patch replace edit set config kustomize alpha"),
        (
            "npm pnpm",
            "run run-script exec x dlx explore edit config set init create install i ci add update rebuild link",
        ),
        ("cargo", "run r install"),
        ("go", "run generate tool env install get"),
        ("uv", "run tool x pip add sync"),
        ("pip", "install wheel download config"),
        ("poetry", "run shell add install config"),
        ("bundle bundler", "exec install config"),
        ("composer", "exec run run-script require install update config global"),
        ("dotnet", "run exec tool msbuild"),
        ("conda mamba", "run install create config"),
        ("gh", "alias extension codespace config"),
        ("systemctl", "edit link start restart enable set-environment import-environment"),
    )
    for name in names.split()
}
BY_FILES: Mapping[str, str] = _table(
    "pytest py.test unittest jest vitest mocha rspec phpunit mypy pylint eslint prettier webpack vite tsc sphinx-build "
    "mkdocs",
    "runs files of the project, which a tool may have written",
)

OPTIONS_FROM_FILES: Mapping[str, frozenset[str]] = {
    **dict.fromkeys(("tar", "gtar", "gnutar", "bsdtar", "star"), frozenset({"-T", "--files-from"})),
    "curl": frozenset({"-K", "--config"}),
    "wget": frozenset({"-e", "--execute", "--config"}),
}
"""Options whose values hold further options."""
SETTINGS: Mapping[str, tuple[str, ...]] = {"curl": ("-q", "--disable"), "wget": ("--no-config",)}
"""The first word without which a program reads options from a file in HOME."""

_VALUES = {
    **dict.fromkeys(("grep", "egrep", "fgrep"), "ABCefm"),
    **dict.fromkeys(("head", "tail"), "cn"),
    "sort": "kt",
    "cut": "bcdf",
    "uniq": "fs",
    "git log": "n",
    "curl": "",
}
_LETTERS = _table(
    "ls dir vdir cat tac head tail wc grep egrep fgrep sort uniq cut tr comm join paste fold fmt nl rev column expand "
    "unexpand diff cmp diff3 sdiff cp mv rm mkdir rmdir touch ln stat file du df date basename dirname realpath "
    "readlink chmod chown chgrp md5sum sha1sum sha224sum sha256sum sha384sum sha512sum b2sum cksum sum base64 base32 "
    "od hexdump seq sleep tee tree split csplit shuf id whoami who uname hostname gzip gunzip zcat bzip2 bunzip2 "
    "bzcat xz unxz xzcat zstd zstdcat curl wget git echo printf pwd printenv locale install truncate sync tty users "
    "uptime free",
    "",
)
_SYNTAX: Mapping[str, Syntax] = {
    **{name: Syntax(letters=True, values=_VALUES.get(name, "")) for name in _LETTERS},
    # `sort +1 -2`, `uniq +1`: options of before POSIX
    **{name: Syntax(letters=True, values=_VALUES[name], starts="-+") for name in ("sort", "uniq")},
    "git log": Syntax(letters=True, values=_VALUES["git log"]),
    **dict.fromkeys(("find", "gfind"), Syntax(operators=frozenset({"(", ")", "!", ",", ";"}))),
    **dict.fromkeys(
        ("tar", "gtar", "gnutar", "bsdtar", "star"), Syntax(letters=True, values="Cf", starts="-@", bundle=True)
    ),
    **dict.fromkeys(("ar", "jar"), Syntax(letters=True, starts="-@", bundle=True)),
    **dict.fromkeys(("ps", "dd"), Syntax(every_word=True)),
}
UNKNOWN = Syntax(starts="-+@", known=False)

_GIT_VALUES = ("-C", "-c", "--git-dir", "--work-tree", "--namespace")


def named(tokens: tuple[str, ...]) -> tuple[str, tuple[str, ...]]:
    """The name under which a program is listed, and the words behind it; `python3 -m x` is `x`."""
    name = re.split(r"[/\\]", tokens[0])[-1].lower()
    name = re.sub(r"\.(?:exe|cmd|bat|com)$", "", name)
    if not _listed(name):
        # `python3.12`, `clang-15`
        plain = re.sub(r"-?\d[\d.]*$", "", name)
        name = plain if _listed(plain) else name
    if name in ("python", "pypy") and len(tokens) > 2 and tokens[1] == "-m" and not wild(tokens[2]):
        return tokens[2], tokens[3:]
    return name, tokens[1:]


def syntax_of(tokens: tuple[str, ...]) -> Syntax:
    """How the program of a rule reads its words."""
    name, rest = named(tokens)
    command = command_of(name, rest) if name in BY_COMMAND else None
    found = _SYNTAX.get(f"{name} {command}") or _SYNTAX.get(name) or UNKNOWN
    if os.name == "nt":
        return replace(found, starts=f"{found.starts}/")
    return found


def command_of(name: str, rest: tuple[str, ...]) -> str | None:
    """The subcommand that a pattern names, as `log` in `git log *`; None if the pattern allows several."""
    pending = list(reversed(rest))
    while pending:
        word = pending.pop()
        if wild(word):
            return None
        if not word.startswith("-"):
            return word
        if name != "git":
            return None
        if word in _GIT_VALUES and pending and wild(pending.pop()):
            return None
    return None


def runs_any(tokens: tuple[str, ...]) -> str | None:
    """Why an open rule for this program lets any program run; None if it is not known to."""
    name, rest = named(tokens)
    for table in (BY_OPERANDS, BY_OPTIONS, BY_FILES):
        if why := table.get(name):
            return f"{name} {why}"
    if name in BY_COMMAND:
        command = command_of(name, rest)
        if command is None:
            return f"{name} has commands that run programs"
        return f"'{name} {command}' runs programs" if command in BY_COMMAND[name] else None
    return None


def wild(token: str) -> bool:
    """True if a word of a rule is a pattern."""
    return bool(re.search(r"[*?\[]", token))


def _listed(name: str) -> bool:
    return name in _SYNTAX or any(name in table for table in (BY_OPERANDS, BY_OPTIONS, BY_COMMAND, BY_FILES))
