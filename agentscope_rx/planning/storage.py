"""`PlanStorage`: where plans go that are finished, abandoned or replaced.

By default a notebook keeps them in its state, which belongs to the conversation and is saved with it. A storage keeps
them elsewhere instead, for all conversations of its notebook:

    PlanNotebook(storage=InMemoryPlanStorage())
    PlanNotebook(storage=SessionPlanStorage(JsonSession("plans"), "team"))
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import cast

from agentscope_rx.errors import InvalidInputError, SavedStateError
from agentscope_rx.plan import Plan
from agentscope_rx.reactive import Flow, concat_map, defer, just
from agentscope_rx.reactive.kernel.forking import new_lock
from agentscope_rx.session import Session
from agentscope_rx.session.session import ListTail


class PlanStorage(ABC):
    """The port of historical plans: those that were finished, abandoned or replaced.

        PlanNotebook(storage=InMemoryPlanStorage())
        PlanNotebook(storage=SessionPlanStorage(JsonSession("plans"), "team"))

    Without one, a notebook keeps them in its state, which is saved with the conversation. A plan is added before it
    leaves the notebook: an end in between loses nothing, and if it fails, the plan goes on.
    """

    @abstractmethod
    def add(self, plan: Plan) -> Flow[None]:
        """Keep the plan, in the place of one with the same id.

        Signals: one None when it is kept; an error if it is not.
        Cancels: nothing that has begun, or the whole: never a part.
        """

    @abstractmethod
    def plans(self) -> Flow[tuple[Plan, ...]]:
        """All plans that are kept, the oldest first.

        Signals: one tuple; an error.
        Cancels: the reading.
        """


class InMemoryPlanStorage(PlanStorage):
    """Keeps plans in this process."""

    def __init__(self) -> None:
        self._lock = new_lock()
        self._plans: dict[str, Plan] = {}

    def add(self, plan: Plan) -> Flow[None]:
        def put() -> Flow[None]:
            with self._lock:
                self._plans = {**self._plans, plan.id: plan}
            return just(None)

        return defer(put)

    def plans(self) -> Flow[tuple[Plan, ...]]:
        return defer(lambda: just(tuple(self._plans.values())))

    def __repr__(self) -> str:
        return f"<InMemoryPlanStorage {len(self._plans)} plans>"


class SessionPlanStorage(PlanStorage):
    """Plans in a list of a session, under this key. It must not be the key of a conversation.

    A plan that is archived again is appended again; the last of each id counts.
    """

    ENTRY = "plans"

    def __init__(self, session: Session, key: str) -> None:
        self._session = session
        self._key = key

    def add(self, plan: Plan) -> Flow[None]:
        # the tail needs no knowledge of what is there: two writers lose nothing of each other
        tail = {self.ENTRY: ListTail([plan.to_dict()])}
        return self._session.save_all(self._key, {}, tail).pipe(concat_map(_stored))

    def plans(self) -> Flow[tuple[Plan, ...]]:
        def read(items: Sequence[object]) -> tuple[Plan, ...]:
            found: dict[str, Plan] = {}
            for index, item in enumerate(items):
                try:
                    plan = Plan.from_dict(cast("Mapping[str, object]", item))
                except InvalidInputError as error:
                    raise SavedStateError(self._key, f"item {index} of entry {self.ENTRY!r}: {error}") from error
                found[plan.id] = plan
            return tuple(found.values())

        def load() -> Flow[tuple[Plan, ...]]:
            saved = self._session.load_all(self._key, (self.ENTRY,))
            return saved.pipe(concat_map(lambda each: just(read(each.lists.get(self.ENTRY, ())))))

        return defer(load)

    def __repr__(self) -> str:
        return f"<SessionPlanStorage {self._key!r} in {self._session!r}>"


def _stored(version: str | None) -> None:
    """`add` emits None."""
