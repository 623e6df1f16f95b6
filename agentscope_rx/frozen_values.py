"""`dataclass` for frozen values: cheap to import, and to make not much dearer than plain objects.

    from agentscope_rx.frozen_values import dataclass

    @dataclass(frozen=True, slots=True)
    class ToolUseDelta: ...

It is the `dataclass` of the standard library, for type checkers too, with two differences in the methods of a frozen
class with slots. They are compiled when they are first looked up: a program makes few of the library's 300 kinds of
values and compares fewer, and to compile all methods took a third of the import's time. And its `__init__` is quick.

The `__init__` that the standard library writes calls `object.__setattr__` for each field. The quick one has the same
signature and stores the fields as a class without protection does: for this time the new object is of the *twin*, a
subclass without slots of its own whose `__setattr__` is `object`'s, so that the interpreter specialises the stores. The
object is of its own class again before `__post_init__` and before anyone else has it. All else of the class stays.

| nanoseconds, CPython 3.11, two fields given | 2 fields | 5 fields | 9 fields |
|---------------------------------------------|----------|----------|----------|
| `__init__` of a frozen dataclass            | 630      | 1050     | 1620     |
| the quick one                               | 470      | 580      | 640      |
| a plain class with slots                    | 340      | 380      | 440      |

msgspec's frozen `Struct` takes 190 for nine fields, but it is no dataclass: `dataclasses.replace`, fields that are not
compared, pydantic's schemas and subclasses by `@dataclass` would be lost.

**The rule**: a frozen value with slots is declared with this `dataclass`.

- A subclass that inherits this `__init__` gets its fields by `object.__setattr__`, as in every frozen dataclass.
- With an audit hook of the process (`sys.addaudithook`), each change of the class is an event `object.__setattr__`.
- An interpreter without the GIL stops all threads to change a class, so there the `__init__` of `dataclass` stays.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable, Iterable
from dataclasses import MISSING, FrozenInstanceError, fields
from functools import cache, partial, update_wrapper
from types import FunctionType, MemberDescriptorType
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, cast

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass

    from _typeshed import DataclassInstance
else:

    def dataclass(**options: bool) -> Callable[[type], type]:
        """That of the standard library, for frozen classes with slots as the module says."""
        return partial(_declared, options=options)


P = ParamSpec("P")
V = TypeVar("V")

_FEW = 2
"""So many fields are stored faster through the descriptors of their slots than by a change of the class."""
_HAS_GIL: bool = getattr(sys, "_is_gil_enabled", lambda: True)()
_become = object.__dict__["__class__"].__set__


def filler(cls: type[object]) -> Callable[..., None]:
    """`fill(self, *fields)` for the `__init__` of a class that has its own: stores all fields, in their order."""
    writer = _Writer(cls)
    return writer.function("fill", (writer.me,), writer.fill())


def unchecked(cls: Callable[P, V]) -> Callable[P, V]:
    """The class as a function that leaves out `__post_init__`, for values that are known to pass its checks.

    If the class has an `__init__` of its own, the function takes all fields, in their order.
    """
    writer = _Writer(cast("type[object]", cls))
    return cast("Callable[P, V]", writer.function("unchecked", (), writer.make()))


def replaced(value: V, /, **changes: object) -> V:
    """`dataclasses.replace(value, **changes)`, quickly."""
    kind = type(value)
    values: dict[str, Any] = {name: getattr(value, name) for name in _init_names(kind)}
    values.update(changes)
    return kind(**values)


@cache
def _init_names(cls: type[object]) -> tuple[str, ...]:
    return tuple([each.name for each in fields(cast("type[DataclassInstance]", cls)) if each.init])


_OPTIONS = {"__init__": "init", "__repr__": "repr", "__eq__": "eq", "__hash__": "unsafe_hash"}
"""The methods that are compiled late, and the option of `dataclass` that asks for each alone."""


def _declared(cls: type[V], options: dict[str, bool]) -> type[V]:
    """The dataclass with these options."""
    own = vars(cls).keys()
    # the text of a missing docstring is the signature
    if not (options.get("frozen") and options.get("slots") and cls.__doc__) or own & {"__eq__", "__hash__"}:
        return dataclasses.dataclass(**options)(cls)
    late = [each for each in ("init", "repr", "eq") if options.get(each, True) and f"__{each}__" not in own]
    # a subclass of a frozen class must be declared as such
    frozen = any("__dataclass_params__" in vars(base) for base in cls.__mro__[1:])
    made = dataclasses.dataclass(**{**options, **dict.fromkeys(late, False), "frozen": frozen})(cls)
    for option in (*late, "frozen"):
        setattr(vars(made)["__dataclass_params__"], option, True)
    for each in (*late, "hash") if "eq" in late else late:
        type.__setattr__(made, f"__{each}__", _LateMethod(made, f"__{each}__"))
    if not frozen:
        _freeze(made)
    return made


@dataclasses.dataclass(frozen=True, slots=True)
class _Frozen:
    """Has the methods for pickle that the standard library gives to frozen classes with slots."""


def _freeze(cls: type[object]) -> None:
    """Protect the fields of a class as `dataclass(frozen=True)` does, which would compile two functions for that."""
    names = frozenset([each.name for each in fields(cast("type[DataclassInstance]", cls))])

    def __setattr__(self: object, name: str, value: object) -> None:
        if type(self) is cls or name in names:
            raise FrozenInstanceError(f"cannot assign to field {name!r}")
        super(cls, self).__setattr__(name, value)

    def __delattr__(self: object, name: str) -> None:
        if type(self) is cls or name in names:
            raise FrozenInstanceError(f"cannot delete field {name!r}")
        super(cls, self).__delattr__(name)

    type.__setattr__(cls, "__setattr__", __setattr__)
    type.__setattr__(cls, "__delattr__", __delattr__)
    for each in {"__getstate__", "__setstate__"} - vars(cls).keys():
        type.__setattr__(cls, each, vars(_Frozen)[each])


class _LateMethod:
    """Stands for a method in the namespace of its class; whoever looks it up gets the method, which replaces this."""

    __slots__ = ("_cls", "_name")

    def __init__(self, cls: type[object], name: str) -> None:
        self._cls, self._name = cls, name

    def __get__(self, value: object, owner: type[object] | None = None) -> object:
        method = self._written()
        if self._name == "__init__":
            method = _quick(self._cls, method)
        type.__setattr__(self._cls, self._name, method)
        return method if value is None else method.__get__(value, owner)

    def _written(self) -> FunctionType:
        """What the standard library writes for the fields of the class; it writes the same for a subclass."""
        cls, wanted = self._cls, _OPTIONS[self._name]
        names = {"__module__": cls.__module__, "__qualname__": cls.__qualname__, "__doc__": cls.__doc__}
        options = {option: option == wanted for option in _OPTIONS.values()}
        model = dataclasses.dataclass(frozen=True, slots=True, **options)(type(cls.__name__, (cls,), names))
        return cast("FunctionType", vars(model)[self._name])


def _quick(cls: type[object], old: FunctionType) -> FunctionType:
    """The quick `__init__` with the signature of `old`; `old` where the interpreter has no use for it."""
    if not _HAS_GIL:
        return old
    writer = _Writer(cls, old)
    new = writer.function("__init__", (writer.me,), [*writer.fill(), *writer.post_init()])
    update_wrapper(new, old)
    # no wrapper: it must not keep the old one alive
    del new.__dict__["__wrapped__"]
    return new


class _Writer:
    """Writes functions that store the fields of a class; `_scope` has the objects that the names in them stand for."""

    def __init__(self, cls: type[object], init: FunctionType | None = None) -> None:
        params = cls.__dict__.get("__dataclass_params__")
        if params is None or not params.frozen:
            raise TypeError(f"{cls.__qualname__} is no frozen dataclass, so there is nothing to make quick.")
        self._cls = cast("type[DataclassInstance]", cls)
        self._scope: dict[str, object] = {"__class": cls, "__type": type, "__put": object.__setattr__}
        self._read_parameters(init or cast("FunctionType", cls.__init__) if params.init else None)
        self._read_fields()
        self._add_ways_to_store()

    def _read_parameters(self, init: FunctionType | None) -> None:
        """The parameters of the `__init__` that `dataclass` wrote; else all fields, without defaults."""
        self.me = "self"
        self._positional = tuple([each.name for each in fields(self._cls)])
        self._keyword: tuple[str, ...] = ()
        self._defaults: tuple[object, ...] = ()
        self._keyword_defaults: dict[str, object] = {}
        if init:
            names, count = init.__code__.co_varnames, init.__code__.co_argcount
            # "self", unless a field has this name
            self.me, self._positional = names[0], names[1:count]
            self._keyword = names[count : count + init.__code__.co_kwonlyargcount]
            self._defaults, self._keyword_defaults = init.__defaults__ or (), init.__kwdefaults__ or {}

    def _read_fields(self) -> None:
        """The names of the fields that are stored, and the lines that come before: values of fields without one."""
        given = {*self._positional, *self._keyword}
        defaults = dict(zip(reversed(self._positional), reversed(self._defaults), strict=False))
        defaults |= self._keyword_defaults
        self._stored: list[str] = []
        self._before: list[str] = []
        for each in fields(self._cls):
            name = each.name
            if name not in given and each.default is MISSING and each.default_factory is MISSING:
                continue
            self._stored.append(name)
            self._scope[f"__default_{name}"] = each.default
            self._scope[f"__factory_{name}"] = each.default_factory
            if name not in given:
                made = f"__default_{name}" if each.default_factory is MISSING else f"__factory_{name}()"
                self._before.append(f"{name} = {made}")
            elif name in defaults and each.default_factory is not MISSING:
                # the default of the parameter stands for "call the factory"
                self._scope[f"__unset_{name}"] = defaults[name]
                self._before.append(f"if {name} is __unset_{name}: {name} = __factory_{name}()")
        # InitVars are parameters, but not fields
        every = self._cls.__dataclass_fields__
        self._passed = [name for name in every if name in given and name not in self._stored]

    def _add_ways_to_store(self) -> None:
        for name in self._stored:
            slot = getattr(self._cls, name, None)
            if not isinstance(slot, MemberDescriptorType):
                raise TypeError(f"{self._cls.__qualname__}.{name} has no slot: add `slots=True` to @dataclass.")
            self._scope[f"__put_{name}"] = slot.__set__
        # both methods share a slot of the type: with one of them alone the stores would stay calls
        own = {"__setattr__": object.__setattr__, "__delattr__": object.__delattr__}
        own |= {"__slots__": (), "__module__": self._cls.__module__}
        self._scope["__twin"] = type(f"{self._cls.__name__}_in_making", (self._cls,), own)
        self._scope |= {"__become": _become, "__new": object.__new__}

    def _stores(self, first: str) -> list[str]:
        """The lines that store the fields in an object of the class itself; `first` makes it one of the twin."""
        if not _HAS_GIL or len(self._stored) <= _FEW:
            return [f"__put_{name}({self.me}, {name})" for name in self._stored]
        return [first, *[f"{self.me}.{name} = {name}" for name in self._stored], f"{self.me}.__class__ = __class"]

    def fill(self) -> list[str]:
        """The lines that fill an object, also one of a subclass, which may have another layout."""
        quick = self._stores(f"__become({self.me}, __twin)")
        slow = [f"__put({self.me}, {name!r}, {name})" for name in self._stored]
        if not quick:
            return [*self._before, "pass"]
        return [*self._before, f"if __type({self.me}) is __class:", *_indented(quick), "else:", *_indented(slow)]

    def make(self) -> list[str]:
        """The lines that make an object and return it."""
        quick = _HAS_GIL and len(self._stored) > _FEW
        new = f"{self.me} = __new({'__twin' if quick else '__class'})"
        stores = self._stores(new) if quick else [new, *self._stores("")]
        return [*self._before, *stores, f"return {self.me}"]

    def post_init(self) -> list[str]:
        """The line that calls `__post_init__`, if there is one."""
        has_one = hasattr(self._cls, "__post_init__")
        return [f"{self.me}.__post_init__({', '.join(self._passed)})"] if has_one else []

    def function(self, name: str, first: tuple[str, ...], body: Iterable[str]) -> FunctionType:
        """The function of this body; its parameters are `first` and those of the class."""
        optional = [f"{each}=None" for each in (*self._positional, *(("*",) if self._keyword else ()), *self._keyword)]
        head = ", ".join([*first, *["*" if each == "*=None" else each for each in optional]])
        lines = [f"def {name}({head}):", *_indented(body)]
        scope = dict(self._scope)
        exec(compile("\n".join(lines), f"<frozen value {self._cls.__qualname__}>", "exec"), scope)  # noqa: S102
        made = cast("FunctionType", scope[name])
        # the values themselves, which no source can name; those that have none are required again
        made.__defaults__, made.__kwdefaults__ = self._defaults, self._keyword_defaults
        return made


def _indented(lines: Iterable[str]) -> list[str]:
    return [f"    {line}" for line in lines]
