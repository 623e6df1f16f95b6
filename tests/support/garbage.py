"""What of ours is left to the garbage collector: whatever dies by reference counting is gone before."""

from __future__ import annotations

import asyncio
import gc
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager


def left_to_the_collector(main: Callable[[], Awaitable[object]]) -> Counter[str]:
    """Runs `main` twice, the second time without a collector; counts the objects of our classes in cycles by then."""

    async def measured() -> Counter[str]:
        # (what is made once, such as a thread or a cache, is made the first time)
        await main()
        await asyncio.sleep(0.005)
        with _no_collector():
            await main()
            await asyncio.sleep(0.005)
            gc.set_debug(gc.DEBUG_SAVEALL)
            gc.collect()
            found = Counter(type(each).__qualname__ for each in gc.garbage if _ours(each))
            gc.garbage.clear()
            return found

    return asyncio.run(measured())


def _ours(thing: object) -> bool:
    return type(thing).__module__.startswith("agentscope_rx")


@contextmanager
def _no_collector() -> Iterator[None]:
    # objects that are there already are not looked at, and stay so: `gc.unfreeze` would give the collector the whole
    # suite back (see `pytest_collection_finish` in tests/conftest.py)
    gc.freeze()
    gc.disable()
    try:
        yield
    finally:
        gc.set_debug(0)
        gc.enable()
