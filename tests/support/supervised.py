"""Runs a server until this program's input ends: it ends with the tests, however they end.

python supervised.py <user id or ""> <command> ...      prints the server's process id,
                                                               and what it says as an error
"""

from __future__ import annotations

import subprocess
import sys


def main() -> None:
    user, *command = sys.argv[1:]
    options = {"user": int(user), "group": int(user), "extra_groups": []} if user else {}
    server = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=sys.stderr, **options)
    sys.stdout.write(f"{server.pid}\n")
    sys.stdout.flush()
    sys.stdin.read()
    # SIGINT: PostgreSQL then ends without waiting for its clients
    server.send_signal(2)
    try:
        server.wait(10)
    except subprocess.TimeoutExpired:
        server.kill()
        server.wait()


if __name__ == "__main__":
    main()
