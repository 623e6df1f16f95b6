"""Commands that are tried against the shell tool: hostile ones, and harmless ones that look hostile."""

from __future__ import annotations

RULES = [
    "cat *", "ls *", "echo *", "git log *", "git status", "head -n * README.md", "cat docs/*.md", "touch *", "cp *",
    "env",
]  # fmt: skip
"""What is allowed while these are tried."""

_ONE_AT_A_TIME = [
    "ls; id", "ls ;id", "ls;", ";ls", "ls && id", "ls&&id", "ls || id", "ls | cat", "ls|sh", "ls |& cat", "ls & id",
    "ls &", "&ls", "ls\nid", "ls\r\nid", "ls\rid", "ls \\\n-l", "(ls)", "(ls;id)", "{ ls; }", "{ls,-l}", "echo a;id",
    'echo "a";id', "echo 'a';id", "echo a\\\\;id", "echo ''|id", "ls # ; id", "#ls", "! ls", "!!", "!ls", "ls ;; id",
    "time ls; id", "ls;;", "coproc ls & id", "echo x{a,b}", "echo {1..3}", "for f in a; do ls; done",
    "if ls; then id; fi", "while ls; do id; done", "case a in a) ls;; esac", "f() { ls; }", "function f { ls; }",
    "[[ -f x ]] && ls", "ls $((1+1))", "((1))", "A[0]=1 ls",
]  # fmt: skip
_REDIRECTED = [
    "ls > ../x", "ls >../x", "ls >> ../x", "ls 2> ../x", "ls &> ../x", "ls 2>&1", "cat < ../secret.txt",
    "cat <../secret.txt", "cat <<EOF", "cat <<< x", "cat <(ls)", "ls >(cat)", "ls >| x", "ls <> x", ">../x",
    ">../x ls", "< ../secret.txt cat", "echo a>../x", "echo a 1>../x", "cat 0<../secret.txt", "ls > 'x'", 'ls > "x"',
]  # fmt: skip
_EXPANDED = [
    "echo $HOME", "echo ${HOME}", "echo $(id)", "echo `id`", 'echo "$HOME"', 'echo "${HOME}"', 'echo "$(id)"',
    'echo "`id`"', "echo $$", "echo $?", "echo $1", "echo $'\\x41'", 'echo $"x"', "echo a$", "$(id)", "`id`", "$SHELL",
    "${IFS}ls", "ls${IFS}-l", "l$@s", "echo $CANARY", 'echo "$CANARY"', "echo ${CANARY:-x}", "echo ${!C*}", "cat *",
    "cat *.md", "ls ?", "ls [a-z]*", "ls docs/*", "cat */*", "echo a[0]", "cat ~/.bashrc", "cat ~", "ls ~root",
    "ls ~+", "ls --dir=~/x", "ls a:~/x", 'echo "a"*', "echo 'a'$HOME", "echo \\\\$HOME", "cat README.{md,txt}",
    'cat "README.md"*', "echo \"'$HOME'\"", "echo \"\\\\$HOME\"", "echo ''$'\\n'",
]  # fmt: skip
_ASSIGNED = [
    "A=1 ls", "PATH=. ls", "LD_PRELOAD=./x.so ls", "IFS=x", "A=1", "a+=1 ls", "GIT_PAGER=id git log", "HOME=/ ls",
    "A= ls", "'A=1' ls", "_=1 ls",
]  # fmt: skip
_OTHER_PROGRAMS = [
    "id", "rm -rf .", "sudo ls", "sh -c id", "bash -c 'ls'", "python -c 'import os'", "/bin/ls", "/bin/cat README.md",
    "./ls", "../ls", "bin/ls", "LS", "Ls", "ls.exe", "l's'x", "lsx", "l", "git", "git commit -m x", "git push",
    "git -c core.pager=id log", "git --exec-path=. log", "git -C .. log", "git logx", "git status -s",
    "git  status --porcelain", "xargs ls", "nohup ls", "env ls", "env -i ls", "busybox ls", "cd ..", "cd docs",
    "export A=1", "source x", ". x", "eval ls", "exec ls", "alias ls=id", "trap id EXIT", "set -x", "ulimit -a",
    "kill 1", "true", "''", '""', "'' ls", "' ls'", "'ls '", "'ls -l'", '"ls -l"', "ls\u00a0-l", "\u200bls",
    "ls\u3000-l", "ｌｓ", "lѕ", "\ufeffls", "head -n 1 docs/index.md", "head -n 1 README.md x", "head README.md",
    "head -n 1 2 README.md",
]  # fmt: skip
_ELSEWHERE = [
    "cat /etc/passwd", "cat ../secret.txt", "cat docs/../../secret.txt", "cat '/etc/passwd'", 'cat "/etc/passwd"',
    "cat \\/etc/passwd", "cat /et'c'/passwd", "cat .'.'/secret.txt", "cat .\\./secret.txt", 'cat ".."/secret.txt',
    "cat '~/.bashrc'", "cat \\~/x", "ls ..", "ls /", "ls -la ..", "ls -la /", "ls docs/..", "cat link.txt",
    "cat away/secret.txt", "cat ./away/secret.txt", "cat docs/deep/secret.txt", "cat up/secret.txt",
    "cat inner/index.md", "cat 'link.txt'", "ls away", "ls abs", "cat proc/self/environ", "cat .env",
    "cat .git/config", "cat ./.git/config", "cat .GIT/config", "cat docs/.env", "cp README.md ../stolen.txt",
    "cp README.md /tmp/stolen.txt", "cp README.md away/stolen.txt", "cp ../secret.txt x", "cp -t .. README.md",
    "cp -t.. README.md", "cp --target-directory=.. README.md", "cp --target-directory=/tmp README.md",
    "cp -t/tmp README.md", "touch ../x", "touch -r/etc/passwd x", "touch --reference=../secret.txt x", "touch away/x",
    "git log --output=/tmp/x", "git log --output=../x", "git log --output ../x", "git log -- ../x",
    "git log HEAD:../x", "ls -I/etc", "ls @/etc/passwd", "cat file:///etc/passwd", "cat a:/etc/passwd",
    "cat a,/etc/passwd", "cat a=/etc/passwd", "cat a=../secret.txt", "cat -- /etc/passwd", "cat -- ../secret.txt",
    "cat docs/../../../secret.md", "ls -l -- ..", "cat 'C:\\x'", "cat '\\\\server\\x'", "cat '..\\secret.txt'",
    "cat docs/../secret.md",
]  # fmt: skip
_BROKEN = [
    "", " ", "\t", "  \t ", "'", '"', "ls 'a", 'ls "a', "ls \\", "ls 'a\\'b'", "ls \0", "ls a\0b", "ls \x1b[2J",
    "ls \x07", "\ud800",
]  # fmt: skip
_LONG = ["ls " + "a" * 20_000, "x" * 20_000, "ls" + " a" * 20_000]
COMMANDS: list[tuple[str, str]] = [
    *(
        (command, "shell|not closed|backslash|variable|character")
        for command in (*_ONE_AT_A_TIME, *_REDIRECTED, *_EXPANDED)
    ),
    *((command, "sets a variable") for command in _ASSIGNED),
    *((command, "Allowed are|name of the program is empty|exit code|no program") for command in _OTHER_PROGRAMS),
    *((command, "out of|'\\.\\.'|symbolic link|out of bounds|no file") for command in _ELSEWHERE),
    *((command, "empty|not closed|backslash|has '|Allowed are") for command in _BROKEN),
    *((command, "longer") for command in _LONG),
]
"""A command, and a pattern of what must be said of it."""

HARMLESS: list[tuple[str, str]] = [
    ("echo 'a; b | c > d'", "a; b | c > d"), ('echo "a; b"', "a; b"), ("echo a\\;b", "a;b"), ("echo 'x'\"y\"z", "xyz"),
    ("echo '$HOME'", "$HOME"), ("echo \"it's\"", "it's"), ("echo 'a*b' '?'", "a*b ?"), ("echo a#b", "a#b"),
    ("echo a~", "a~"), ("echo ''", ""), ("  ls   docs  ", "index.md"), ("echo 'two\nlines'", "two\nlines"),
    ("cat docs/index.md", "see hooks"), ("head -n 1 README.md", "# Read me"), ("echo \\$HOME", "$HOME"),
    ('echo "\\$HOME"', "$HOME"), ("echo 'a'\\''b'", "a'b"), ("echo a!", "a!"), ("ls -1 .", "README.md"),
    ("cat -- README.md", "Bananas"),
]  # fmt: skip
"""A command that looks like the others and is allowed, and what it writes."""
