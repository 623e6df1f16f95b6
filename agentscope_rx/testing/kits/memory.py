"""`check_memory`: the laws of the `Memory` port."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator, Sequence
from functools import partial
from typing import overload

from agentscope_rx.memory import Memory, sent
from agentscope_rx.memory.short_forms import shortened
from agentscope_rx.messages import (
    HIDDEN,
    ImageBlock,
    Msg,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
    URLSource,
)
from agentscope_rx.testing.kits.probe import Probe
from agentscope_rx.testing.kits.publisher import apply_rules
from agentscope_rx.testing.kits.publisher_rules import Publisher
from agentscope_rx.testing.kits.rules import Kit, KitReport, check_factory, equal, name_of, require
from agentscope_rx.testing.record import DroppedErrors

Make = Callable[[], Memory]
A, B, C = (Msg.user(letter, "Ann").replace(id=f"id-{letter}") for letter in "abc")


def check_memory(make: Make, *, name: str | None = None, real_time: bool = False) -> KitReport:
    """Check the memories that `make` returns; each call of it makes a new and empty one.

    The rules are the laws of `Memory`, and those of a publisher for `get` and `add`.
    """
    check_factory(make, "Memory", "lambda: InMemoryMemory()")
    kit = Kit(name or name_of(make), real_time=real_time)
    make = kit.named(make)
    for rule, law, check in LAWS:
        kit.check(rule, law, partial(check, make))
    apply_rules(kit, Publisher(lambda: make().get(), ahead=None), "get ")
    apply_rules(kit, Publisher(lambda: make().add([A, B]), lambda: make().add(_Failing()), ahead=None), "add ")
    return kit.report()


async def _contents(memory: Memory) -> list[Msg]:
    return list(await memory.get())


async def _holds(memory: Memory, *messages: Msg) -> None:
    equal([each.id for each in await memory.get()], [each.id for each in messages], "the messages (by id)")
    equal(await _contents(memory), list(messages), "the conversation")


async def _order(make: Make, dropped: DroppedErrors) -> None:
    memory = make()
    await _holds(memory)
    await memory.add([A])
    await memory.add([B, C])
    await memory.add([])
    await _holds(memory, A, B, C)


async def _whole(make: Make, dropped: DroppedErrors) -> None:
    memory = make()
    call = ToolUseBlock("c1", "look", {"city": "Paris", "deep": {"list": [1, None, 2.5, True]}})
    messages = [
        Msg.user([TextBlock("look \ud83d\ude00 \x00"), ImageBlock(URLSource("https://example.com/a.png"))], "Ann"),
        Msg.assistant([ThinkingBlock("hm", "signature"), TextBlock("I look."), call], "Friday"),
        Msg.tool(ToolResultBlock("c1", "look", (TextBlock("sunny"),))),
        Msg.user("thanks", "Ann").replace(metadata={"key": {"inner": [1, "two"]}}),
    ]
    await memory.add(messages)
    await _holds(memory, *messages)


async def _one_signal(make: Make, dropped: DroppedErrors) -> None:
    memory = make()
    expected = [
        ("add", memory.add([A]), None),
        ("replace", memory.replace(A), True),
        ("replace, of none", memory.replace(B), False),
        ("delete, of none", memory.delete(["x"]), 0),
        ("delete", memory.delete([A.id]), 1),
        ("clear", memory.clear(), None),
    ]
    for operation, flow, value in expected:
        probe = await Probe().start(flow).end()
        probe.verify()
        equal((probe.values, probe.completed), ([value], True), f"what {operation} signals")
        equal(type(probe.values[0]), type(value), f"the type of what {operation} signals")


async def _cold(make: Make, dropped: DroppedErrors) -> None:
    memory = make()
    add, get, clear = memory.add([A]), memory.get(), memory.clear()
    replace, delete = memory.replace(A.replace(content="changed")), memory.delete([A.id])
    await _holds(memory)
    await add
    equal(list(await get), [A], "what get reads when it is subscribed to")
    await add
    await _holds(memory, A, A)
    await clear
    require(await replace is False, "replace emitted True after clear")
    equal(await delete, 0, "the number that delete emits after clear")


class _Failing(Sequence[Msg]):
    """Two messages, of which the second cannot be read."""

    def __len__(self) -> int:
        return 2

    @overload
    def __getitem__(self, index: int) -> Msg: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Msg]: ...
    def __getitem__(self, index: int | slice) -> Msg | Sequence[Msg]:
        if index == 0:
            return B
        raise LookupError("the second message cannot be read")

    def __iter__(self) -> Iterator[Msg]:
        yield B
        raise LookupError("the second message cannot be read")


async def _atomic(make: Make, dropped: DroppedErrors) -> None:
    memory = make()
    await memory.add([A])
    probe = await Probe().start(memory.add(_Failing())).end()
    probe.verify()
    require(probe.error is not None, f"{probe.text}, for a sequence whose second message cannot be read")
    await _holds(memory, A)


async def _snapshot(make: Make, dropped: DroppedErrors) -> None:
    memory = make()
    given = [A, B]
    await memory.add(given)
    given.append(C)
    await _holds(memory, A, B)
    views: list[tuple[Sequence[Msg], list[Msg]]] = []
    for change in (
        memory.add([C]),
        memory.replace(B.replace(content="changed")),
        memory.delete([A.id]),
        memory.clear(),
    ):
        view = await memory.get()
        views.append((view, list(view)))
        await change
        for number, (seen, before) in enumerate(views):
            equal(list(seen), before, f"what get had read, {len(views) - number} changes later,")


async def _replace(make: Make, dropped: DroppedErrors) -> None:
    memory = make()
    await memory.add([A, B, C])
    changed = B.replace(content="changed")
    require(await memory.replace(changed) is True, "replace emitted no True for an id that is there")
    await _holds(memory, A, changed, C)
    require(
        await memory.replace(Msg.user("x").replace(id="unknown")) is False, "replace emitted no False for an unknown id"
    )
    await _holds(memory, A, changed, C)


async def _delete(make: Make, dropped: DroppedErrors) -> None:
    memory = make()
    await memory.add([A, B, C])
    equal(await memory.delete([A.id, "unknown", C.id]), 2, "the number of deleted messages")
    await _holds(memory, B)
    equal(await memory.delete([]), 0, "the number for no ids")
    equal(await memory.delete([A.id]), 0, "the number for an id that is gone")
    await memory.add([A])
    await _holds(memory, B, A)


async def _clear(make: Make, dropped: DroppedErrors) -> None:
    memory = make()
    await memory.clear()
    await memory.add([A, B])
    await memory.clear()
    await _holds(memory)
    await memory.add([C])
    await _holds(memory, C)


async def _apart(make: Make, dropped: DroppedErrors) -> None:
    one, other = make(), make()
    await one.add([A])
    await other.add([B])
    await _holds(one, A)
    await _holds(other, B)


def _pairs(writers: int, number: int) -> list[list[list[Msg]]]:
    return [
        [[Msg.user(half, f"{writer}-{index}") for half in ("first", "second")] for index in range(number)]
        for writer in range(writers)
    ]


async def _all_there(memory: Memory, pairs: list[list[list[Msg]]]) -> None:
    names = [message.name for message in await memory.get()]
    equal(len(names), sum(2 * len(each) for each in pairs), "the number of messages after concurrent adds")
    torn = [names[index : index + 2] for index in range(0, len(names), 2) if names[index] != names[index + 1]]
    require(not torn, f"messages that were added together are apart: {torn[:3]}")
    for writer, own in enumerate(pairs):
        order = [name for name in names[::2] if name.startswith(f"{writer}-")]
        equal(order, [pair[0].name for pair in own], "the order of one writer's messages")


async def _concurrent(make: Make, dropped: DroppedErrors) -> None:
    memory, pairs = make(), _pairs(5, 4)

    async def write(own: list[list[Msg]]) -> None:
        for pair in own:
            await memory.add(pair)

    await asyncio.gather(*(write(own) for own in pairs))
    await _all_there(memory, pairs)


async def _threads(make: Make, dropped: DroppedErrors) -> None:
    memory, pairs = make(), _pairs(3, 8)

    def write(own: list[list[Msg]]) -> None:
        for pair in own:
            memory.add(pair).run()

    loop = asyncio.get_running_loop()
    await asyncio.gather(*(loop.run_in_executor(None, write, own) for own in pairs))
    await _all_there(memory, pairs)


async def _disposed(make: Make, dropped: DroppedErrors) -> None:
    for turns in range(4):
        memory = make()
        await memory.add([A])
        probe = Probe().start(memory.add([B, C]))
        for _ in range(turns):
            await asyncio.sleep(0)
        if not probe.over:
            probe.dispose()
        await probe.end()
        found = await _contents(memory)
        require(found in ([A], [A, B, C]), f"after a disposal it holds {[each.id for each in found]}, a part")
        await memory.add([A])
        require((await _contents(memory))[-1] == A, "after a disposal an add was lost")


async def _marks(make: Make, dropped: DroppedErrors) -> None:
    memory = make()
    await memory.add([A.marked("seen", HIDDEN), B])
    require(memory.marked, "`marked` is False, although a message was added with marks")
    equal(
        [each.marks for each in await memory.get()],
        [frozenset(("seen", HIDDEN)), frozenset[str]()],
        "the marks that were added",
    )
    equal(await memory.update_messages_mark("seen", msg_ids=[B.id, "unknown"]), 1, "the number of marked messages")
    equal(await memory.update_messages_mark("done", "seen", [A.id]), 1, "the number of messages of a changed mark")
    await _holds(memory, A.marked("done", HIDDEN), B.marked("seen"))
    equal(await memory.update_messages_mark(None, HIDDEN), 1, "the number of messages that lost a mark")
    await _holds(memory, A.marked("done"), B.marked("seen"))
    found = [[each.id for each in await memory.get_memory(*marks)] for marks in (("seen",), (None, "seen"), ("x",))]
    equal(found, [[B.id], [A.id], []], "the messages that get_memory finds by mark, without a mark, and of no mark")


async def _marked_late(make: Make, dropped: DroppedErrors) -> None:
    for change in ("update_messages_mark", "replace"):
        memory = make()
        await memory.add([A, B])
        if change == "replace":
            await memory.replace(A.marked("m"))
        else:
            await memory.update_messages_mark("m", msg_ids=[A.id])
        require(memory.marked, f"`marked` is False, although {change} has marked a message")


async def _replaced_together(make: Make, dropped: DroppedErrors) -> None:
    memory = make()
    await memory.add([A, B, C])
    equal(await memory.replace_all([]), 0, "the number of messages replaced by none")
    missing = Msg.user("not there").replace(id="no such message")
    number = await memory.replace_all([A.marked("m"), missing, shortened(C, {0: TextBlock("short")})])
    equal(number, 2, "the number of messages replaced together")
    found = [(each.id, each.content, set(each.marks)) for each in await memory.get()]
    wanted = [(A.id, A.content, {"m"}), (B.id, B.content, set[str]()), (C.id, C.content, set[str]())]
    equal(found, wanted, "the messages that were replaced together")
    require(memory.marked, "`marked` is False, although replace_all has marked a message")
    equal([each.text for each in sent(await memory.get())][2:], ["short"], "what a request sends of a short form")


async def _short_forms(make: Make, dropped: DroppedErrors) -> None:
    memory = make()
    await memory.add([shortened(A, {0: TextBlock("short")}), B])
    require(memory.marked, "`marked` is False, although a message was added with a short form")
    await _holds(memory, shortened(A, {0: TextBlock("short")}), B)


async def _delete_by_mark(make: Make, dropped: DroppedErrors) -> None:
    memory = make()
    await memory.add([A.marked("old"), B, C.marked("old", "x")])
    equal(await memory.delete_by_mark("unknown"), 0, "the number for a mark that no message has")
    equal(await memory.delete_by_mark("old"), 2, "the number of messages deleted by mark")
    await _holds(memory, B)


async def _compressed(make: Make, dropped: DroppedErrors) -> None:
    memory = make()
    await memory.add([A, B, C])
    equal(await memory.compressed_summary(), "", "the summary of a conversation without one")
    equal(await memory.compress([A.id], "first"), 1, "the number of messages that were compressed")
    equal(await memory.compressed_summary(), "first", "the summary")
    equal(await memory.compress([B.id], "second"), 1, "the number of messages that were compressed later")
    equal(await memory.compressed_summary(), "second", "the summary that replaces the first")
    view = sent(await memory.get())
    equal([view[0].text, *[each.id for each in view[1:]]], ["second", C.id], "what a request sends")
    equal([each.id for each in await memory.get()], [A.id, B.id, C.id], "the messages that are kept")
    await memory.clear()
    equal(await memory.compressed_summary(), "", "the summary after clear")


async def _read(make: Make, dropped: DroppedErrors) -> None:
    memory = make()
    equal(await memory.count(), 0, "the number of messages of an empty conversation")
    await memory.add([A, B.marked("m"), C])
    equal([each.id async for each in memory.read()], [A.id, B.id, C.id], "the whole conversation (by id)")
    equal([each.id async for each in memory.read(mark="m")], [B.id], "the messages read by mark")
    equal([each.id async for each in memory.read(exclude_mark="m")], [A.id, C.id], "the messages read without a mark")
    equal(await memory.count(), 3, "the number of messages")


LAWS: tuple[tuple[str, str, Callable[[Make, DroppedErrors], Coroutine[object, object, None]]], ...] = (
    ("order", "messages are kept in the order in which they were added", _order),
    ("whole", "messages come back as they were added, with blocks and metadata", _whole),
    ("one signal", "an operation emits its one result, then completion", _one_signal),
    ("cold", "an operation takes place at each subscription, and not before", _cold),
    ("atomic", "an add stores all of its messages or none", _atomic),
    ("snapshot", "what was added, and what get has read, does not change later", _snapshot),
    ("replace", "replace changes the message of that id in its place, and emits True if there is one", _replace),
    ("delete", "delete removes the messages of these ids, and emits their number", _delete),
    ("clear", "clear removes all messages", _clear),
    ("apart", "two memories share nothing", _apart),
    ("concurrent", "adds at the same time are stored one after the other, each whole", _concurrent),
    ("threads", "adds from several threads are stored one after the other, each whole", _threads),
    ("disposal", "an add that is disposed is stored whole or not at all, and the memory works on", _disposed),
    ("marks", "messages keep their marks, which can be changed and searched for", _marks),
    ("marked late", "`marked` is true once any message has a mark", _marked_late),
    ("replaced together", "replace_all replaces the messages of these ids, and no others", _replaced_together),
    ("short forms", "a short form is kept with its message, and `marked` is true", _short_forms),
    (
        "delete by mark",
        "delete_by_mark removes the messages of that mark, and emits their number",
        _delete_by_mark,
    ),
    ("compressed", "compressed messages are kept, and one summary stands for all of them, until clear", _compressed),
    ("read", "read gives the whole conversation in order, and count its number", _read),
)
