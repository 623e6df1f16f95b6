"""`ClassHooks`: the hooks of a class, which every agent of it and of its subclasses gets when it is built.

    class Audited(ReActAgent):
        class_hooks = (Audit(),)                  # with the class
    Audited.add_class_hook(timing)                # later; `remove_class_hook` removes it

Each class has its own hooks, and shares none with a base or a sibling. An agent takes the hooks of its class and of the
bases, base first, when it is built. A later change of the class concerns agents that are built later. (The hooks of one
agent change with `agent.hooks.add` and `remove`.)
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from agentscope_rx.errors import ConfigurationError
from agentscope_rx.hooks.base import Hook
from agentscope_rx.hooks.collection import Hooks
from agentscope_rx.hooks.compose import in_order
from agentscope_rx.hooks.methods import method_hooks
from agentscope_rx.reactive.kernel.forking import new_lock

_LOCK = new_lock()


class ClassHooks:
    """A base class whose subclasses have hooks: in `class_hooks`, and as methods.

    A method named by an event's type is a hook: `post_acting(self, event)`, `pre_reasoning`, `on_error`. A method with
    `@hook(Kind, priority=...)` may have any name. A misspelt name is a `ConfigurationError` when the agent is built.

    An agent gets the class hooks of its bases, base first, then its methods, then the `hooks` argument; priorities come
    before this order. A class shares its hooks with subclasses, not with bases or siblings. Changes are thread-safe.
    """

    class_hooks: ClassVar[Iterable[Hook]] = ()
    """The hooks of this class without those of its bases, in order of registration."""

    @classmethod
    def add_class_hook(cls, hook: Hook) -> None:
        """Add a hook to agents of this class and its subclasses that are built later."""
        if not isinstance(hook, Hook):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigurationError(f"{cls.__name__}.add_class_hook takes a Hook object, not {hook!r:.60}.")
        with _LOCK:
            cls.class_hooks = (*_own(cls), hook)

    @classmethod
    def remove_class_hook(cls, hook: Hook) -> None:
        """Remove the hook for agents that are built later; `ConfigurationError` if this class does not have it."""
        with _LOCK:
            own = _own(cls)
            rest = tuple(each for each in own if each is not hook)
            if len(rest) == len(own):
                elsewhere = [each.__name__ for each in cls.__mro__[1:] if hook in _own(each)]
                hint = f" It is a class hook of {elsewhere[0]}." if elsewhere else ""
                raise ConfigurationError(f"{cls.__name__} has no class hook {hook!r:.60} of its own.{hint}")
            cls.class_hooks = rest

    def _all_hooks(self, given: Iterable[Hook]) -> Hooks:
        """The hooks of the classes, base first, then methods, then the given ones."""
        # sorting twice is stable; the first time checks the given hooks
        own = () if isinstance(given, tuple) and not given else in_order(given)
        return Hooks((*class_hooks(type(self)), *method_hooks(self), *own), agent=getattr(self, "name", ""))


def class_hooks(cls: type) -> tuple[Hook, ...]:
    """The hooks of the class and of its bases, base first, each once."""
    with _LOCK:
        found = [hook for each in reversed(cls.__mro__) if "class_hooks" in vars(each) for hook in _own(each)]
    return tuple({id(hook): hook for hook in found}.values())


def _own(cls: type) -> tuple[Hook, ...]:
    hooks: object = vars(cls).get("class_hooks", ())
    if not isinstance(hooks, Iterable):
        raise ConfigurationError(f"{cls.__name__}.class_hooks must be a tuple of hooks, not {hooks!r:.60}.")
    own = tuple(hooks)  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
    for hook in own:  # pyright: ignore[reportUnknownVariableType]
        if not isinstance(hook, Hook):
            raise ConfigurationError(f"{cls.__name__}.class_hooks holds {hook!r:.60}, which is no Hook object.")
    return own  # pyright: ignore[reportUnknownVariableType]
