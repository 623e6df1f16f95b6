"""A server on loopback that speaks Chat Completions, by script."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

Answer = Callable[["Handler"], None]


class Handler(BaseHTTPRequestHandler):
    """Plays the next answer of the server's script."""

    server: Server
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        self.server.requests.append(json.loads(body))
        self.close_connection = True
        self.server.answers.pop(0)(self)

    def log_message(self, format: str, *args: object) -> None:
        """Silent."""

    def event(self, data: object) -> None:
        self.wfile.write(b"data: " + (data if isinstance(data, bytes) else json.dumps(data).encode()) + b"\n\n")
        self.wfile.flush()

    def begin(self, status: int = 200, kind: str = "text/event-stream") -> None:
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("connection", "close")
        self.end_headers()


class Server(ThreadingHTTPServer):
    """`answers` are played in order; `requests` are the bodies that came."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.answers: list[Answer] = []
        self.requests: list[dict[str, object]] = []
        self.asked = threading.Event()
        self.over = threading.Event()
        self.url = f"http://127.0.0.1:{self.server_port}/v1"

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that has gone is what some tests want."""


def says(*texts: str) -> Answer:
    """An answer in pieces."""

    def play(handler: Handler) -> None:
        handler.begin()
        for text in texts:
            handler.event({"choices": [{"index": 0, "delta": {"content": text}}]})
        handler.event({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
        handler.event({"choices": [], "usage": {"prompt_tokens": 1200, "completion_tokens": 34, "total_tokens": 1234}})
        handler.event(b"[DONE]")

    return play


def calls(name: str, **arguments: object) -> Answer:
    """A tool call."""

    def play(handler: Handler) -> None:
        handler.begin()
        function = {"name": name, "arguments": json.dumps(arguments)}
        delta = {"tool_calls": [{"index": 0, "id": "c1", "type": "function", "function": function}]}
        handler.event({"choices": [{"index": 0, "delta": delta}]})
        handler.event({"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]})
        handler.event(b"[DONE]")

    return play


def refuses(status: int, message: str) -> Answer:
    """An error status."""

    def play(handler: Handler) -> None:
        handler.begin(status, "application/json")
        handler.wfile.write(json.dumps({"error": {"message": message}}).encode())

    return play


def hangs(*texts: str) -> Answer:
    """Some pieces, and then silence until the test is over."""

    def play(handler: Handler) -> None:
        handler.begin()
        for text in texts:
            handler.event({"choices": [{"index": 0, "delta": {"content": text}}]})
        handler.server.asked.set()
        handler.server.over.wait(30)

    return play
