"""The servers of `serve`: one in this process, or several workers."""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import os
import signal
import socket
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from types import FrameType
from typing import NoReturn

from agentscope_rx.cli.agent_flags import MadeAgent
from agentscope_rx.cli.exit_codes import ANSWERED, note
from agentscope_rx.cli.serve import announce, app_of, check_flags, listen
from agentscope_rx.errors import MissingExtraError
from agentscope_rx.models import ChatModel

try:
    import uvicorn
    from starlette.applications import Starlette
    from uvicorn.supervisors import Multiprocess
except ModuleNotFoundError:
    raise MissingExtraError("uvicorn", "service") from None

FLAGS = "AGENTSCOPE_RX_SERVE"
"""An environment variable: the flags of the workers, as JSON."""
CLOSE_SECONDS = 15
"""How long connections may take to close once all runs have ended."""


def serve(flags: argparse.Namespace, model: ChatModel | None = None) -> int:
    """Serve until a signal; `model` replaces that of the flags. `ConfigurationError` if a flag cannot be used."""
    check_flags(flags)
    app, made = app_of(flags, model)
    if flags.workers == 1:
        run_here(app, flags, listen(flags), made)
    else:
        # made to find errors here: each worker makes its own
        made.close()
        run_workers(flags, listen(flags))
    return ANSWERED


def run_here(app: Starlette, flags: argparse.Namespace, listening: socket.socket, made: MadeAgent) -> None:
    """Serve in this process until a signal."""
    close_after(app, made)
    log_requests(flags)
    announce(app, flags, listening.getsockname()[1])
    # uvicorn raises a signal again when it has ended; by default the process would die of it
    before = signal.signal(signal.SIGTERM, _ended)
    try:
        with suppress(KeyboardInterrupt, _Ended):
            uvicorn.Server(_config(app)).run(sockets=[listening])
    finally:
        signal.signal(signal.SIGTERM, before)
        listening.close()


def run_workers(flags: argparse.Namespace, listening: socket.socket) -> None:
    """Serve in several processes until a signal; one that ends is replaced."""
    os.environ[FLAGS] = json.dumps(vars(flags))
    note(f"{flags.workers} workers at http://{flags.host}:{listening.getsockname()[1]}")
    config = _config("agentscope_rx.cli.serving:worker_app", factory=True, workers=flags.workers)
    try:
        Multiprocess(config, sockets=[listening]).run()
    finally:
        listening.close()


def worker_app() -> Starlette:
    """The application of a worker, by the flags of its parent."""
    flags = argparse.Namespace(**json.loads(os.environ[FLAGS]))
    app, made = app_of(flags)
    close_after(app, made)
    log_requests(flags)
    return app


def _config(app: object, **more: object) -> uvicorn.Config:
    return uvicorn.Config(
        app,  # type: ignore[arg-type]
        log_config=None,
        access_log=False,
        lifespan="on",
        ws="none",
        server_header=False,
        timeout_graceful_shutdown=CLOSE_SECONDS,
        **more,  # type: ignore[arg-type]
    )


class _Ended(BaseException):
    """The signal that uvicorn raises again at its end."""


def _ended(number: int, frame: FrameType | None) -> NoReturn:
    raise _Ended


def close_after(app: Starlette, made: MadeAgent) -> None:
    """Close what belongs to the agent when the application has ended."""
    inner = app.router.lifespan_context

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncGenerator[object]:
        async with inner(app) as state:
            yield state
        await asyncio.to_thread(made.close)

    app.router.lifespan_context = lifespan  # type: ignore[assignment]


def log_requests(flags: argparse.Namespace) -> None:
    """Print the requests on stderr, each as a line of JSON."""
    if flags.no_access_log:
        return
    handler = logging.StreamHandler()
    handler.setFormatter(_JsonLines())
    logger = logging.getLogger("agentscope_rx.access")
    logger.setLevel(logging.INFO)
    logger.addHandler(handler)
    logger.propagate = False


class _JsonLines(logging.Formatter):
    """A record as a line of JSON, with the fields of the request."""

    def format(self, record: logging.LogRecord) -> str:
        at = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        fields: dict[str, object] = {"time": f"{at}.{int(record.msecs):03}Z", **getattr(record, "request", {})}
        return json.dumps(
            {key: round(value, 4) if isinstance(value, float) else value for key, value in fields.items()}
        )
