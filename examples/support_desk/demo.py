"""A support desk: a refund waits for a person, the service is killed and starts again, and the refund still waits.

Look at: Bob's cup is paid back at once, Ann's teapot waits. After `kill -9` the second service finds the conversation
in its folder, and a second client approves. `refunds.jsonl` has each refund once. The parts are in desk.py, service.py
and client.py beside this file; README.md says how to run them by hand.

    python examples/support_desk/demo.py                 the whole story, with the service in a process of its own
    AGENTSCOPE_RX_MODEL=openai:gpt-5-mini python examples/support_desk/demo.py
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

HERE = Path(__file__).parent


@contextmanager
def service(folder: str, port: int) -> Generator[None]:
    """The service in another process; the end of the block kills it, as a machine that fails would."""
    process = subprocess.Popen([sys.executable, str(HERE / "service.py"), folder, str(port)])  # noqa: S603
    try:
        wait_for(port, process)
        yield
    finally:
        process.kill()
        process.wait()


def wait_for(port: int, process: subprocess.Popen[bytes]) -> None:
    for _ in range(600):
        if process.poll() is not None:
            raise SystemExit("The service has not started; its own message is above.")
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            time.sleep(0.05)
        else:
            return
    raise SystemExit("The service does not answer.")


def client(port: int, *arguments: str) -> None:
    """The client, in a process of its own, too."""
    print(f"$ client.py {' '.join(arguments)}", flush=True)
    environment = os.environ | {"DESK_URL": f"http://127.0.0.1:{port}"}
    command = [sys.executable, str(HERE / "client.py"), *arguments]
    subprocess.run(command, env=environment, check=True, timeout=180)  # noqa: S603


def main() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with tempfile.TemporaryDirectory() as folder:
        with service(folder, port):
            client(port, "bob", "My cup, order 8, came broken.")
            client(port, "ann", "My teapot, order 7, came broken. I want my money back.")
            client(port, "ann", "Is anybody there?")
        print("(the service was killed, and starts again)")
        with service(folder, port):
            client(port, "staff", "--all")
            client(port, "ann")
        paid = Path(folder, "refunds.jsonl")
        print("refunds.jsonl:", *(paid.read_text().splitlines() if paid.exists() else ["nothing"]), sep="\n  ")


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit("\nstopped")
    except subprocess.CalledProcessError as error:
        sys.exit(f"client.py has ended with status {error.returncode}; its own message is above.")
