"""The measurements, each in a process that prints one number: `python -m benchmarks.cases engine turns 100`."""

from __future__ import annotations

import asyncio
import gc
import importlib
import resource
import sys
import time
from collections.abc import Awaitable, Callable

from benchmarks.script import Script


def cpu(main: Callable[[], Awaitable[object]], per: int, unit: float = 1e6, repeat: int = 3) -> float:
    """CPU time of the best of some runs, divided by `per`, in units of 1/`unit` seconds."""

    async def measured() -> float:
        gc.collect()
        start = time.process_time()
        await main()
        return time.process_time() - start

    return min(asyncio.run(measured()) for _ in range(repeat)) / per * unit


def turns(who: str, count: int) -> float:
    """Microseconds of CPU per turn: one model round with one tool call."""
    return cpu(_turns(who, count), count, repeat=1 if count >= 10_000 else 3)


def memory(who: str, count: int) -> float:
    """Peak memory of a run, in KiB per turn above what was in use before it."""
    main = _turns(who, count)
    asyncio.run(_call(_turns(who, 1)))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    asyncio.run(_call(main))
    return (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / count


def chunks(who: str, count: int) -> float:
    """Microseconds of CPU per text chunk, through a subscription to `stream()`."""
    return cpu(_chunks(who, count, pulled=False), count)


def pulled(who: str, count: int) -> float:
    """Microseconds of CPU per text chunk, through `async for`."""
    return cpu(_chunks(who, count, pulled=True), count)


def started(who: str, count: int) -> float:
    """Microseconds of CPU per text chunk of a run begun by `start()`, through a subscription to its `events()`."""
    return cpu(_started(who, count, subscribers=1), count)


def shared(who: str, count: int) -> float:
    """The same through three subscriptions."""
    return cpu(_started(who, count, subscribers=3), count)


def first(who: str, count: int) -> float:
    """Microseconds from the call to the first chunk, in a process that has made one before."""

    async def main() -> float:
        times: list[float] = []
        for _ in range(count):
            start = time.perf_counter()
            seen: list[float] = []
            await _first(who, seen)
            times.append(seen[0] - start)
        return sorted(times)[len(times) // 2]

    return asyncio.run(main()) * 1e6


def agents(who: str, count: int) -> float:
    """Microseconds of CPU per agent, `count` at once with a model that takes 50 ms."""

    async def main() -> None:
        if who == "bare":
            from benchmarks import bare

            await asyncio.gather(*(bare.run(bare.scripted(Script(seconds=0.05)), len) for _ in range(count)))
        else:
            from benchmarks import engine, models

            await asyncio.gather(*(engine.agent(models.slow(0.05)).call("go").as_task() for _ in range(count)))

    return cpu(main, count)


def fan_out(who: str, count: int) -> float:
    """The same as the members of one `FanOutPipeline`; beside it loops without a pipeline, gathered."""

    async def main() -> None:
        if who == "bare":
            from benchmarks import bare

            await asyncio.gather(*(bare.run(bare.scripted(Script(seconds=0.05)), len) for _ in range(count)))
        else:
            from agentscope_rx import FanOutPipeline
            from benchmarks import engine, models

            members = [engine.agent(models.slow(0.05)) for _ in range(count)]
            for number, member in enumerate(members):
                member.name = f"{member.name}{number}"
            await FanOutPipeline(members).call("go")

    return cpu(main, count)


def slow_tools(who: str, count: int) -> float:
    """Milliseconds until `count` async tools of 50 ms, called in one turn, have their results."""
    return _wall(_slow_tools(who, count, blocking=False))


def slow_sync_tools(who: str, count: int) -> float:
    """The same with blocking tools on threads."""
    return _wall(_slow_tools(who, count, blocking=True))


def tools(who: str, count: int) -> float:
    """Microseconds of CPU per call of a tool that does nothing; beside it a validated call of its function."""
    return cpu(_tools(who, count), count)


def limited_tools(who: str, count: int) -> float:
    """The same for a tool that has a limit, which lets a sixteenth of the calls begin at once."""
    return cpu(_tools(who, count, limited=True), count)


def streaming(who: str, count: int) -> float:
    """Microseconds of CPU per chunk of an answer that comes over HTTP; the connection is open already."""
    from benchmarks.over_http import WHO
    from benchmarks.sse_server import serving

    async def main(url: str) -> float:
        async with WHO[who](url) as read:
            spent = [await _cpu_of(read) for _ in range(6)]
            return min(spent[1:])

    with serving(count) as url:
        return asyncio.run(main(url)) / count * 1e6


def streams(who: str, count: int) -> float:
    """Peak memory of 1,000 answers of so many chunks that come at once, in KiB for each."""
    from benchmarks.over_http import WHO
    from benchmarks.sse_server import serving

    async def main(url: str) -> float:
        async with WHO[who](url) as read:
            await read()
            before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            await asyncio.gather(*(read() for _ in range(1_000)))
            return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before

    with serving(count) as url:
        return asyncio.run(main(url)) / 1_000


def start(who: str, count: int) -> float:
    """Milliseconds to import what is needed."""
    begin = time.perf_counter()
    if who == "bare":
        importlib.import_module("httpx")
        importlib.import_module("pydantic")
    else:
        importlib.import_module("agentscope_rx")
    return (time.perf_counter() - begin) * 1e3


async def _cpu_of(main: Callable[[], Awaitable[object]]) -> float:
    gc.collect()
    begin = time.process_time()
    await main()
    return time.process_time() - begin


async def _call(main: Callable[[], Awaitable[object]]) -> None:
    await main()


def _turns(who: str, count: int) -> Callable[[], Awaitable[object]]:
    if who == "bare":
        from benchmarks import bare

        return lambda: bare.run(bare.scripted(Script(count)), len)
    from benchmarks import engine, models

    async def main() -> None:
        await engine.agent(models.turns(count), count + 1).call("go")

    return main


def _chunks(who: str, count: int, *, pulled: bool) -> Callable[[], Awaitable[object]]:
    seen: list[object] = []
    if who == "bare":
        from benchmarks import bare

        return lambda: bare.run(bare.scripted(Script(pieces=count)), seen.append)
    from benchmarks import engine, models

    async def push() -> None:
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        engine.agent(models.chunks(count)).stream("go").subscribe(
            seen.append, done.set_exception, lambda: done.set_result(None)
        )
        await done

    async def pull() -> None:
        async for event in engine.agent(models.chunks(count)).stream("go"):
            seen.append(event)

    return pull if pulled else push


def guarded_chunks(count: int, *, secrets: bool) -> Callable[[], Awaitable[object]]:
    """Chunks that are held back until a check has judged them."""
    from agentscope_rx.guardrails import GuardrailsHook, Secrets, guardrail
    from benchmarks import engine, models

    check = Secrets() if secrets else guardrail("output")(lambda request: None)
    someone = engine.agent(models.sentences(count))
    someone.hooks.add(GuardrailsHook(check))

    async def push() -> None:
        async for _ in someone.stream("go"):
            pass

    return push


def _started(who: str, count: int, *, subscribers: int) -> Callable[[], Awaitable[object]]:
    if who == "bare":
        return _chunks(who, count, pulled=False)
    from benchmarks import engine, models

    seen: list[object] = []

    async def main() -> None:
        handle = engine.agent(models.chunks(count)).start("go")
        for _ in range(subscribers):
            handle.events().subscribe(seen.append)
        await handle.idle()

    return main


def _wall(main: Callable[[], Awaitable[object]], repeat: int = 5) -> float:
    async def measured() -> float:
        begin = time.perf_counter()
        await main()
        return time.perf_counter() - begin

    # the best: on a busy machine the others tell of the machine
    return min(asyncio.run(measured()) for _ in range(repeat)) * 1e3


def _slow_tools(who: str, count: int, *, blocking: bool) -> Callable[[], Awaitable[object]]:
    if who == "bare":
        from benchmarks import bare

        return lambda: bare.slow_tools(count, blocking=blocking)
    from benchmarks import engine, models

    return lambda: engine.slow_agent(models.batch(count, "nap_blocking" if blocking else "nap")).call("go")


def _tools(who: str, count: int, *, limited: bool = False) -> Callable[[], Awaitable[object]]:
    if who == "bare":
        from benchmarks import bare

        return lambda: bare.tools(count)
    from benchmarks import engine

    return lambda: engine.tools(count, limited=limited)


async def _first(who: str, seen: list[float]) -> None:
    if who == "bare":
        from benchmarks import bare

        await bare.run(bare.scripted(Script(pieces=1)), lambda chunk: seen.append(time.perf_counter()))
        return
    from agentscope_rx.events import ReasoningChunkEvent
    from benchmarks import engine, models

    def note(event: object) -> None:
        if isinstance(event, ReasoningChunkEvent):
            seen.append(time.perf_counter())

    done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    agent = engine.agent(models.chunks(1))
    agent.stream("go").subscribe(note, done.set_exception, lambda: done.set_result(None))
    await done


_ALL = (
    turns,
    memory,
    chunks,
    pulled,
    started,
    shared,
    first,
    agents,
    fan_out,
    slow_tools,
    slow_sync_tools,
    tools,
    limited_tools,
    streaming,
    streams,
    start,
)
CASES = {case.__name__: case for case in _ALL}

if __name__ == "__main__":
    print(CASES[sys.argv[2]](sys.argv[1], int(sys.argv[3])))
