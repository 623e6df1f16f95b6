"""`python -m tests.agent.durable.kills`: kills processes at random moments of a script until so many kills are done.

Each process is a fork of this one, which has no loop and no thread of its own. It ends by SIGKILL: of its own at the
n-th moment (a write to a file, a socket or memory, an event, an effect), or of this process, when that has read the
n-th moment from a pipe and the other one has gone on. The next process resumes, until the script is done.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import shutil
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from agentscope_rx.session import JsonSession, RedisSession, Session, SqliteSession, SqlSession
from tests.agent.durable.child import NOTE, TURNS, Child, Moments
from tests.support.servers import Server, postgres_server, postgres_url, redis_server, redis_url

STORES: dict[str, Callable[[Path, str], Session]] = {
    "json": lambda folder, url: JsonSession(folder / "sessions"),
    "sqlite": lambda folder, url: SqliteSession(folder / "chat.db"),
    "postgres": lambda folder, url: SqlSession(url),
    "redis": lambda folder, url: RedisSession(url),
}
"""The stores by name; each gets the folder of the run, and the URL of its server, if it is on one."""
SERVERS: dict[str, tuple[Callable[[], Server | None], Callable[[Server], str]]] = {
    "postgres": (postgres_server, postgres_url),
    "redis": (redis_server, redis_url),
}
"""What starts the server of a store, and what gives its URL."""

LIMIT = 60
"""The seconds after which a process is ended from outside, which is a failure."""


class Place(NamedTuple):
    """The store of a script: its name, and the URL of its server, if it is on one."""

    store: str
    url: str = ""

    def session(self, folder: Path) -> Session:
        """The store, with what it keeps in files in this folder."""
        return STORES[self.store](folder, self.url)


@contextmanager
def place_of(store: str) -> Iterator[Place | None]:
    """The store with a server of its own, which runs meanwhile, if it needs one; None if there is no such server."""
    if store not in SERVERS:
        yield Place(store)
        return
    start, url_of = SERVERS[store]
    server = start()
    if server is None:
        yield None
        return
    try:
        yield Place(store, url_of(server))
    finally:
        server.remove()


def play(store: Place, folder: Path, kill_at: int | None, tell: int | None) -> None:
    """The work of one process."""
    signal.alarm(LIMIT)
    at = Moments(kill_at, tell)
    at.watch()

    async def main() -> None:
        opened = store.session(folder)
        try:
            child = Child(opened, folder, at)
            messages = await child.play()
            saved = await opened.load_all(child.key)
        finally:
            await opened.close()
        (folder / "end").write_text(json.dumps({"messages": messages, "moments": at.count, "saved": saved.lists}))
        (folder / "state").write_text(json.dumps(saved.values["state"]))

    asyncio.run(main())


def run_one(store: Place, folder: Path, kill_at: int | None, *, outside: bool = False) -> bool:
    """Fork a process; True if it was killed before its end, False if it has come to it."""
    reading, writing = os.pipe() if outside else (None, None)
    pid = os.fork()
    if not pid:
        code = 1
        try:
            play(store, folder, None if outside else kill_at, writing)
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(code)
    if reading is not None and writing is not None:
        os.close(writing)
        seen = 0
        while kill_at is not None and seen < kill_at and (read := os.read(reading, 1)):
            seen += len(read)
        os.kill(pid, signal.SIGKILL)
        os.close(reading)
    _, status = os.waitpid(pid, 0)
    if os.WIFSIGNALED(status):
        assert os.WTERMSIG(status) == signal.SIGKILL, f"a process has ended by signal {os.WTERMSIG(status)}"
        return True
    assert os.WEXITSTATUS(status) == 0, "a process has failed: see above"
    return False


def shape(messages: list[dict[str, Any]]) -> list[object]:
    """The messages without ids; results of one batch in any order, and the note wherever it was taken."""
    shaped: list[object] = []
    batch: list[str] = []
    for message in messages:
        blocks = message["content"]
        if any(block.get("text") == NOTE for block in blocks):
            continue
        if blocks and all(block["type"] == "tool_result" for block in blocks):
            batch += [f"{block['name']} {_text(block)} {block['kind']}" for block in blocks]
            continue
        shaped += [sorted(batch)] if batch else []
        batch = []
        shaped.append([message["role"], [_block(block) for block in blocks]])
    return [*shaped, *([sorted(batch)] if batch else [])]


def _text(block: dict[str, Any]) -> str:
    text = "".join(each.get("text", "") for each in block["output"])
    return text.split("\n\n", 1)[1] if text.startswith("conversation_id") else text


def _block(block: dict[str, Any]) -> object:
    if block["type"] == "tool_use":
        return [block["name"], block["input"]]
    return [block["type"], block.get("text")]


def check(folder: Path, expected: list[object] | None, effects: list[str]) -> list[object]:
    """The end of a script: nothing lost, nothing doubled, the store as it is left by a run that nothing has hit."""
    end = json.loads((folder / "end").read_text())
    state = json.loads((folder / "state").read_text())
    found = shape(end["messages"])
    assert expected is None or found == expected, f"{found}\n  instead of\n{expected}"
    lines = (folder / "effects").read_text().splitlines()
    assert sorted(lines) == effects or not effects, f"effects {sorted(lines)} instead of {effects}"
    assert not end["saved"].get("journal"), f"the journal holds {end['saved']['journal']}"
    assert state["run"] is None and state["pending"] == [], state
    assert state["parts"]["count"]["state"] == 2, f"the part is {state['parts']}"
    ids = [message["id"] for message in end["messages"]]
    assert ids == [message["id"] for message in end["saved"]["memory"]]
    texts = [block.get("text") for message in end["messages"] for block in message["content"]]
    assert [texts.count(turn) for turn in TURNS] == [1, 1, 1, 1] and texts.count(NOTE) <= 1
    check_told((folder / "told").read_text().splitlines(), texts)
    return found


def check_told(told: list[str], texts: list[object]) -> None:
    """An approval that was saved is not asked for again, and the note that was saved is there."""
    given: set[str] = set()
    for line in told:
        what, _, name = line.partition(" ")
        assert what != "asked" or name not in given, f"{name} was approved, and asked for again: {told}"
        if what == "given":
            given.add(name)
    assert "kept the note" not in told or NOTE in texts


def kills(store: Place, folder: Path, count: int, seed: int) -> dict[str, object]:
    """Kill `count` processes; returns what happened."""
    chance = random.Random(seed)
    folder.mkdir(parents=True, exist_ok=True)
    whole = folder / "whole"
    whole.mkdir()
    assert not run_one(store, whole, None)
    expected = check(whole, None, [])
    effects = sorted((whole / "effects").read_text().splitlines())
    moments = json.loads((whole / "end").read_text())["moments"]
    done, scripts, doubts, resumes = 0, 0, 0, 0
    while done < count:
        scripts += 1
        place = folder / f"{scripts}"
        place.mkdir()
        where = []
        while True:
            # most are hit again, sooner or later
            kill_at = chance.randrange(1, moments // chance.choice((1, 2, 4, 8))) if done < count else None
            outside = kill_at is not None and chance.random() < 0.5
            where.append((kill_at, outside))
            if not run_one(store, place, kill_at, outside=outside):
                break
            done += 1
        try:
            check(place, expected, effects)
        except AssertionError as error:
            error.add_note(f"store {store.store}, seed {seed}, script {scripts}, killed at {where}; see {place}")
            raise
        told = (place / "told").read_text().splitlines()
        doubts += sum(line.startswith("doubt") for line in told)
        resumes += told.count("resumed")
        shutil.rmtree(place)
    counts = {"kills": done, "scripts": scripts, "moments": moments, "doubts": doubts, "resumes": resumes}
    return {"store": store.store, **counts}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.agent.durable.kills")
    parser.add_argument("store", choices=sorted(STORES))
    parser.add_argument("folder", type=Path)
    parser.add_argument("--url", default="", help="of the server, for a store that is on one")
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=time.time_ns() % 1_000_000)
    given = parser.parse_args()
    sys.stdout.write(f"{json.dumps(kills(Place(given.store, given.url), given.folder, given.kills, given.seed))}\n")


if __name__ == "__main__":
    main()
