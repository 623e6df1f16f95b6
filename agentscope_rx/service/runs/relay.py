"""`RunRelay`: the events of live runs in a store, for the other processes of a service.

    process A   run --> log --> its clients
                         \\--> pages in the store, every 0.1 s
    process B                      \\--> RelayedRun --> clients of B
                interrupt, stop <-- requests in the store <-- B

| entry                           | written by                                                                     |
|---------------------------------|--------------------------------------------------------------------------------|
| `run/ID`: `head`                | the owner, with each page, and as a sign of life                               |
| `run/ID`: `page/N`              | the owner: a list of events; the oldest are dropped beyond `max_bytes`         |
| `conversation/KEY`: `run`       | the owner: the id of the conversation's last run                               |
| `requests`: `ID/N`              | another process; removed by the owner, who has taken it                        |

The owner reads its own log as a client does: a store that is slow slows the run. If the store fails the run goes on,
and readers elsewhere get a `RunLostError`.
"""

from __future__ import annotations

import asyncio
import logging
import time
import uuid
from collections.abc import Mapping
from os import PathLike
from typing import Literal, NamedTuple, cast

from agentscope_rx.agent.handle.event_log import LoggedEvent
from agentscope_rx.agent.handle.run_handle import MAX_LOG_BYTES
from agentscope_rx.agent.saving_agent import session_at
from agentscope_rx.errors import ConfigurationError
from agentscope_rx.reactive import from_callable
from agentscope_rx.reactive.background import spawn_background
from agentscope_rx.reactive.log_readers import LogReader
from agentscope_rx.service.failure import RunLostError, UnknownRunError
from agentscope_rx.service.runs.live_run import LiveRun, OnDisconnect
from agentscope_rx.service.runs.relayed_run import HEAD, Head, RelayedRun, page_name, run_key
from agentscope_rx.session import Session

INTERVAL = 0.1
TTL = 15.0
KEEP_SECONDS = 300.0
PAGE_EVENTS = 256
PAGE_BYTES = 1 << 18
FIRST_PAGE_INTERVALS = 5
"""For so many intervals a run that is not found may be one that has just begun."""
_REQUESTS = "requests"
_ABANDONED_SECONDS = 3600.0
"""After so long without a sign of life a run's entries are removed, whoever wrote them."""

Wish = Literal["interrupt", "stop"]
_log = logging.getLogger("agentscope_rx")


class _Page(NamedTuple):
    number: int
    size: int
    last: int


class RunRelay:
    """Live runs for the other processes of a service. `session` is a store of its own, or its path or URL.

    `interval` is how often it is written and read, in seconds: a client elsewhere is about twice that behind. A run
    whose owner has given no sign of life for `ttl` seconds counts as lost. `max_bytes` bounds what is kept of a run,
    which is removed `keep_seconds` after its end. Only runs that go on without clients are relayed: see
    `on_disconnect`.
    """

    def __init__(
        self,
        session: Session | str | PathLike[str],
        *,
        interval: float = INTERVAL,
        ttl: float = TTL,
        max_bytes: int = MAX_LOG_BYTES,
        keep_seconds: float = KEEP_SECONDS,
    ) -> None:
        if not 0 < interval < ttl:
            raise ConfigurationError(f"interval must be above 0 and below ttl, not {interval!r:.40} and {ttl!r:.40}.")
        self.session: Session = session_at(session)
        self.interval: float = interval
        self.ttl: float = ttl
        self.max_bytes: int = max_bytes
        self.keep_seconds: float = keep_seconds
        self._owned: dict[str, LiveRun] = {}
        self._writers: set[asyncio.Future[None]] = set()
        self._attending: asyncio.Future[None] | None = None
        self._expiring: set[asyncio.TimerHandle] = set()

    # --- the owner ------------------------------------------------------------------------------------------------

    def publish(self, run: LiveRun, conversation: str | None = None) -> None:
        """Write this run's events from its first one on, if it goes on without clients."""
        if run.on_disconnect == OnDisconnect.CONTINUE:
            run.begun.listen(lambda: self._begin(run, conversation))

    def _begin(self, run: LiveRun, conversation: str | None) -> None:
        reader = run.follow()
        writer: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._writers.add(writer)
        self._owned[run.id or ""] = run

        async def work() -> None:
            try:
                await _Writer(self, run, reader, conversation).work()
            except Exception:
                _log.exception("run %s cannot be followed from other processes: the relay's store failed", run.id)
            finally:
                self._owned.pop(run.id or "", None)
                await run.leave(reader)
                self._writers.discard(writer)
                writer.set_result(None)

        loop = asyncio.get_running_loop()
        spawn_background(from_callable(work), f"relaying run {run.id}", loop=loop)
        if self._attending is None:
            self._attending = loop.create_future()
            spawn_background(from_callable(self._attend), "the requests to relayed runs", loop=loop)

    async def _attend(self) -> None:
        """Take the requests to the runs of this process, while there are any."""
        try:
            while self._owned:
                try:
                    await self._take_requests()
                except Exception:
                    _log.exception("the requests to relayed runs cannot be read")
                await asyncio.sleep(self.interval)
        finally:
            attending, self._attending = self._attending, None
            if attending is not None:
                attending.set_result(None)

    async def _take_requests(self) -> None:
        found = (await self.session.load_all(_REQUESTS)).values
        for name, value in found.items():
            run = self._owned.get(name.partition("/")[0])
            if run is None:
                continue
            await self.session.remove(_REQUESTS, name)
            wish = cast("Mapping[str, str | None]", value)
            if wish["wish"] == "interrupt":
                run.interrupt(wish["text"])
            else:
                run.dispose("A stop was requested.")

    async def sweep(self) -> None:
        """Remove what processes that are gone have left of their runs."""
        for key in await self.session.keys():
            if not key.startswith("run/"):
                continue
            head = await self._head(key.removeprefix("run/"))
            if head is not None and time.time() - head["at"] > _ABANDONED_SECONDS:
                await self.session.delete(key)
                if head["conversation"] is not None:
                    await self.session.delete(f"conversation/{head['conversation']}")

    async def aclose(self) -> None:
        """Return when the ends of the runs are written. Call it when they have ended.

        What is written stays for the other processes; one that begins after an hour removes it.
        """
        for writer in tuple(self._writers):
            await writer
        if self._attending is not None:
            await self._attending
        for timer in self._expiring:
            timer.cancel()
        self._expiring.clear()

    def expire(self, run_id: str, conversation: str | None) -> None:
        """Remove what is written of an ended run, `keep_seconds` from now."""
        loop = asyncio.get_running_loop()

        async def remove() -> None:
            await self.session.delete(run_key(run_id))
            if conversation is not None:
                key = f"conversation/{conversation}"
                if await self.session.load(key, "run") == run_id:
                    await self.session.delete(key)

        def begin() -> None:
            self._expiring.discard(timer)
            spawn_background(from_callable(remove), f"removing what was written of run {run_id}", loop=loop)

        timer = loop.call_later(self.keep_seconds, begin)
        self._expiring.add(timer)

    # --- the other processes ----------------------------------------------------------------------------------------

    async def find(self, run_id: str) -> RelayedRun | None:
        """The run of this id, if a process has written it."""
        head = await self._head(run_id)
        return None if head is None else RelayedRun(self.session, run_id, head, self.interval, self.ttl)

    async def find_soon(self, run_id: str) -> RelayedRun:
        """The run of this id, whose first page may yet be on its way; `UnknownRunError` if it does not come."""
        for _ in range(FIRST_PAGE_INTERVALS):
            found = await self.find(run_id)
            if found is not None:
                return found
            await asyncio.sleep(self.interval)
        raise UnknownRunError(run_id)

    async def find_conversation(self, key: str) -> RelayedRun | None:
        """The live run of this conversation, if a process has written it."""
        run_id = await self.session.load(f"conversation/{key}", "run")
        found = await self.find(run_id) if isinstance(run_id, str) else None
        return None if found is None or found.ended else found

    async def request(self, run: RelayedRun, wish: Wish, text: str | None = None) -> bool:
        """Ask the owner to interrupt or stop this run; False if it has ended. A stop returns at its end.

        `RunLostError` if the owner does not take it in `ttl` seconds.
        """
        name = f"{run.id}/{uuid.uuid4().hex}"
        await self.session.save(_REQUESTS, name, {"wish": wish, "text": text})
        until = asyncio.get_running_loop().time() + self.ttl
        while True:
            taken = await self.session.load(_REQUESTS, name) is None
            head = await self._head(run.id)
            ended = head is None or head["ended"]
            if ended and not taken:
                await self.session.remove(_REQUESTS, name)
                return False
            if taken and (ended or wish == "interrupt"):
                return True
            if asyncio.get_running_loop().time() > until:
                await self.session.remove(_REQUESTS, name)
                raise RunLostError(run.id)
            await asyncio.sleep(self.interval)

    async def _head(self, run_id: str) -> Head | None:
        return cast("Head | None", await self.session.load(run_key(run_id), HEAD))


class _Writer:
    """Writes one run."""

    def __init__(self, relay: RunRelay, run: LiveRun, reader: LogReader[LoggedEvent], conversation: str | None) -> None:
        self._relay = relay
        self._run = run
        self._reader = reader
        self._key = run_key(run.id or "")
        self._pages: list[_Page] = []
        self._size = 0
        self._head: Head = {
            "conversation": conversation,
            "first": 0,
            "next": 0,
            "dropped": -1,
            "last": -1,
            "ended": False,
            "beat": 0,
            "at": time.time(),
        }

    async def work(self) -> None:
        relay, head = self._relay, self._head
        conversation = head["conversation"]
        if conversation is not None:
            await relay.session.save(f"conversation/{conversation}", "run", self._run.id)
        while not head["ended"]:
            await self._wait()
            await self._write()
            if not head["ended"]:
                await asyncio.sleep(relay.interval)
        relay.expire(self._run.id or "", conversation)

    async def _wait(self) -> None:
        """Return at the next event, at the end, or when a sign of life is due."""
        try:
            async with asyncio.timeout(self._relay.ttl / 3):
                self._head["ended"] = not await self._reader.wait()
        except TimeoutError:
            return
        except Exception:
            # an error that no event reports
            self._head["ended"] = True

    async def _write(self) -> None:
        head, page = self._head, self._page()
        head["beat"] += 1
        head["at"] = time.time()
        values: dict[str, object] = {}
        if page:
            number, size = head["next"], sum(len(text) for _, text in page)
            values[page_name(number)] = page
            head["next"], head["last"] = number + 1, page[-1][0]
            self._pages.append(_Page(number, size, page[-1][0]))
            self._size += size
        dropped = self._too_many()
        await self._relay.session.save_all(self._key, {**values, HEAD: dict(head)})
        for each in dropped:
            await self._relay.session.remove(self._key, page_name(each.number))

    def _page(self) -> list[tuple[int, str]]:
        page: list[tuple[int, str]] = []
        size = 0
        while self._reader.waiting and len(page) < PAGE_EVENTS and size < PAGE_BYTES:
            logged = self._reader.take()
            page.append((logged.seq, logged.json.decode()))
            size += len(logged.json)
        return page

    def _too_many(self) -> list[_Page]:
        dropped: list[_Page] = []
        while self._size > self._relay.max_bytes and len(self._pages) > 1:
            page = self._pages.pop(0)
            self._size -= page.size
            dropped.append(page)
            self._head["first"], self._head["dropped"] = page.number + 1, page.last
        return dropped
