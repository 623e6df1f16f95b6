"""The words that a script is made of: frozen values whose repr can be pasted into a test.

Setup                 how the agent is built, and where it is saved
Call, Both, Observe, Restart      what happens, step by step
Say, Think, Wait, Use, Respond, Fails, Hangs      what the model does in one turn
"""

from __future__ import annotations

from dataclasses import dataclass

# --- what the model does ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Say:
    text: str = "Well. "


@dataclass(frozen=True)
class Think:
    text: str = "hm"


@dataclass(frozen=True)
class Wait:
    seconds: float = 0.5


@dataclass(frozen=True)
class Use:
    """A call of a tool; `split`: its arguments come in two pieces, half a second apart; `broken`: they are no JSON."""

    tool: str = "quick"
    n: int = 0
    split: bool = False
    broken: bool = False


@dataclass(frozen=True)
class Respond:
    """The output, by the tool or in words, as the call asks for it; in vain unless it is `right`."""

    right: bool = True


@dataclass(frozen=True)
class Fails:
    """The model fails; `again`: in a way that is worth another attempt."""

    again: bool = False


@dataclass(frozen=True)
class Hangs:
    """Silence, until the run is ended (ten seconds, where nothing else ends it)."""


Part = Say | Think | Wait | Use | Respond | Fails | Hangs
Turn = tuple[Part, ...]

# --- what a call is given ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Text:
    text: str = "go"


@dataclass(frozen=True)
class Nothing:
    pass


@dataclass(frozen=True)
class Answers:
    """One answer for each pending call, in their order or from the last: those not answered (or beyond) are left.

    approve, edit, always (the tool), always_so (these arguments), reject, never (the tool), result, leave.
    """

    answers: tuple[str, ...] = ("approve",)
    backwards: bool = False
    text: bool = False


@dataclass(frozen=True)
class Misfit:
    """Input that is to be refused: unknown, twice, placeholder, half (an answer to one of several, and text)."""

    kind: str = "unknown"


Given = Text | Nothing | Answers | Misfit

# --- how a run is ended, and what else happens ------------------------------------------------------------------------


@dataclass(frozen=True)
class End:
    """How a run is ended; `at` counts quarter seconds, or events.

    itself; dispose, cancel, interrupt, interrupt_with, interrupt_tool, shutdown: at a time;
    dispose_at, leave_at, raise_at, interrupt_at: at an event.

    `read`: not subscribed to, but pulled: slow, buffered, coalesced (by a reader who takes its time), stalled (by one
    who stops to read for long, at that event); not with what ends it at an event.
    """

    way: str = "itself"
    at: int = 0
    read: str = ""


@dataclass(frozen=True)
class Limit:
    """model_calls, tool_calls: of that many; deadline: in quarter seconds. `summary`: by a last word."""

    which: str = "model_calls"
    value: int = 1
    summary: bool = False


@dataclass(frozen=True)
class Output:
    mode: str = "tool"
    retries: int = 1
    text: bool = False


@dataclass(frozen=True)
class Meanwhile:
    """While a run goes on: observe (a peer is heard), peer (one writes into the memory), call (another one)."""

    what: str = "observe"
    at: int = 1


@dataclass(frozen=True)
class Call:
    given: Given = Text()
    turns: tuple[Turn, ...] = ()
    end: End = End()
    output: Output | None = None
    limit: Limit | None = None
    meanwhile: Meanwhile | None = None
    conversation: int = 0


@dataclass(frozen=True)
class Both:
    """Two calls at once, in two conversations."""

    first: Call = Call()
    second: Call = Call(conversation=1)


@dataclass(frozen=True)
class Observe:
    """words, calls (a peer's), own (calls of an agent of the same name)."""

    what: str = "words"
    conversation: int = 0


@dataclass(frozen=True)
class Restart:
    """The conversations are saved, the process ends, and another one loads them."""


Step = Call | Both | Observe | Restart


@dataclass(frozen=True)
class Hooked:
    """A hook that acts at the n-th event of its kind, counted over the whole script.

    stop_reasoning, stop_acting, goto, fail, fail_later; and always: sleepy, redact (results), reply (changes it),
    rewrite (adds to each answer), input (adds to the input), arguments (others); drop_calls (of the n-th answer);
    as operators over the chunks: held_back (each comes later), thinned (some do not come), doubled.
    """

    what: str = "sleepy"
    at: int = 0


@dataclass(frozen=True)
class Fault:
    """What memory is asked for the n-th time while a run goes on fails: raise (at the call), fail, late, after (it is
    done, and said to have failed). `session`: the saving of the conversation does."""

    way: str = "fail"
    at: int = 0
    session: bool = False


@dataclass(frozen=True)
class Setup:
    """`choice`: the tool that the model must call, or required; `choosy`: it takes no forced call of the response.

    `fault`: memory, or the session, fails once. `kit`: each permits, alone, rates; all siblings, narrow, total, groups.
    `around` it is a limited, fallback, breaker or hedged one. `same_ids`: it counts its calls from 1 in each answer."""

    parallel: bool = True
    max_iters: int = 3
    finish: str = "text"
    pending: str = "recover"
    hooks: tuple[Hooked, ...] = ()
    store: str = "memory"
    bound: bool = False
    remote: bool = False
    choice: str = ""
    choosy: bool = False
    around: str = ""
    same_ids: bool = False
    fault: Fault | None = None
    kit: str = ""


@dataclass(frozen=True)
class Script:
    setup: Setup = Setup()
    steps: tuple[Step, ...] = ()
