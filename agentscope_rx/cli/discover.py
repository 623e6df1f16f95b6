"""`--model auto`: finds a model server that runs on this machine, by its own API at its usual port.

| server    | port  | request          | recognised by                 | model                              |
|-----------|-------|------------------|-------------------------------|------------------------------------|
| Ollama    | 11434 | `/api/tags`      | `models` with a `digest` each | the one changed last               |
| LM Studio | 1234  | `/api/v0/models` | `data` with a `state` each    | a loaded one, else the first       |
| llama.cpp | 8080  | `/v1/models`     | `owned_by: llamacpp`          | the one it serves                  |
| vLLM      | 8000  | `/v1/models`     | `owned_by: vllm`              | the one it serves                  |

All are asked at once; a server that does not answer within `SECONDS` is skipped. The first of the table is used. Only
the path is sent, to loopback, and only for `--model auto`: no question or file goes to an unknown server.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import cast

from reactivex import operators as ops

from agentscope_rx.console.wording import one_line
from agentscope_rx.errors import ConfigurationError
from agentscope_rx.frozen_values import dataclass
from agentscope_rx.models.transport.fetch import LOOPBACK, get_loopback
from agentscope_rx.reactive import Flow, catch, concat_map, from_callable, just, merge_ordered, timeout

SECONDS = 0.3

Row = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class FoundModel:
    """A model of a running server."""

    server: str
    provider: str
    model: str
    base_url: str
    why: str


@dataclass(frozen=True, slots=True)
class KnownServer:
    """A kind of server and its usual port. `chosen` returns a model's name and the reason, or None."""

    server: str
    provider: str
    port: int
    path: str
    base: str
    chosen: Callable[[Row], tuple[str, str] | None]


def find(places: Sequence[KnownServer] | None = None, seconds: float | None = None) -> Flow[tuple[FoundModel, ...]]:
    """The running servers, best first.

    Signals: one tuple, empty if no server answers in time.
    Cancels: the requests.
    """

    def gathered(found: list[FoundModel | None]) -> tuple[FoundModel, ...]:
        return tuple(each for each in found if each is not None)

    asked = [
        _asked(place, SECONDS if seconds is None else seconds)
        for place in (KNOWN_SERVERS if places is None else places)
    ]
    return merge_ordered(asked).pipe(ops.to_list(), concat_map(gathered))


def best(found: Sequence[FoundModel]) -> FoundModel:
    """The first one; `ConfigurationError` if there is none."""
    if not found:
        looked = ", ".join(f"{place.server} ({place.port})" for place in KNOWN_SERVERS)
        raise ConfigurationError(
            f"--model auto found no model server with a model on this machine; looked for: {looked}. "
            "Start one, or name a model: --model PROVIDER:NAME."
        )
    return found[0]


def _asked(place: KnownServer, seconds: float) -> Flow[FoundModel | None]:
    def read(answer: object) -> FoundModel | None:
        chosen = place.chosen(cast("Row", answer)) if isinstance(answer, Mapping) else None
        if chosen is None:
            return None
        name, why = chosen
        return FoundModel(place.server, place.provider, name, f"http://{LOOPBACK}:{place.port}{place.base}", why)

    answered = from_callable(lambda: get_loopback(place.port, place.path)).pipe(
        concat_map(read), timeout(total=seconds)
    )
    return answered.pipe(catch(lambda error: just(None)))


def _listed(rows: object) -> list[Row]:
    listed = cast("list[object]", rows) if isinstance(rows, list) else []
    return [cast("Row", row) for row in listed if isinstance(row, Mapping)]


def _name(row: Row, key: str) -> str | None:
    """The name of the model; None if it is no short, printable text, because it is shown and sent."""
    name = row.get(key)
    return name if isinstance(name, str) and name and len(name) <= 300 and one_line(name) == name else None


def _first(rows: Sequence[Row], key: str) -> str | None:
    return next((name for row in rows if (name := _name(row, key)) and "embed" not in name.lower()), None)


def _ollama(answer: Row) -> tuple[str, str] | None:
    rows = [row for row in _listed(answer.get("models")) if isinstance(row.get("digest"), str)]
    rows.sort(key=lambda row: str(row.get("modified_at", "")), reverse=True)
    name = _first(rows, "name")
    return (name, "changed last") if name else None


def _lm_studio(answer: Row) -> tuple[str, str] | None:
    rows = [row for row in _listed(answer.get("data")) if "state" in row and row.get("type") in ("llm", "vlm")]
    loaded = _first([row for row in rows if row["state"] == "loaded"], "id")
    if loaded:
        return loaded, "loaded"
    name = _first(rows, "id")
    return (name, "its first") if name else None


def _owned(owner: str) -> Callable[[Row], tuple[str, str] | None]:
    def chosen(answer: Row) -> tuple[str, str] | None:
        name = _first([row for row in _listed(answer.get("data")) if row.get("owned_by") == owner], "id")
        return (name, "the one it serves") if name else None

    return chosen


KNOWN_SERVERS: tuple[KnownServer, ...] = (
    KnownServer("Ollama", "ollama", 11434, "/api/tags", "", _ollama),
    KnownServer("LM Studio", "openai", 1234, "/api/v0/models", "/v1", _lm_studio),
    KnownServer("llama.cpp", "llama.cpp", 8080, "/v1/models", "/v1", _owned("llamacpp")),
    KnownServer("vLLM", "vllm", 8000, "/v1/models", "/v1", _owned("vllm")),
)
"""In the order of preference: desktop servers first."""
