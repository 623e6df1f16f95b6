"""Random scripts, for hypothesis: short, with much that is pending, cut off and resumed."""

from __future__ import annotations

from hypothesis import strategies as st

from tests.support.scripts.ledger import TOOLS
from tests.support.scripts.steps import (
    Answers,
    Both,
    Call,
    End,
    Fails,
    Fault,
    Hangs,
    Hooked,
    Limit,
    Meanwhile,
    Misfit,
    Nothing,
    Observe,
    Output,
    Part,
    Respond,
    Restart,
    Say,
    Script,
    Setup,
    Text,
    Think,
    Use,
    Wait,
)

# (a worker thread has its own time: which of two is first is not said)
_USES = st.builds(Use, st.sampled_from(TOOLS), st.integers(0, 1), split=st.booleans())
_PARTS = st.one_of(
    _USES, _USES, _USES,
    st.just(Say()), st.just(Think()), st.just(Wait()), st.builds(Respond, st.booleans()),
    st.one_of(st.builds(Fails, st.booleans()), st.just(Hangs()), st.just(Use(broken=True))),
)  # fmt: skip


def _turns(*parts: st.SearchStrategy[Part]) -> st.SearchStrategy[tuple[tuple[Part, ...], ...]]:
    turns = (st.lists(each, min_size=1, max_size=size).map(tuple) for each, size in zip(parts, (3, 4), strict=True))
    return st.lists(st.one_of(*turns), max_size=3).map(tuple)


_TURNS = _turns(_USES, _PARTS)
_RESPONSES = st.builds(Respond, st.booleans())
_ASKED = _turns(_RESPONSES, st.one_of(_PARTS, _RESPONSES, _RESPONSES))

ANSWERS = ("approve", "edit", "always", "always_so", "reject", "never", "result", "leave")
_ANSWERS = st.builds(
    Answers,
    st.lists(st.sampled_from(ANSWERS), min_size=1, max_size=4).map(tuple),
    st.booleans(),
    st.booleans(),
)
_GIVEN = st.one_of(
    st.just(Text()), st.just(Text()), st.just(Text()),
    st.just(Nothing()),
    _ANSWERS, _ANSWERS, _ANSWERS,
    st.builds(Misfit, st.sampled_from(["unknown", "twice", "placeholder", "half"])),
)  # fmt: skip

TIMES = ("dispose", "cancel", "interrupt", "interrupt_with", "interrupt_tool", "shutdown")
READERS = ("slow", "buffered", "coalesced", "stalled")
PLACES = ("dispose_at", "leave_at", "raise_at", "interrupt_at")
_ENDS = st.one_of(
    st.just(End()), st.just(End()), st.just(End()),
    st.builds(End, st.sampled_from(["itself", *TIMES]), st.integers(0, 24), st.sampled_from(READERS)),
    st.builds(End, st.sampled_from(TIMES), st.integers(0, 5)),
    st.builds(End, st.sampled_from(TIMES), st.integers(0, 16)),
    st.builds(End, st.sampled_from(PLACES), st.integers(0, 8)),
    st.builds(End, st.sampled_from(PLACES), st.integers(0, 24)),
)  # fmt: skip


def _seldom(strategy: st.SearchStrategy[object]) -> st.SearchStrategy[object]:
    return st.one_of(st.none(), st.none(), st.none(), strategy)


_LIMITS = st.one_of(
    st.builds(Limit, st.sampled_from(["model_calls", "tool_calls"]), st.integers(1, 2), st.booleans()),
    st.builds(Limit, st.just("deadline"), st.integers(0, 12), st.booleans()),
)
_OUTPUTS = st.builds(Output, st.sampled_from(["tool", "native", "prompted"]), st.integers(0, 1), st.booleans())
_MEANWHILES = st.builds(Meanwhile, st.sampled_from(["observe", "peer", "call"]), st.integers(0, 8))


def _calls(conversation: st.SearchStrategy[int]) -> st.SearchStrategy[Call]:
    both = {
        "given": _GIVEN,
        "end": _ENDS,
        "limit": _seldom(_LIMITS),
        "meanwhile": _seldom(_MEANWHILES),
        "conversation": conversation,
    }
    plain = st.builds(Call, turns=_TURNS, **both)
    return st.one_of(plain, plain, plain, st.builds(Call, turns=_ASKED, output=_OUTPUTS, **both))


_ANY = _calls(st.sampled_from([0, 0, 0, 1]))
_STEPS = st.one_of(
    _ANY, _ANY, _ANY,
    st.one_of(
        st.just(Restart()),
        st.builds(Observe, st.sampled_from(["words", "calls", "own"]), st.integers(0, 1)),
        st.builds(Both, _calls(st.just(0)), _calls(st.just(1))),
    ),
)  # fmt: skip

_HOOKS = st.one_of(
    st.builds(
        Hooked,
        st.sampled_from(
            ["sleepy", "sleepy", "redact", "reply", "rewrite", "input", "arguments", "held_back", "thinned", "doubled"]
        ),
    ),
    st.builds(Hooked, st.sampled_from(["stop_reasoning", "stop_acting", "goto", "drop_calls"]), st.integers(0, 3)),
    st.builds(Hooked, st.sampled_from(["fail", "fail_later"]), st.integers(0, 40)),
)

FAULTS = ("raise", "fail", "late", "after")
KITS = ("permits", "alone", "rates", "siblings", "narrow", "total", "groups", "groups")


_FAULTS = st.one_of(
    st.builds(Fault, st.sampled_from(FAULTS), st.integers(0, 40)),
    st.builds(Fault, st.sampled_from(FAULTS), st.integers(0, 3), session=st.just(True)),
)


def scripts(
    *, files: bool = True, hooks: bool = True, same_ids: bool = True, faults: bool = True, steps: int = 8
) -> st.SearchStrategy[Script]:
    """Scripts of up to so many steps."""
    setups = st.builds(
        Setup,
        parallel=st.booleans(),
        max_iters=st.sampled_from([3, 3, 2, 1]),
        finish=st.sampled_from(["text", "text", "text", "tool"]),
        pending=st.sampled_from(["recover", "recover", "recover", "error"]),
        hooks=st.lists(_HOOKS, max_size=2).map(tuple) if hooks else st.just(()),
        store=st.sampled_from(["memory"] * 4 + (["files"] if files else [])),
        bound=st.booleans(),
        remote=st.sampled_from([False, False, False, True]),
        choice=st.sampled_from(["", "", "", "required", "quick"]),
        same_ids=st.booleans() if same_ids else st.just(False),
        around=st.sampled_from(["", "", "", "", "limited", "fallback", "breaker", "hedged"]),
        choosy=st.sampled_from([False, False, True]),
        fault=_seldom(_FAULTS) if faults else st.none(),
        kit=st.sampled_from(["", "", "", *KITS]),
    )
    return st.builds(Script, setups, st.lists(_STEPS, min_size=1, max_size=steps).map(tuple))
