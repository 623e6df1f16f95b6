"""Paths that are tried against the file tools: most lead out of the workspace, or to what must not be touched.

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
    ".\u00adenv", ".git\ufeff/config", ".agentscope", ".agentscope/permissions.json", "./.AGENTSCOPE/permissions.json",
    "docs/.agentscope/x", ".agent\u200bscope/permissions.json", ".ａgentscope/permissions.json",
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
