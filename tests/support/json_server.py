"""A loopback server that answers by a function: `answer(path, body) -> JSON value, bytes or (status, JSON)`."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass
class Asked:
    path: str
    headers: dict[str, str]
    body: Any


@dataclass
class JsonServer:
    """Serves while it is entered; `asked` are the requests it got, `most` how many it had at once."""

    answer: Callable[[str, Any], Any]
    delay: float = 0.0
    asked: list[Asked] = field(default_factory=list)
    most: int = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> JsonServer:
        outer, lock, now = self, threading.Lock(), [0]

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                self._serve(json.loads(self.rfile.read(int(self.headers["content-length"]))))

            def do_GET(self) -> None:
                self._serve(None)

            def _serve(self, body: Any) -> None:
                with lock:
                    now[0] += 1
                    outer.most = max(outer.most, now[0])
                    outer.asked.append(Asked(self.path, {k.lower(): v for k, v in self.headers.items()}, body))
                time.sleep(outer.delay)
                found = outer.answer(self.path, body)
                status, found = found if isinstance(found, tuple) else (200, found)
                data = found if isinstance(found, bytes) else json.dumps(found).encode()
                with lock:
                    now[0] -= 1
                self.send_response(status)
                self.send_header("content-type", "audio/wav" if isinstance(found, bytes) else "application/json")
                self.send_header("content-length", str(len(data)))
                self.send_header("connection", "close")
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *args: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = False
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
