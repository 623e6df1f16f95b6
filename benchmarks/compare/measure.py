"""One measurement in a process of its own: `python -m benchmarks.compare.measure engine turns 100` prints its value.

It is run by the interpreter of the side's environment. CPU time is of the whole process, with all of its threads; the
model over HTTP is another process, so its time does not count. What is measured has been done once before in a small
form, so that imports and caches of the first time do not count either.
"""

from __future__ import annotations

import asyncio
import gc
import json
import resource
import statistics
import sys
import time
import tracemalloc
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from importlib import import_module

from benchmarks.compare.server import serving
from benchmarks.compare.side import Side, side
from benchmarks.script import Gate, Script

REPEATS = 5
ENOUGH = 0.6
"""Seconds of CPU after which a measurement is not repeated."""
MODEL_MS = 50
AUDIENCE = 100
Main = Callable[[], Awaitable[object]]


async def cpu(main: Main) -> float:
    """CPU seconds of the best of some runs, the collector included."""
    spent: list[float] = []
    while len(spent) < REPEATS and sum(spent) < ENOUGH:
        gc.collect()
        begin = time.process_time()
        await main()
        spent.append(time.process_time() - begin)
    return min(spent)


async def at_once(one: Side, agents: list[object]) -> None:
    """A call of each agent, all at once."""
    if not one.threads:
        await asyncio.gather(*(one.call(agent) for agent in agents))
        return
    loop = asyncio.get_running_loop()
    with ThreadPoolExecutor(len(agents)) as pool:
        await asyncio.gather(*(loop.run_in_executor(pool, _driven, one.call(agent)) for agent in agents))


def _driven(call: Coroutine[object, None, None]) -> None:
    """Run a coroutine that never waits to its end, without a loop, which would cost more than the work."""
    with suppress(StopIteration):
        call.send(None)
        raise RuntimeError("a call that blocks has waited for a loop")


def made(one: Side, count: int, model: Callable[[], object]) -> list[object]:
    """So many agents; the same one for all, if it serves many runs."""
    if one.shares_agents:
        return [one.agent(model())] * count
    return [one.agent(model()) for _ in range(count)]


async def read(one: Side, agent: object, count: int) -> None:
    """Read a stream to its end, and see that all pieces have come."""
    seen = 0
    async for _ in one.pull(agent):
        seen += 1
    assert seen == count, f"{seen} pieces came, not {count}"


# --- in process -------------------------------------------------------------------------------------------------------


async def turns(one: Side, count: int) -> float:
    """Microseconds of CPU per turn: one model round with one tool call."""

    async def main(count: int = count) -> None:
        script = Script(count)
        await one.call(one.agent(one.scripted(script)))
        assert not script._left, "the run has ended too early"

    await main(2)
    return await cpu(main) / count * 1e6


async def chunks(one: Side, count: int) -> float:
    """Microseconds of CPU per piece of an answer, read with `async for`."""

    async def main(count: int = count) -> None:
        await read(one, one.agent(one.scripted(Script(pieces=count))), count)

    await main(2)
    return await cpu(main) / count * 1e6


async def subscribed(one: Side, count: int) -> float:
    """The same through a subscription."""

    async def main(count: int = count) -> None:
        assert await one.subscribe(one.agent(one.scripted(Script(pieces=count)))) == count

    await main(2)
    return await cpu(main) / count * 1e6


async def readers(one: Side, count: int) -> float:
    """Microseconds of CPU per piece of an answer that 100 readers get, each with `async for`."""
    return await _shared(one.readers, one, count)


async def subscribers(one: Side, count: int) -> float:
    """The same for 100 subscribers."""
    return await _shared(one.subscribers, one, count)


async def _shared(read: Callable[[object, int], Awaitable[int]], one: Side, count: int) -> float:
    async def main(count: int = count) -> None:
        assert await read(one.agent(one.scripted(Script(pieces=count))), AUDIENCE) == count * AUDIENCE

    await main(2)
    return await cpu(main) / count * 1e6


async def first(one: Side, count: int) -> float:
    """Microseconds from the call of an agent to the first piece, the median of as many calls; each agent is new."""
    times: list[float] = []
    for _ in range(count + 3):
        agent = one.agent(one.scripted(Script(pieces=2)))
        gc.collect(0)
        begin = time.perf_counter()
        took = 0.0
        async for _ in one.pull(agent):
            took = took or time.perf_counter() - begin
        times.append(took)
    return statistics.median(times[3:]) * 1e6


async def agents(one: Side, count: int) -> float:
    """Microseconds of CPU per agent, made and called once, all at once, with a model that takes 50 ms."""

    async def main(count: int = count) -> None:
        await at_once(one, made(one, count, lambda: one.scripted(Script(seconds=MODEL_MS / 1000))))

    await main(2)
    return await cpu(main) / count * 1e6


async def live(one: Side, count: int) -> float:
    """KB that each of as many agents holds while all of them wait for their models, by tracemalloc."""
    held: list[int] = []

    def note() -> None:
        gc.collect()
        held.append(tracemalloc.get_traced_memory()[0])

    async def main(count: int) -> None:
        gate = Gate(count, note)
        await at_once(one, made(one, count, lambda: one.scripted(Script(gate=gate))))

    await main(2)
    tracemalloc.start()
    gc.collect()
    before = tracemalloc.get_traced_memory()[0]
    await main(count)
    return (held[-1] - before) / count / 1000


async def tools(one: Side, count: int) -> float:
    """Milliseconds until as many tools of 50 ms, called in one round, have their results and the run has ended."""
    times: list[float] = []
    for _ in range(4):
        agent = one.agent(one.scripted(Script(1, at_once=count, tool="nap")), "nap")
        begin = time.perf_counter()
        await one.call(agent)
        times.append(time.perf_counter() - begin)
        if times[-1] > 1:
            break
    return min(times) * 1e3


async def ahead(one: Side, count: int) -> float:
    """How many of so many pieces the model has been asked for more than a reader has read that stands still."""
    script = Script(pieces=count, breathes=True)
    seen = lead = 0
    async for _ in one.pull(one.agent(one.scripted(script))):
        seen += 1
        if seen == 10:
            before = -1
            while script.made != before:
                before = script.made
                for _ in range(200):
                    await asyncio.sleep(0)
            lead = script.made - seen
    assert seen == count, f"{seen} pieces came, not {count}"
    return lead


async def memory(one: Side, count: int) -> float:
    """KB of the process per turn of a run, at its peak, above what was in use before."""
    await one.call(one.agent(one.scripted(Script(2))))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    await one.call(one.agent(one.scripted(Script(count))))
    return (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1.024 / count


# --- over HTTP --------------------------------------------------------------------------------------------------------


async def http_turns(one: Side, count: int, url: str) -> float:
    """Microseconds of CPU per turn over HTTP, on a connection that is open."""
    model = one.remote(url, f"turns-{count}")
    await one.call(one.agent(model))
    return await cpu(lambda: one.call(one.agent(model))) / count * 1e6


async def http_chunks(one: Side, count: int, url: str) -> float:
    """Microseconds of CPU per piece of an answer that comes over HTTP."""
    model = one.remote(url, f"chunks-{count}")

    async def main() -> None:
        await read(one, one.agent(model), count)

    await main()
    return await cpu(main) / count * 1e6


async def http_agents(one: Side, count: int, url: str) -> float:
    """Microseconds of CPU per agent that is made and called once, all at once, with one client of a model of 50 ms."""
    model = one.remote(url, f"wait-{MODEL_MS}")
    await one.call(one.agent(model))
    return await cpu(lambda: at_once(one, made(one, count, lambda: model))) / count * 1e6


# --- alone ------------------------------------------------------------------------------------------------------------


def start(name: str) -> float:
    """Milliseconds of CPU to import what a program of the side imports, in this process, which has imported little."""
    modules = IMPORTS[name]
    begin = time.process_time()
    for module in modules:
        import_module(module)
    return (time.process_time() - begin) * 1e3


IMPORTS = {
    "bare": ("httpx", "pydantic"),
    "engine": ("agentscope_rx",),
    "core": ("agentscope_rx",),
    "agentscope-1": ("agentscope.agent", "agentscope.model", "agentscope.tool"),
    "agentscope-2": ("agentscope.agent", "agentscope.model", "agentscope.tool"),
    "langgraph": ("langchain.agents", "langchain_openai"),
    "openai-agents": ("agents",),
    "pydantic-ai": ("pydantic_ai", "pydantic_ai.models.openai"),
    "smolagents": ("smolagents",),
    "strands": ("strands", "strands.models.openai"),
}

_CASES = (turns, chunks, subscribed, readers, subscribers, first, agents, live, tools, ahead, memory)
IN_PROCESS = {case.__name__: case for case in _CASES}
OVER_HTTP = {case.__name__: case for case in (http_turns, http_chunks, http_agents)}


def measured(name: str, case: str, count: int) -> float:
    """The number, in this process."""
    if case == "start":
        return start(name)
    if case in IN_PROCESS:
        return asyncio.run(IN_PROCESS[case](side(name), count))
    with serving() as url:
        return asyncio.run(OVER_HTTP[case](side(name), count, url))


def main() -> None:
    """Measure, and print the value with the seconds of CPU that it has taken, without the imports of the side."""
    name, case, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
    if case != "start":
        side(name)
    begin = time.process_time()
    value = measured(name, case, count)
    print(json.dumps({"value": value, "seconds": time.process_time() - begin}))


if __name__ == "__main__":
    main()
