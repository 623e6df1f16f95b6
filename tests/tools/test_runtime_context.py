"""RuntimeContext: found by type, the caller's own, from any thread; and its way to events, of which it is no part."""

from __future__ import annotations

import copy
import dataclasses
import pickle
import threading
from abc import ABC, abstractmethod
from typing import Annotated, Protocol, runtime_checkable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from reactivex import operators as ops

from agentscope_rx import Inject, ReActAgent, RuntimeContext, ToolContext, hook, tool
from agentscope_rx.errors import AgentScopeError, ContextError, InvalidInputError
from agentscope_rx.events import ActingChunkEvent, EventSource, PostActingEvent, PreActingEvent, PreReasoningEvent
from agentscope_rx.events.base import event_from_json
from agentscope_rx.testing import ScriptedModel, call


class Store(ABC):
    @abstractmethod
    def read(self) -> str: ...


class FileStore(Store):
    def read(self) -> str:
        return "file"


class MemoryStore(Store):
    def read(self) -> str:
        return "memory"


@runtime_checkable
class Readable(Protocol):
    def read(self) -> str: ...


class Writable(Protocol):
    def write(self) -> None: ...


# --- by type ----------------------------------------------------------------------------------------------------


@pytest.mark.spec("case 31")
def test_typed_access():
    """Java case 31, typedAccess: a value by its type, one under a key, none of another type."""
    store, other = FileStore(), FileStore()
    context = RuntimeContext(store, "text")
    context.put(other, "other")
    assert context.get(FileStore) is store
    assert context.get(FileStore, "other") is other
    assert context.get(FileStore, "third") is None
    assert context.get(MemoryStore) is None
    assert context.get(str) == "text"


@pytest.mark.spec("case 31")
def test_self_typed_access():
    """Java case 31, selfTypedAccess."""
    context = RuntimeContext()
    assert context.get(RuntimeContext) is context
    assert context.require(RuntimeContext) is context
    assert context.get(RuntimeContext, "other") is None


@pytest.mark.spec("case 31")
def test_typed_values_go_before_attributes_of_the_key():
    """Java case 31, merge priority: typed first, then an attribute of that name if it is of the type."""
    typed, named = FileStore(), FileStore()
    context = RuntimeContext(a=named, b="text", session_id="s", user_id="u")
    assert context.get(FileStore, "a") is named
    assert context.get(FileStore, "b") is None
    assert context.get(FileStore) is None
    context.put(typed, "a")
    assert context.get(FileStore, "a") is typed
    assert (context.get(str, "session_id"), context.get(str, "user_id")) == ("s", "u")
    assert RuntimeContext().get(str, "session_id") is None


@pytest.mark.parametrize("kind", [Store, Readable, object])
def test_a_base_class_or_protocol_finds_the_only_match(kind: type[object]):
    store = FileStore()
    assert RuntimeContext(store).get(kind) is store


@pytest.mark.parametrize("kind", [Store, Readable])
def test_several_that_would_do_are_an_error_that_names_them(kind: type[object]):
    context = RuntimeContext(FileStore(), MemoryStore())
    with pytest.raises(ContextError, match=r"FileStore, MemoryStore.*put\(value, as_=") as caught:
        context.get(kind)
    assert caught.value.wanted == kind.__name__
    assert context.get(FileStore) is not None


def test_put_as_says_which_is_meant():
    file, memory = FileStore(), MemoryStore()
    context = RuntimeContext(file, memory)
    context.put(memory, as_=Store)
    assert context.get(Store) is memory


def test_one_object_under_two_types_is_no_ambiguity():
    store = FileStore()
    context = RuntimeContext(store)
    context.put(store, as_=Store)
    assert context.get(Readable) is store


def test_an_unchecked_protocol_finds_what_was_put_as_it():
    store = FileStore()
    context = RuntimeContext(store)
    assert context.get(Writable) is None
    context.put(store, as_=Writable)
    assert context.get(Writable) is store


def test_require_names_what_is_missing():
    with pytest.raises(ContextError, match=r"holds no FileStore.*RuntimeContext") as caught:
        RuntimeContext(MemoryStore()).require(FileStore)
    assert isinstance(caught.value, LookupError) and isinstance(caught.value, AgentScopeError)
    assert caught.value.wanted == "FileStore"
    with pytest.raises(ContextError, match="under the key 'old'"):
        RuntimeContext(FileStore()).require(FileStore, "old")
    assert RuntimeContext(MemoryStore()).require(Store).read() == "memory"


def test_a_value_that_is_false_is_a_value():
    assert RuntimeContext(0).get(int) == 0
    assert RuntimeContext("").require(str) == ""


def test_put_replaces_and_remove_takes_out():
    one, two = FileStore(), FileStore()
    context = RuntimeContext(one)
    context.put(two)
    assert context.get(FileStore) is two
    assert context.remove(FileStore) is two
    assert context.remove(FileStore) is None
    assert context.get(FileStore) is None


@pytest.mark.parametrize(
    ("value", "as_", "said"),
    [
        (None, None, "remove"),
        (FileStore(), MemoryStore, "the value is of type FileStore"),
        (RuntimeContext(), None, "another"),
    ],
)
def test_what_cannot_be_put(value: object, as_: type | None, said: str):
    with pytest.raises(InvalidInputError, match=said):
        RuntimeContext().put(value, as_=as_)


# --- by name ----------------------------------------------------------------------------------------------------


def test_attributes_are_a_mapping():
    context = RuntimeContext(tenant="acme")
    context.attributes["level"] = 3
    assert dict(context.attributes) == {"tenant": "acme", "level": 3}
    del context.attributes["tenant"]
    assert list(context.attributes) == ["level"]
    for name in context.attributes:
        # iteration is over the names of one moment
        context.attributes[name + "!"] = 1
    assert len(context.attributes) == 2
    with pytest.raises(InvalidInputError, match="named by a str"):
        context.attributes[3] = 1  # pyright: ignore[reportArgumentType]


def test_the_repr_tells_names_and_no_secrets():
    context = RuntimeContext("hunter2", token="hunter2")
    context.put("hunter2", "key")
    assert repr(context) == "<RuntimeContext str, str['key'], token>"
    assert repr(RuntimeContext()) == "<RuntimeContext empty>"
    assert "hunter2" not in repr(context.attributes)


# --- threads ----------------------------------------------------------------------------------------------------


@pytest.mark.spec("case 31")
def test_thread_safety():
    """Java case 31, threadSafety: no change is lost, no lookup fails while others change."""
    context = RuntimeContext()
    failures: list[BaseException] = []
    start = threading.Barrier(8)

    def work(number: int) -> None:
        try:
            start.wait(10)
            for index in range(200):
                key = f"{number}-{index}"
                context.put(key, key)
                context.attributes[key] = index
                assert context.get(str, key) == key
                assert key in list(context.attributes)
                if index % 2:
                    assert context.remove(str, key) == key
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert failures == []
    assert sum(context.remove(str, f"{n}-{i}") is not None for n in range(8) for i in range(200)) == 800
    assert len(context.attributes) == 1600


# --- a bag and a dict -------------------------------------------------------------------------------------------

KINDS = [int, str, bytes]
values = st.integers() | st.text(max_size=3) | st.binary(max_size=3)
steps = st.lists(
    st.tuples(st.just("put"), values, st.sampled_from(["", "a"]))
    | st.tuples(st.just("remove"), st.sampled_from(KINDS), st.sampled_from(["", "a"])),
    max_size=12,
)


@given(steps)
def test_it_behaves_as_a_dict_of_type_and_key(script: list[tuple[str, object, str]]):
    context, model = RuntimeContext(), dict[tuple[object, str], object]()
    for what, value, key in script:
        if what == "put":
            context.put(value, key)
            model[type(value), key] = value
        else:
            assert context.remove(value, key) == model.pop((value, key), None)  # pyright: ignore[reportArgumentType]
        for kind in KINDS:
            for each in ("", "a"):
                assert context.get(kind, each) == model.get((kind, each))


# --- events -----------------------------------------------------------------------------------------------------


@pytest.mark.spec("W25", "case 30")
def test_an_event_leads_to_the_context_of_its_call():
    """Java case 30 and W25: a hook reads it from the event, nothing is parked in the hook."""
    context = RuntimeContext(FileStore())
    event = PreReasoningEvent(source=EventSource("r", "a", ("r",), context))
    assert event.context is context
    assert event.replace(iteration=3).context is context
    assert copy.copy(event).context is context
    assert copy.deepcopy(event).context is context


def test_the_context_is_no_part_of_what_an_event_says():
    bare = PreReasoningEvent(source=EventSource("r", "a", ("r",)))
    full = PreReasoningEvent(source=EventSource("r", "a", ("r",), RuntimeContext("secret")))
    assert bare == full
    assert hash(bare.source) == hash(full.source)
    assert bare.to_json() == full.to_json()
    assert repr(bare.source) == repr(full.source)
    assert "secret" not in repr(full)


def test_an_event_read_back_has_an_empty_context():
    full = PreReasoningEvent(source=EventSource("r", "a", ("r",), RuntimeContext("secret")))
    for back in (event_from_json(full.to_json()), pickle.loads(pickle.dumps(full))):
        assert back == full
        assert back.source.context is None
        assert back.context.get(str) is None
        back.context.put("leak")
        assert PreReasoningEvent().context.get(str) is None


def test_a_context_survives_asdict_and_is_not_pickled():
    context = RuntimeContext(threading.Lock())
    said = dataclasses.asdict(EventSource("r", context=context))
    assert said["context"] is context
    with pytest.raises(TypeError, match="neither pickled nor saved"):
        pickle.dumps(context)
    assert copy.copy(context) is context


def test_a_context_written_into_json_by_hand_is_not_read():
    line = PreReasoningEvent(source=EventSource("r")).to_json().replace('"run_id"', '"context":{"a":1},"run_id"')
    try:
        back = event_from_json(line)
    except InvalidInputError:
        return
    assert back.source.context is None


# --- through an agent -------------------------------------------------------------------------------------------


@pytest.mark.spec("W21", "W25", "case 30")
def test_hooks_and_tools_share_the_context_of_their_call():
    """Java case 30; W21, W25: two assembled calls, run in the other order, with hooks that the agent shares."""
    seen: list[tuple[str, str | None]] = []

    @hook(PreActingEvent)
    def note(event: PreActingEvent) -> None:
        event.context.put(f"{event.context.session_id} from the hook")
        seen.append(("hook", event.context.session_id))

    @hook(PostActingEvent)
    def remember(event: PostActingEvent) -> None:
        seen.append(("after", event.context.get(str, "put by the tool")))

    @tool
    async def look(context: ToolContext, runtime: RuntimeContext, said: Annotated[str, Inject]) -> str:
        assert runtime is context.runtime
        context.emit(f"{context.agent} {context.path == (context.run_id,)}")
        runtime.put(f"{runtime.session_id} from the tool", "put by the tool")
        return said

    model = ScriptedModel([call("look")], ["done"], [call("look")], ["done"])
    agent = ReActAgent("Friday", model, tools=[look], hooks=[note, remember])
    first = agent.stream("go", context=RuntimeContext(session_id="one"))
    second = agent.stream("go", context=RuntimeContext(session_id="two"))
    for flow in (second, first):
        shown = [each for each in flow.pipe(ops.to_list()).run() if isinstance(each, ActingChunkEvent)]
        assert shown[0].chunk.text == "Friday True"
    assert seen == [
        ("hook", "two"),
        ("after", "two from the tool"),
        ("hook", "one"),
        ("after", "one from the tool"),
    ]


def test_an_agents_call_without_a_context_has_an_empty_one():
    @tool
    async def look(runtime: RuntimeContext) -> str:
        return repr(runtime)

    reply = ReActAgent("Friday", ScriptedModel([call("look")], ["done"]), tools=[look])
    reply.call("go").run()
    assert reply.memory.get().run()[-2].tool_results[0].text == "<RuntimeContext empty>"
