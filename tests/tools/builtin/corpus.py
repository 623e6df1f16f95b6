"""What is tried against the file and shell tools: paths that lead elsewhere, and commands that do something else.

In the workspace (see `fence.py`) `link.txt`, `away`, `docs/deep`, `up`, `abs`, `loop`, `proc` and `chain` are links out
of it (or in a circle), `inner` is a link within it, `pipe` a FIFO, `socket` a socket.
"""

from __future__ import annotations

ABSOLUTE = [
    "/etc/passwd", "//etc/passwd", "///etc//passwd", "/", "//", "/.", "/..", "/etc/../etc/passwd",
    "/proc/self/environ", "/proc/self/root/etc/passwd", "/proc/self/cwd/../secret.txt", "/proc/1/root", "/dev/null",
    "/dev/zero", "/dev/random", "/dev/stdin", "/dev/fd/0", "/dev/tty", "/dev/mem", "/tmp/new.txt",
    "/var/run/docker.sock", "/root/.ssh/id_rsa", "\\etc\\passwd", "\\\\server\\share\\x", "\\\\?\\C:\\x",
    "\\\\.\\PhysicalDrive0", "\\", "C:\\Windows\\win.ini", "C:/x", "c:x", "C:", "z:\\", "C:..\\x", "d:/../x",
    "{outside}/secret.txt", "{root}/../outside/secret.txt", "{root}", "{root}/docs/index.md", "{outside}", "{root}/",
]  # fmt: skip
PARENT = [
    "..", "../", "../..", "../secret.txt", "./..", "./../secret.txt", "docs/..", "docs/../..", "docs/../../secret.txt",
    "docs/../README.md", "docs/../docs/../../outside/secret.txt", "..//secret.txt", ".//..//secret.txt",
    "../root/README.md", "../../../../../../../../../../etc/passwd", "docs/./../../secret.txt",
    "nothing/../../secret.txt", "README.md/../x", "README.md/../../secret.txt", " ../secret.txt", "../secret.txt ",
    "docs/.. ", "docs/ ../x", "docs/ .. /x", "..\\secret.txt", "docs\\..\\..\\secret.txt", "docs/..\\..\\secret.txt",
    "..\\/secret.txt", "away/..", "away/../secret.txt", "inner/../../secret.txt", "docs/deep/../x", "../.git/config",
    "a/b/c/../../../../x", "..%2f/../x", "./.././x", "pipe/../x", "\\..", "~/../x",
]  # fmt: skip
HOME = [
    "~", "~/", "~/.ssh/id_rsa", "~root", "~root/.bashrc", "~nobody/x", "./~", "./~/x", "~+", "~-", "~+/x", "~1",
    "//~"[2:],
]  # fmt: skip
NAMES = [
    "a\0b", "\0", "README.md\0.txt", "../\0/x"[3:], "a\nb", "a\rb", "a\tb", "a\x1b[31mb", "a\x7fb", "a\x08b", "\x01",
    "a\x85b", "\ud800", "docs/\udfff.txt", "x" * 256, "docs/" + "x" * 256, "é" * 128, "/".join(["a"] * 300),
    "x" * 100_000, "CON", "con", "Con.txt", "docs/NUL", "nul.tar.gz", "aux", "aux.md", "PRN", "COM1", "com9.txt",
    "LPT1", "lpt3.x", "COM¹", "CONIN$", "conout$", "CLOCK$", "docs/aux/x", "con .txt", "README.md:stream",
    "README.md::$DATA", "docs:$I30:$INDEX_ALLOCATION", "a:b", "x.", "x..", "x...", "docs./index.md", "docs../index.md",
    "docs /index.md", "README.md. ", "...", ".../x", "....", "....//x", "docs\\index.md", "a\\b", "a<b", "a>b", "a|b",
    'a"b', "a?b", "a*b", "*", "PROGRA~1", "DOCUME~1/x", "GIT~1/config", "LONGNA~2.TXT", "\u2028" * 100, "a\u0000",
]  # fmt: skip
LINKS = [
    "link.txt", "./link.txt", "up", "up/secret.txt", "up/outside/secret.txt", "up/root/README.md", "away", "away/",
    "away/secret.txt", "away/new.txt", "away/./secret.txt", "away//secret.txt", "away/more/deeper.txt", "docs/deep",
    "docs/deep/secret.txt", "docs/deep/new/x.txt", "abs", "abs/secret.txt", "loop", "loop/x", "loop/loop", "chain",
    "chain/secret.txt", "proc", "proc/self/environ", "proc/self/cwd/README.md", "dangling", "dangling/x", "inner",
    "inner/index.md", "inner/new.txt", "inner/deep/secret.txt", "device", "nothing_outside",
]  # fmt: skip
SPECIAL = ["pipe", "./pipe", "docs/../pipe"[8:], "socket", "pipe/x", "socket/x"]
DENIED = [
    ".git", ".git/config", ".git/hooks/post-commit", "./.git/config", ".//.git//config", "docs/.git/config",
    ".GIT/config", ".Git/hooks/x", ".gi\u0074/config", ".g\u200cit/config", ".\u200bgit",
    ".ｇｉｔ/config", "\u202e.git",
    ".env", ".ENV", ".env.local", "docs/.env", ".ssh/id_rsa", ".SSH/x", "sub/.ssh/authorized_keys", ".envi\u200d"[:4],
    ".\u00adenv", ".git\ufeff/config",
]  # fmt: skip
INSIDE = [
    "README.md", "docs/index.md", "./docs//index.md", "docs/./index.md", "docs/", "docs//", ".", "", "./", "new.txt",
    "a/b/c/new.txt", "..a", "a..b", "docs/..x", ".hidden", "a b.txt", " README.md ", "é.txt", "e\u0301.txt",
    "．．/secret.txt", "‥/secret.txt", "%2e%2e/secret.txt", "%2e%2e%2fsecret.txt", "..%2fsecret.txt", "..%5csecret.txt",
    "%00", "..;/secret.txt", "....txt", "file~", "a~b", "~$doc.docx", "$HOME/x", "${HOME}", "$(id)", "`id`",
    "%USERPROFILE%", "-rf", "--help", "-", "\u2215etc\u2215passwd", "．", "😀.txt", "\u202etxt.exe", "#x", "!x", "a;b",
    "a&b", "'x'", "null", "undefined", "README.md/x", "README.md/", "con_fig", "conf", "auxiliary", "comma", "COM",
    "COM10", "lpt", "file:", "file:///etc/passwd", "https://x.example/y", "x" * 255, "nothing/at/all",
]  # fmt: skip
PATHS: list[tuple[str, str]] = [
    *((path, "absolute") for path in ABSOLUTE),
    *((path, "parent absolute") for path in PARENT),
    *((path, "home") for path in HOME),
    *((path, "name absolute parent") for path in NAMES),
    *((path, "link") for path in LINKS),
    *((path, "special missing exists") for path in SPECIAL),
    *((path, "denied") for path in DENIED),
    *((path, "") for path in INSIDE),
]
"""A path, and the reasons of which one must be given; none where it names something inside, or nothing."""

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
