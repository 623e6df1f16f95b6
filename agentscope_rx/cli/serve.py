"""`serve`: agents behind HTTP, for the clients of several protocols.

    agentscope-rx serve my_app.py:agent --port 8000 --sessions conversations.db
    agentscope-rx serve --model openai:gpt-5-mini --openai --token "$TOKEN" --host 0.0.0.0

The imports of the service are in the functions: it needs the packages of an extra.
"""

from __future__ import annotations

import argparse
import os
import socket
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, cast

from agentscope_rx.agent import Agent
from agentscope_rx.cli.agent_flags import MadeAgent, check_own, made_agent
from agentscope_rx.cli.exit_codes import note
from agentscope_rx.cli.permissions import permissions_of, put_under
from agentscope_rx.cli.run_store import run_store
from agentscope_rx.cli.tools import load
from agentscope_rx.errors import ConfigurationError, MissingExtraError
from agentscope_rx.guard import GuardOptions
from agentscope_rx.guard.guard import CLIENT_REQUESTS_PER_MINUTE, LOOPBACK_HOSTS, MAX_BODY_BYTES, MAX_CLIENT_REQUESTS
from agentscope_rx.models import ChatModel

if TYPE_CHECKING:
    from argparse import _SubParsersAction

    from starlette.applications import Starlette
    from starlette.routing import BaseRoute

    from agentscope_rx.service import AgentHost, RunRelay

HOST, PORT = "127.0.0.1", 8000
DRAIN_SECONDS = 30.0
TOKEN = "AGENTSCOPE_RX_TOKEN"
"""An environment variable for `--token`, which other users of the machine cannot see."""

PROTOCOLS: Mapping[str, tuple[str, str]] = {
    "events": ("our own events", "POST /run"),
    "openai": ("OpenAI's API", "base URL /v1"),
    "blocks": ("AgentScope 2's chat", "POST /blocks/chat/"),
    "ag_ui": ("AG-UI", "POST /ag-ui, /ag-ui/AGENT"),
}
"""Each protocol with what it is and where its clients begin. Its routes are `<name>_routes` of the service."""

DESCRIPTION = """\
Serve agents over HTTP. Without a flag of a protocol all are served whose packages are installed. Only clients on this
machine are answered, until --host and --token let others in. The first Ctrl-C or SIGTERM refuses further runs and
lets those in progress end."""


def add_serve(
    commands: _SubParsersAction[argparse.ArgumentParser],
    agent: argparse.ArgumentParser,
    count: Callable[[str], int],
    seconds: Callable[[str], float],
) -> None:
    """Add the command to a command line; `agent` has the flags of an agent."""
    raw = argparse.RawDescriptionHelpFormatter
    serve = commands.add_parser(
        "serve", parents=[agent], help="serve agents over HTTP", description=DESCRIPTION, formatter_class=raw
    )
    serve.add_argument(
        "target",
        metavar="FILE:ATTR",
        nargs="?",
        help="an agent, a list of agents, or agents by name; or a function that returns these (also MODULE:ATTR)",
    )
    serve.add_argument("--host", metavar="ADDRESS", default=HOST, help=f"the address to listen at ({HOST})")
    serve.add_argument("--port", metavar="N", type=_port, default=PORT, help=f"the port; 0: a free one ({PORT})")
    serve.add_argument("--token", metavar="TOKEN", help=f"requests need this bearer token (or {TOKEN})")
    for name, (what, _) in PROTOCOLS.items():
        serve.add_argument(f"--{name.replace('_', '-')}", action="store_true", help=f"serve {what}")
    serve.add_argument(
        "--sessions", metavar="STORE", help="where conversations are kept: a folder, a .db file or a URL"
    )
    serve.add_argument("--workers", metavar="N", type=count, default=1, help="processes; they need --sessions (1)")
    serve.add_argument(
        "--on-disconnect",
        metavar="stop|continue|SECONDS",
        type=_on_disconnect,
        default="stop",
        help="what happens to a run when its last client leaves; SECONDS: it may come again so long (stop)",
    )
    _limit_flags(serve, count, seconds)
    serve.add_argument("--metrics", action="store_true", help="figures for Prometheus at /metrics (extra prometheus)")
    serve.add_argument("--no-access-log", action="store_true", help="do not print requests, each as a line of JSON")


def _limit_flags(serve: argparse.ArgumentParser, count: Callable[[str], int], seconds: Callable[[str], float]) -> None:
    serve.add_argument(
        "--allow-host", metavar="NAME", action="append", default=[], help="a name of this service (repeatable)"
    )
    serve.add_argument(
        "--allow-origin", metavar="URL", action="append", default=[], help="pages that may send requests (repeatable)"
    )
    serve.add_argument(
        "--max-body", metavar="BYTES", type=count, default=MAX_BODY_BYTES, help=f"of a request ({MAX_BODY_BYTES})"
    )
    serve.add_argument(
        "--max-requests",
        metavar="N",
        type=count,
        default=MAX_CLIENT_REQUESTS,
        help=f"open requests of one client ({MAX_CLIENT_REQUESTS})",
    )
    serve.add_argument(
        "--rate",
        metavar="N",
        type=count,
        default=CLIENT_REQUESTS_PER_MINUTE,
        help=f"requests of one client in a minute ({CLIENT_REQUESTS_PER_MINUTE})",
    )
    serve.add_argument("--max-runs", metavar="N", type=count, default=100, help="live runs of a process (100)")
    serve.add_argument(
        "--drain",
        metavar="SECONDS",
        type=seconds,
        default=DRAIN_SECONDS,
        help=f"how long runs may go on after a signal to stop ({DRAIN_SECONDS:g})",
    )


def check_flags(flags: argparse.Namespace) -> None:
    """`ConfigurationError` if the flags do not go together; puts the token of the environment in place."""
    flags.token = flags.token or os.environ.get(TOKEN)
    if flags.host not in _LOOPBACK and flags.token is None:
        raise ConfigurationError(f"--host {flags.host} lets other machines in: set --token, or {TOKEN}.")
    if flags.workers > 1 and flags.sessions is None:
        raise ConfigurationError(
            "--workers needs --sessions: each request may reach another process, and all need its conversation."
        )


_LOOPBACK = ("localhost", "127.0.0.1", "::1")


def app_of(flags: argparse.Namespace, model: ChatModel | None = None) -> tuple[Starlette, MadeAgent]:
    """The application of these flags, and what must be closed after it."""
    from agentscope_rx.agent import GracefulShutdown
    from agentscope_rx.service import AgentHost, Runs, protocol_app

    agents, made = _agents(flags, model)
    rules = permissions_of(flags)
    if rules is not None:
        for agent in set(agents.values()):
            put_under(agent, rules)
    host = AgentHost(
        agents,
        sessions=flags.sessions,
        # other processes may serve the same conversations
        lease=None if flags.sessions is None else "error",
        runs=Runs(max_live=flags.max_runs),
        on_disconnect=flags.on_disconnect,
        shutdown=GracefulShutdown(timeout=flags.drain),
        relay=_relay(flags),
    )
    if flags.metrics:
        _measure_agents()
    guard = GuardOptions(
        token=flags.token,
        allowed_hosts=flags.allow_host or (LOOPBACK_HOSTS if flags.host in _LOOPBACK else ("*",)),
        allowed_origins=flags.allow_origin,
        max_body_bytes=flags.max_body,
        max_client_requests=flags.max_requests,
        client_requests_per_minute=flags.rate,
    )
    app = protocol_app(
        host,
        *(_routes(name, host) for name in served(flags)),
        guard=guard,
        access_log=not flags.no_access_log,
        metrics=flags.metrics,
        drain_at_signals=True,
    )
    return app, made


def _relay(flags: argparse.Namespace) -> RunRelay | None:
    """Runs that go on without clients are followed from every process, if the store can carry their events."""
    from agentscope_rx.service import RunRelay

    if flags.sessions is None or flags.on_disconnect != "continue":
        return None
    store = run_store(flags.sessions)
    if store is None:
        note(f"{flags.sessions} cannot carry events: a run is followed in its own process only. Use SQLite or Redis.")
    return None if store is None else RunRelay(store)


def served(flags: argparse.Namespace) -> list[str]:
    """The protocols that the flags name, or all whose packages are installed."""
    named = [name for name in PROTOCOLS if getattr(flags, name)]
    return named or [name for name in PROTOCOLS if _installed(name)]


def _installed(name: str) -> bool:
    try:
        _maker(name)
    except MissingExtraError:
        return False
    return True


def _maker(name: str) -> Callable[[AgentHost], Sequence[BaseRoute]]:
    made: Callable[[AgentHost], Sequence[BaseRoute]] = getattr(import_module("agentscope_rx.service"), f"{name}_routes")
    return made


def _routes(name: str, host: AgentHost) -> Sequence[BaseRoute]:
    return _maker(name)(host)


def _agents(flags: argparse.Namespace, model: ChatModel | None) -> tuple[dict[str, Agent], MadeAgent]:
    if flags.target is None:
        made = made_agent(flags, model)
        return {made.agent.name: made.agent}, made
    check_own(flags, flags.target)
    if flags.agent is not None:
        raise ConfigurationError(f"{flags.target} and --agent both name an agent: leave one out.")
    found = load("serve", flags.target)
    if callable(found) and not isinstance(found, Agent):
        try:
            found = found()
        except Exception as error:
            what = f"{type(error).__name__}: {error}"
            raise ConfigurationError(f"serve {flags.target}: calling it failed with {what}") from error
    agents = _named(found)
    if agents is None:
        raise ConfigurationError(
            f"serve {flags.target}: this is not an Agent, a list of agents, or agents by name: {found!r:.60}."
        )
    return agents, MadeAgent(next(iter(agents.values())))


def _named(found: object) -> dict[str, Agent] | None:
    if isinstance(found, Agent):
        return {found.name: found}
    if isinstance(found, Mapping):
        named = dict(cast("Mapping[str, object]", found))
    elif isinstance(found, (list, tuple)):
        members = cast("Sequence[object]", found)
        named = {getattr(each, "name", ""): each for each in members}
        if len(named) != len(members):
            return None
    else:
        return None
    agents = {name: each for name, each in named.items() if isinstance(each, Agent)}
    return agents if agents and len(agents) == len(named) else None


def _measure_agents() -> None:
    from agentscope_rx.service.prometheus import meter_provider
    from agentscope_rx.tracing import instrument

    instrument(meter_provider=meter_provider())


def listen(flags: argparse.Namespace) -> socket.socket:
    """The socket of the server, which listens; `ConfigurationError` if it cannot."""
    family = socket.AF_INET6 if ":" in flags.host else socket.AF_INET
    try:
        bound = socket.create_server((flags.host, flags.port), family=family, backlog=2048)
    except OSError as error:
        reason = error.strerror or str(error)
        raise ConfigurationError(f"cannot listen at {flags.host} port {flags.port}: {reason}.") from error
    bound.set_inheritable(True)
    return bound


def announce(app: Starlette, flags: argparse.Namespace, port: int) -> None:
    """Print what is served, and where."""
    host: AgentHost = app.state.host
    name = f"[{flags.host}]" if ":" in flags.host else flags.host
    note(f"serving {', '.join(host.agents)} at http://{name}:{port}")
    for each in served(flags):
        what, where = PROTOCOLS[each]
        note(f"  {what}: {where}")
    if flags.sessions is None:
        note("conversations are in memory, and end with this process (--sessions keeps them)")


def _port(text: str) -> int:
    if not (text.isascii() and text.isdigit() and int(text) < 65536):
        raise argparse.ArgumentTypeError(f"{text!r} is not a port: a whole number from 0 to 65535")
    return int(text)


def _on_disconnect(text: str) -> str | float:
    if text in ("stop", "continue"):
        return text
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is not 'stop', 'continue' or a number of seconds")
    return value
