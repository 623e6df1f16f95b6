"""Hooks of a class: what every agent of this class, and of its subclasses, is built with.

    class Audited(ReActAgent):
        class_hooks = (Audit(),)                  # with the class
    Audited.add_class_hook(timing)                # later; `remove_class_hook` takes it back

Each class has hooks of its own; nothing is shared with a base or a sibling. An agent takes the hooks of its class and
of the bases, base first, when it is built: what is added to the class or removed from it later is for agents that are
built later. (One agent's own hooks change with `agent.hooks.add` and `remove`.)
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from agentscope_rx.errors import ConfigurationError
from agentscope_rx.hooks.base import Hook
from agentscope_rx.hooks.collection import Hooks
from agentscope_rx.hooks.methods import method_hooks
from agentscope_rx.reactive.kernel.forking import new_lock

_LOCK = new_lock()


class ClassHooks:
    """A class whose subclasses have hooks of their own, in `class_hooks` and as methods (see `hooks.methods`)."""

    class_hooks: ClassVar[Iterable[Hook]] = ()
    """Hooks of this very class, in order of registration; those of the bases stay with the bases."""

    @classmethod
    def add_class_hook(cls, hook: Hook) -> None:
        """Give the hook to this class: to agents of it, and of its subclasses, that are built from now on."""
        if not isinstance(hook, Hook):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigurationError(f"{cls.__name__}.add_class_hook takes a Hook object, not {hook!r:.60}.")
        with _LOCK:
            cls.class_hooks = (*_own(cls), hook)

    @classmethod
    def remove_class_hook(cls, hook: Hook) -> None:
        """Take the hook back from this class, for agents that are built from now on; an error if it has none such."""
        with _LOCK:
            own = _own(cls)
            rest = tuple(each for each in own if each is not hook)
            if len(rest) == len(own):
                elsewhere = [each.__name__ for each in cls.__mro__[1:] if hook in _own(each)]
                hint = f" It is a class hook of {elsewhere[0]}." if elsewhere else ""
                raise ConfigurationError(f"{cls.__name__} has no class hook {hook!r:.60} of its own.{hint}")
            cls.class_hooks = rest

    def _all_hooks(self, given: Iterable[Hook]) -> Hooks:
        """From the general to the particular: the classes' hooks, base first; methods; what was given."""
        # (sorted twice: stable, and the first time checks what was given)
        own = Hooks(given).all
        return Hooks((*class_hooks(type(self)), *method_hooks(self), *own), agent=getattr(self, "name", ""))


def class_hooks(cls: type) -> tuple[Hook, ...]:
    """The hooks of the class and of its bases, base first; each once."""
    with _LOCK:
        found = [hook for each in reversed(cls.__mro__) for hook in _own(each)]
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
