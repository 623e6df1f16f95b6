"""Rules with `options`, against the real programs: no spelling of an option that is not listed gets through."""

from __future__ import annotations

import getopt
import os
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentscope_rx.errors import CommandDeniedError, ConfigurationError
from agentscope_rx.tools.shell import Rule, ShellTool, programs
from agentscope_rx.tools.shell.allowlist import MAX_PIECES, Options
from agentscope_rx.tools.shell.shell_words import MAX_COMMAND
from tests.support.assertions import in_cpu_time

FIND = Rule("find *", options=("-name", "-type", "-maxdepth"), paths=False)
TAR = Rule("tar *", options=("-x", "-t", "-c", "-v", "-f", "--file"), paths=False)
TAR_LIST = Rule("tar tf *", options=("-v",), paths=False)
SORT = Rule("sort *", options=("-n", "-k", "-r", "-T"), paths=False)
GREP = Rule("grep *", options=("-e", "-n", "-i"), paths=False)
LOG = Rule("git log *", options=("-n", "--oneline", "-[0-9]*"), paths=False)
GIT_GREP = Rule("git grep *", options=("-n", "-l"), paths=False)
REMOTE = Rule("git ls-remote *", options=(), paths=False)
DIFF = Rule("git diff *", options=("--no-index", "--stat"), paths=False)
ARCHIVE = Rule("git archive *", options=("--format",), paths=False)
CURL = Rule("curl -q *", options=("-s", "-S"), paths=False)
ZIP = Rule("zip *", options=("-q", "-T"), paths=False)
SPLIT = Rule("split *", options=("-l",), paths=False)
DD = Rule("dd *", options=("if=*", "bs=*"), paths=False)
AR = Rule("ar *", options=("-t",), paths=False)
GCC = Rule("gcc *", options=("-c",), paths=False)
UNKNOWN = Rule("some-program *", options=("-a", "-b", "--list"), paths=False)

LIVE: list[tuple[Rule, str]] = [
    *(
        (FIND, command)
        for command in (
            "find . -maxdepth 0 -exec ./evil ';'", "find -- . -maxdepth 0 -exec ./evil ';'",
            "find . -maxdepth 0 -execdir {root}/evil ';'", "find . '(' -exec ./evil ';' ')'",
            "find . '!' -exec ./evil ';'", "find . -maxdepth 0 , -exec ./evil ';'", "find -exec ./evil ';'",
            "find . -name data -exec ./evil '{{}}' +", "find . -maxdepth 0 -fprint marker", "find . -fls marker",
            "find . -maxdepth 0 -fprint0 marker", "find . -maxdepth 0 -fprintf marker x", "find -H . -fls marker",
            "find -O3 . -fls marker", "find victim -delete", "find -- victim -delete",
        )
    ),
    *(
        (TAR, command)
        for command in (
            "tar -x -f x.tar --to-command=./evil", "tar -x -f x.tar --to-com=./evil", "tar xf x.tar --to-c ./evil",
            "tar -t -I ./evil -f x.tar", "tar -tvI./evil -f x.tar", "tar tIf ./evil x.tar", "tar tvIf ./evil x.tar",
            "tar -t --use-compress-program=./evil -f x.tar", "tar -t --use-c ./evil -f x.tar",
            "tar -cf y.tar data --checkpoint=1 --checkpoint-action=exec=./evil",
            "tar cf y.tar data --checkpoint=1 --checkpoint-ac=exec=./evil", "tar cf y.tar victim --remove-f",
            "tar -t --rsh-command={root}/evil -f localhost:x", "tar tf localhost:x --rsh={root}/evil",
            "tar cf y.tar victim --remove-files", "tar -xvf x.tar --to-c=./evil",
        )
    ),
    *(
        (TAR_LIST, command)
        for command in ("tar tf x.tar -I./evil", "tar tf x.tar -vI ./evil", "tar tf x.tar --use-comp=./evil")
    ),
    *(
        (SORT, command)
        for command in (
            "sort -o marker data", "sort -omarker data", "sort -nomarker data", "sort --output=marker data",
            "sort --outp marker data", "sort data --o=marker", "sort data -ro marker", "sort -T -- -o marker data",
            "sort -k 1 -nro marker data",
        )
    ),
    *(
        (GREP, command)
        for command in (
            "grep -e zzz -f patterns data", "grep -e zzz -fpatterns data", "grep -nfpatterns data",
            "grep -inf patterns data", "grep --file=patterns data", "grep --file patterns data",
            "grep -e -- -f patterns data", "grep -e -- --file=patterns data", "grep data --file=patterns",
        )
    ),
    *(
        (LOG, command)
        for command in (
            "git log --output=marker", "git log --oneline --output marker",
            "git log -p --ext-diff", "git log -1 -p --ext-diff", "git log -n 1 --output=marker",
        )
    ),
    *(
        (GIT_GREP, command)
        for command in (
            "git grep -O./evil leak", "git grep -nO./evil leak", "git grep -lO./evil leak",
            "git grep --open-files-in-pager=./evil leak", "git grep --open=./evil leak",
        )
    ),
    *(
        (REMOTE, command)
        for command in (
            "git ls-remote --upload-pack=./evil .", "git ls-remote --upload-pa=./evil .",
            "git ls-remote --exec=./evil .", "git ls-remote --exec ./evil .", "git ls-remote --upload-pack ./evil .",
        )
    ),
    *(
        (DIFF, command)
        for command in (
            "git diff --no-index --output=marker data x.c", "git diff --no-index --output marker data x.c",
            "git diff --ext-diff HEAD~1", "git diff HEAD~1 --output=marker",
        )
    ),
    *(
        (ARCHIVE, command)
        for command in (
            "git archive --format=tar --output=marker HEAD", "git archive -omarker HEAD",
            "git archive HEAD -o marker", "git archive --remote=. --exec=./evil HEAD",
        )
    ),
    *(
        (CURL, command)
        for command in (
            "curl -q -o marker file://{root}/data", "curl -q -so marker file://{root}/data",
            "curl -q -sSomarker file://{root}/data", "curl -q --output marker file://{root}/data",
            "curl -q -K config", "curl -q -sKconfig", "curl -q --config config",
        )
    ),
    *(
        (ZIP, command)
        for command in (
            "zip -q y.zip data -T -TT ./evil", "zip -q -T -TT ./evil y.zip data",
            "zip -q y.zip data -T --unzip-command ./evil", "zip -qm y.zip victim", "zip -q -m y.zip victim",
        )
    ),
    *(
        (SPLIT, command)
        for command in ("split --filter=./evil data", "split --filt ./evil data", "split -l 1 data --fi=./evil")
    ),
    (DD, "dd if=data of=marker"),
    *((AR, command) for command in ("ar rc marker data", "ar -rc marker data", "ar @answers", "ar @more")),
    *(
        (GCC, command)
        for command in (
            "gcc -c -wrapper ./evil x.c", "gcc -c x.c -o marker", "gcc -c x.c -omarker", "gcc @answers-of-gcc",
            "gcc -B./ -c x.c",
        )
    ),
]  # fmt: skip
"""A rule that does not list the option, and a command with which the real program does what the option is for."""

NOT_LIVE: list[tuple[Rule, str]] = [
    *(
        (UNKNOWN, f"some-program {words}")
        for words in (
            "-x", "-ab", "-ax", "-a=x", "--lis", "--list2=x", "-- -x", "--", "+x", "@x", "x -x", "-a -x", "--list -x",
            "---list", "-A", "x --output", "-xlist",
        )
    ),
    (Rule("/opt/some-program *", options=("-a",)), "/opt/some-program -b"),
    (Rule("git show * --stat", options=("--stat",)), "git show --ext-diff --stat"),
    (Rule("head -n * x", options=()), "head -n -v x"),
    (Rule("ls -* x", options=("-l",)), "ls -R x"),
    (Rule("tar * x", options=("-t",)), "tar xf x"),
    (Rule("ps *", options=("aux",)), "ps e"),
    (Rule("ls *", options=("-l", "-a")), "ls -l -- -R"),
    (Rule("ls *", options=("--color",)), "ls --colo"),
    (Rule("head *", options=("-[0-9]*",)), "head -5v"),
    (Rule("grep *", options=("-[0-9]*", "-n")), "grep -5fpatterns x"),
]  # fmt: skip


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A folder with what the options work on: a program that leaves a marker, an archive, a repository."""
    for name, text in {
        "evil": "#!/bin/sh\n: > {root}/marker\n", "data": "leak\n", "victim": "", "patterns": "leak\n",
        "x.c": "int x;\n",
        "config": "url = file://{root}/data\noutput = marker\n", "answers": "rc marker data\n", "more": "p\nx.a\n",
        "answers-of-gcc": "-c x.c -o marker\n",
    }.items():  # fmt: skip
        (tmp_path / name).write_text(text.replace("{root}", str(tmp_path)))
    (tmp_path / "evil").chmod(0o755)
    # what gcc runs with -B
    (tmp_path / "as").symlink_to("evil")
    for command in (
        "tar cf x.tar data", "ar rc x.a data", "git init -q .", "git add data", "git commit -q -m one", "git add x.c",
        "git commit -q -m two", "git config diff.external ./evil",
    ):  # fmt: skip
        _run(tmp_path, command)
    return tmp_path


def _run(root: Path, command: str) -> str:
    words = shlex.split(command)
    if shutil.which(words[0]) is None:
        return ""
    env = {"PATH": os.environ["PATH"], "HOME": str(root), "GIT_CONFIG_NOSYSTEM": "1", "LANG": "C"}
    env |= {f"GIT_{who}_{what}": "a@b.example" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    done = subprocess.run(words, cwd=root, env=env, capture_output=True, stdin=subprocess.DEVNULL, check=False)
    return done.stdout.decode(errors="replace")


def _refused(root: Path, rule: Rule, command: str) -> None:
    with pytest.raises(CommandDeniedError, match="is, or may be, an option"):
        ShellTool(root, [rule])._checked(command, ".")


@pytest.mark.parametrize(("rule", "command"), LIVE, ids=lambda each: str(each)[:60])
def test_a_spelling_that_the_program_knows_is_refused(root: Path, rule: Rule, command: str) -> None:
    command = command.format(root=root)
    _refused(root, rule, command)
    output = _run(root, command)
    if shutil.which(shlex.split(command)[0]) is not None:
        # otherwise this would be a test of nothing
        assert (root / "marker").exists() or not (root / "victim").exists() or "leak" in output


@pytest.mark.parametrize(("rule", "command"), NOT_LIVE, ids=lambda each: str(each)[:60])
def test_what_may_be_an_option_is_refused(tmp_path: Path, rule: Rule, command: str) -> None:
    _refused(tmp_path, rule, command)


@pytest.mark.parametrize(
    ("rule", "command"),
    [
        (FIND, "find . -maxdepth 2 '(' -name '*.py' ')' '!' -type d"),
        (TAR, "tar tf x.tar"),
        (TAR, "tar -tvf x.tar"),
        (TAR, "tar -tvfx.tar data"),
        (TAR, "tar xvf x.tar --file=y.tar"),
        (SORT, "sort -nr -k2 data"),
        (SORT, "sort -nrk 2 -- data"),
        (GREP, "grep -in leak data"),
        (GREP, "grep -e-f data"),
        (LOG, "git log --oneline -10 -n 3 HEAD -- data"),
        (LOG, "git log -n3"),
        (CURL, "curl -q -sS https://host.example/x"),
        (DD, "dd if=data bs=1k"),
        (UNKNOWN, "some-program -a -b --list --list=x x - y"),
        (Rule("tail *", options=("-n", "-c")), "tail -n5 -n +3 x"),
        (Rule("date *", options=("-u",)), "date -u +%s"),
        (Rule("some-program *", options=("-time=*", "-[0-9]")), "some-program -time=5s -3"),
        (Rule("some-program *", options=("--", "@*")), "some-program @x --"),
        (Rule("ps *", options=("aux",)), "ps aux"),
        (Rule("python3 -m unittest *", options=("-v",)), "python3 -m unittest -v tests.a"),
        (Rule("git -C sub log *", options=("-p",)), "git -C sub log -p"),
        (Rule("docker ps *", options=("-a",)), "docker ps -a"),
    ],
    ids=str,
)
def test_what_is_listed_is_admitted(tmp_path: Path, rule: Rule, command: str) -> None:
    assert ShellTool(tmp_path, [rule])._checked(command, ".") == tuple(shlex.split(command))


@pytest.mark.parametrize(
    ("pattern", "options", "says"),
    [
        *((f"{name} *", (), "cannot be enforced") for name in sorted(programs.BY_OPERANDS)),
        *(
            (f"{name} {command} *", (), "Write the words out")
            for name, commands in programs.BY_COMMAND.items()
            for command in sorted(commands)
        ),
        *((f"{name} *", (), "depends on the command") for name in programs.BY_COMMAND),
        ("python3.12 -B *", (), "runs the code"),
        ("/usr/bin/env -i *", (), "runs the program"),
        ("python3 *", ("-m",), "runs the code"),
        ("bash x[0-9].sh", (), "runs the code"),
        ("python3 -m * x", (), "runs the code"),
        ("git -c * log", (), "depends on the command"),
        ("git --no-pager *", (), "depends on the command"),
        ("npm -s test *", (), "depends on the command"),
        ("tar *", ("-x", "-T"), "holds further options"),
        ("tar *", ("--files-*",), "holds further options"),
        ("curl -q *", ("-K",), "holds further options"),
        ("curl *", ("-s",), "from a file in HOME"),
        ("wget *", ("-q",), "from a file in HOME"),
        ("ls *", ("-*",), "every option"),
        ("ls *", ("--*",), "every option"),
        ("ls *", ("*",), "every option"),
        ("ls *", ("-?",), "every option"),
        ("ls *", ("l",), "does not begin like an option"),
        ("ls *", ("",), "are text"),
        ("ls *", (1,), "are text"),
        ("ls *", ("-n*",), "as letters"),
        ("ps *", ("*",), "every word"),
        ("some-program *", ("-[0-9]*",), "not known"),
        ("some-program *", ("-n*",), "not known"),
    ],
)
def test_options_that_promise_nothing_are_an_error(pattern: str, options: tuple[str, ...], says: str) -> None:
    with pytest.raises(ConfigurationError, match=says):
        Rule(pattern, options=options)


def test_a_rule_without_open_words_promises_anything() -> None:
    assert Rule("bash run.sh", options=()).options == ()
    assert Rule("git bisect log", options=()).runs_any is None


@pytest.mark.parametrize(
    ("rule", "why"),
    [
        ("python3 *", "runs the code"),
        ("/usr/bin/bash *", "runs the code"),
        ("xargs *", "runs the program"),
        ("git *", "has commands"),
        ("git bisect *", "'git bisect' runs programs"),
        ("find *", "-exec"),
        ("pytest *", "files of the project"),
        ("python3 -m pytest *", "files of the project"),
        (Rule("find *", deny=("-exec*",)), "-exec"),
        ("sed -n *", "commands of its own"),
        (FIND, None),
        (TAR, None),
        ("git log *", None),
        ("ls *", None),
        ("bash run.sh", None),
    ],
)
def test_a_rule_says_that_it_lets_any_program_run(rule: Rule | str, why: str | None) -> None:
    said = Rule.of(rule).runs_any
    assert said is None if why is None else why in str(said)


def test_the_page_lists_programs_that_run_programs() -> None:
    page = (Path(__file__).parents[2] / "docs" / "reference" / "commands.md").read_text()
    section = page.partition("## Programs that run programs")[2].partition("\n## ")[0]
    listed = set(section.replace("`", " ").replace(",", " ").split())
    tables = (programs.BY_OPERANDS, programs.BY_OPTIONS, programs.BY_COMMAND, programs.BY_FILES)
    assert {name for table in tables for name in table} <= listed
    assert {command for commands in programs.BY_COMMAND.values() for command in commands} <= listed


LETTERS, LONG = "abcxy19", ("list", "listing", "long", "output", "exec")
WORDS = st.one_of(
    st.sampled_from(["--", "-", "x", "", "--list", "--list=x", "--l", "--o=x", "--lis", "--listing", "--exec", "--lo"]),
    st.text(st.sampled_from("-=" + LETTERS), max_size=5),
    st.text(st.sampled_from(LETTERS), min_size=1, max_size=3).map("-{}".format),
)


@given(
    st.lists(WORDS, max_size=6),
    st.sets(st.sampled_from(LETTERS)),
    st.sets(st.sampled_from(LETTERS)),
    st.sets(st.sampled_from(LONG)),
    st.sets(st.sampled_from(LONG)),
    st.booleans(),
    st.sampled_from(["ls", "some-program"]),
)
def test_getopt_sees_listed_options_only(
    words: list[str],
    letters: set[str],
    with_value: set[str],
    long: set[str],
    long_with_value: set[str],
    permuted: bool,
    program: str,
) -> None:
    """Law: of admitted words getopt, with abbreviations, reads listed options alone, whichever of them take values."""
    listed = tuple(sorted([*(f"-{each}" for each in letters), *(f"--{each}" for each in long)]))
    options = Options("a rule", (program,), listed, is_open=True)
    if options.refused((program, *words)) is not None:
        return
    short = "".join(each + ":" * (each in with_value) for each in LETTERS)
    longs = [each + "=" * (each in long_with_value) for each in LONG]
    try:
        read, _ = (getopt.gnu_getopt if permuted else getopt.getopt)(words, short, longs)
    except getopt.GetoptError:
        return
    assert {name for name, _ in read} <= set(listed)


# --- paths in arguments -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "command",
    [
        "cp -taway data", "cp -rtaway data", "cp -t away data", "ls https://x/../../y", "ls --a=https://x,/etc/passwd",
        "ls https://x,away",
    ],
)  # fmt: skip
def test_a_path_that_is_glued_to_something_is_seen(tmp_path: Path, command: str) -> None:
    (tmp_path / "away").symlink_to("/")
    with pytest.raises(CommandDeniedError, match=r"link|'\.\.'|out of the working"):
        ShellTool(tmp_path, ["cp *", "ls *"])._checked(command, ".")


@pytest.mark.parametrize(
    "words",
    [
        "=".join(f"{n:x}" for n in range(3_900)), " ".join("x" * 7_000), "-" + "x" * 15_000, "x " + "/a" * 7_500,
        " ".join(["=a,b:c@d"] * 1_700), "-" + "a-" * 7_000, " ".join(["-abcdefgh"] * 1_500), "@" * 15_000,
    ],
    ids=lambda each: each[:20],
)  # fmt: skip
def test_a_long_command_is_checked_in_bounded_time(tmp_path: Path, words: str) -> None:
    rules = ["cp *", Rule("cp *", options=("-a",)), Rule("cp *", deny=("*a*b*c*d*e*f*", "-*a*[bc]*?d"))]
    tool = ShellTool(tmp_path, rules)
    command = f"cp {words}"
    assert len(command) <= MAX_COMMAND
    assert MAX_PIECES <= 5_000

    def said() -> str:
        try:
            tool._checked(command, ".")
        except CommandDeniedError as error:
            return str(error)
        return ""

    assert len(in_cpu_time(said, 1.0)) < 1_000


@pytest.mark.parametrize(
    "word",
    [".agentscope/permissions.json", "./.AgentScope/x", "--output=.agentscope/permissions.json", "-o.agentscope/x"],
)
def test_commands_name_nothing_in_the_librarys_own_folder(tmp_path: Path, word: str):
    shell = ShellTool(tmp_path, allow=["tee *"])
    (tmp_path / ".agentscope").mkdir()
    with pytest.raises(CommandDeniedError):
        shell._checked(f"tee {word}", ".")
