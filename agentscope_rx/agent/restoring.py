"""`restoring`: a saved state becomes the state of a conversation; `thaw_child`: the same for that of a sub-agent."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import cast

from agentscope_rx.agent.approvals import ApprovalRule, Approvals
from agentscope_rx.agent.conversation import Conversation
from agentscope_rx.agent.durable.journal import EffectJournal
from agentscope_rx.agent.ports import AgentCore
from agentscope_rx.agent.saved_state import (
    FrozenConversation,
    LoadedMessages,
    SavedChild,
    SavedPart,
    SavedState,
    check_agent,
    read_pending_output,
)
from agentscope_rx.agent.sub_agent.conversations import SubConversation, SubConversations
from agentscope_rx.memory import Memory
from agentscope_rx.reactive import Flow, just, shield, then


def apply_ends(state: SavedState, journal: EffectJournal) -> None:
    """Give the parts the states in which calls have left them that ended after this state was saved."""
    journal.ends = max(journal.ends, _last_end(state))
    for path, ended in journal.ended():
        _apply(state, path, ended.get("number", 0), ended.get("parts", {}))


def _last_end(state: SavedState) -> int:
    return max(state.get("settled", 0), *(_last_end(child["state"]) for child in state.get("children", ())), 0)


def _apply(state: SavedState, path: str, number: int, left: Mapping[str, Mapping[str, object] | None]) -> None:
    for child in state.get("children", ()):
        if child["call"] is not None and path.startswith(f"{child['call']}/"):
            _apply(child["state"], path.removeprefix(f"{child['call']}/"), number, left)
            return
    if number <= state.get("settled", 0):
        return
    parts = {name: each for name, each in state.get("parts", {}).items() if name not in left}
    changed = {name: each for name, each in left.items() if each is not None}
    state["parts"] = cast("dict[str, SavedPart]", {**parts, **changed})


def restoring(
    conversation: Conversation,
    state: SavedState | None,
    key: str,
    lists: Mapping[str, LoadedMessages],
    journal: EffectJournal | None = None,
) -> Callable[[], None]:
    """What puts the state in place; it is read and checked now."""
    output = None if state is None else read_pending_output(key, state)
    parts = {} if state is None else state.get("parts", {})
    children = [] if state is None else [_child(key, saved, lists) for saved in state.get("children", ()) if lists]

    def put() -> None:
        conversation.children = SubConversations(children) if children else None
        pending = None if state is None else state["pending"]
        conversation.pending = None if pending is None else frozenset(pending)
        answers = () if state is None else state["answers"]
        conversation.restore_approvals(Approvals(answers, () if state is None else _rules(state)))
        cut_off = None if state is None else state["cut_off"]
        conversation.cut_off = None if cut_off is None else tuple(cut_off)
        groups = None if state is None else state.get("groups")
        conversation.active_groups = None if groups is None else tuple(groups)
        conversation.interrupted = None if state is None else state.get("interrupted")
        conversation.output = output
        conversation.parts.restore(parts)
        conversation.settled = None
        conversation.unfinished = None if state is None else state.get("run")
        binding = conversation.binding
        within = binding is not None and binding.checkpoint == "stage"
        conversation.journal = EffectJournal() if journal is None and within else journal

    return put


def _rules(state: SavedState) -> list[ApprovalRule]:
    return [ApprovalRule(**rule) for rule in state["rules"]]


def _child(key: str, saved: SavedChild, lists: Mapping[str, LoadedMessages]) -> SubConversation:
    child = SubConversation(saved["id"], saved["tool"], saved["slot"])
    child.agent, child.label = saved.get("agent"), saved.get("label")
    child.call_id = saved["call"]
    child.begun = saved["begun"]
    child.reply = saved["reply"]
    child.answers = {answer.call_id: answer for answer in saved["answers"]}
    child.results = {result.id: result for result in saved["results"]}
    slot = f"{child.slot}"
    own = {place.removeprefix(slot).removeprefix("/"): each for place, each in lists.items() if _is_in(place, slot)}
    child.frozen = FrozenConversation(key, saved["state"], own)
    return child


def _is_in(place: str, slot: str) -> bool:
    return place == slot or place.startswith(f"{slot}/")


def thaw_child(child: SubConversation, agent: AgentCore, make: Callable[[], Memory]) -> Flow[Memory]:
    """The memory of a sub-agent's conversation: made at its first use, with the messages that were loaded for it.

    Signals: the memory; `SavedStateError` if the saved state is another agent's.
    Cancels: nothing: the writing, once begun, runs to its end.
    """
    if child.memory is not None:
        return just(child.memory)
    memory = make()
    frozen = child.frozen
    conversation = agent.conversation(memory)
    if frozen is None:
        child.memory, child.conversation = memory, conversation
        return just(memory)
    check_agent(frozen.key, agent.name, frozen.state)
    own = frozen.lists[""]
    beneath = {place: each for place, each in frozen.lists.items() if place}
    put_state = restoring(conversation, frozen.state, frozen.key, beneath)

    def done() -> Flow[Memory]:
        put_state()
        conversation.keep_items(own.messages, own.items)
        child.memory, child.conversation, child.frozen = memory, conversation, None
        return just(memory)

    return shield(memory.add(own.messages).pipe(then(done)))
