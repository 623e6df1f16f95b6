"""`window`: the newest messages of a conversation that fit into a number of tokens.

    system messages at the beginning | summary | messages that must be there, if they are older | the newest messages

A compaction goes first: it changes memory for good, and what it has left is what the window is cut from. The window
changes one request, and memory not at all: with hooks that compact (see `Hook.compact`) it is the last resort, for what
they could not make small enough. So let them act below `max_tokens`.

The view is cut in steps, by the rule of `TruncatingModel`, so that prompt caches stay valid. The walk goes from the end
and counts what is sent, each message once: the ten-thousandth turn costs as much as the first.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import NamedTuple

from agentscope_rx.errors import ConfigurationError, PromptTooLongError
from agentscope_rx.frozen_values import dataclass
from agentscope_rx.memory.views import View, system_head, view_of
from agentscope_rx.messages import Msg, MsgRole, ToolResultBlock, ToolUseBlock
from agentscope_rx.models.tokens import EstimatedTokens, MessageCounts, TextCounter, TokenCounter
from agentscope_rx.models.tokens.cuts import Cut, steady
from agentscope_rx.models.wire.speaker_names import AS_IT_IS

Measure = Callable[[Msg], int]


def window(
    messages: Sequence[Msg],
    max_tokens: int,
    counter: TokenCounter | None = None,
    *,
    keep: float = 0.7,
    pending: Collection[str] = (),
    marked: bool = True,
) -> Sequence[Msg]:
    """The newest messages that fit into `max_tokens`, by the laws above; `PromptTooLongError` if too few would fit.

    `pending` are the ids of calls that must be there although messages follow them. `marked=False` says that no
    message has a mark. See `TokenWindow` for the others.
    """
    return TokenWindow(max_tokens, counter, keep=keep).of(messages, pending=pending, marked=marked)


@dataclass(frozen=True, slots=True)
class TokenWindow:
    """A view of the newest messages, of at most `max_tokens`.

    The system prompt and the tools of a request are not counted. The view:

    - fits: it has at most `max_tokens`; `PromptTooLongError` if the necessary messages have more
    - has the necessary messages: the last user message, the newest messages that belong together, calls without a
      result, the summary
    - is legal: no result without its call, no call without the results that it has
    - begins well: with a user's message, a summary or a system message, if there is one
    - is steady: it is cut in steps: at least the fraction `keep` of the limit stays in use, so that prompt caches stay
      valid
    - is cheap: only the messages that are sent are counted, so the ten-thousandth turn costs as much as the first
    - is the same sequence: if all messages fit

    `counter` counts the tokens (default: an estimate). Memory is not changed. A compaction comes first: let it act
    below `max_tokens`.
    """

    max_tokens: int
    counter: TokenCounter | None = None
    keep: float = 0.7

    def __post_init__(self) -> None:
        if type(self.max_tokens) is not int or self.max_tokens < 1:
            raise ConfigurationError(f"max_tokens must be a whole number >= 1, not {self.max_tokens!r:.60}.")
        if not 0 <= self.keep < 1:
            raise ConfigurationError(f"keep is a fraction of max_tokens: 0 <= keep < 1, not {self.keep!r:.60}.")
        if self.counter is None:
            object.__setattr__(self, "counter", EstimatedTokens())
        elif not isinstance(self.counter, TokenCounter):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigurationError(f"counter must be a TokenCounter, such as EstimatedTokens, not {self.counter!r}.")

    @property
    def measure(self) -> Measure:
        """Counts the tokens of one message; counts are cached."""
        counter = self.counter
        assert counter is not None
        return counter.message if isinstance(counter, TextCounter) else _counts_of(counter)

    def of(self, messages: Sequence[Msg], *, pending: Collection[str] = (), marked: bool = True) -> Sequence[Msg]:
        """Returns the view of these messages."""
        return self.of_view(view_of(messages) if marked else View(messages, system_head(messages)), pending=pending)

    def of_view(self, view: View, *, pending: Collection[str] = ()) -> Sequence[Msg]:
        """Like `of`, for messages whose marks and short forms are applied; the head of the view always stays."""
        assert self.counter is not None
        fixed = self.counter.count(())
        found = _Window(view, self.max_tokens - fixed, self.measure, self.keep, pending).view()
        if isinstance(found, int):
            raise PromptTooLongError(tokens=fixed + found, max_tokens=self.max_tokens)
        return found


_FOREIGN: dict[int, tuple[TokenCounter, MessageCounts]] = {}


def _counts_of(counter: TokenCounter) -> Measure:
    """The counts that are kept for a counter that keeps none."""
    known = _FOREIGN.get(id(counter))
    if known is None or known[0] is not counter:
        if len(_FOREIGN) >= 64:
            _FOREIGN.clear()
        known = _FOREIGN[id(counter)] = (counter, MessageCounts(lambda message: counter.count((message,))))
    return known[1]


class Segment(NamedTuple):
    """Messages from `start` to `stop`, between which no call is separated from its results."""

    start: int
    stop: int


def segments(messages: Sequence[Msg], begin: int = 0) -> Iterator[Segment]:
    """The shortest segments, from the end of the messages to `begin`. A result without any call is one by itself."""
    stop = at = len(messages)
    orphans: set[str] = set()
    while at > begin:
        waiting: set[str] = set()
        while at > begin:
            at -= 1
            results, calls = ids_in(messages[at])
            waiting |= results - orphans
            waiting -= calls
            if not waiting:
                break
        if waiting:
            # no message has their calls: begin this segment again without them
            orphans |= waiting
            at = stop
            continue
        yield Segment(at, stop)
        stop = at


def ids_in(message: Msg) -> tuple[set[str], set[str]]:
    """The ids of the results and of the calls in a message."""
    results: set[str] = set()
    calls: set[str] = set()
    for block in message.content:
        if type(block) is ToolResultBlock:
            results.add(block.id)
        elif type(block) is ToolUseBlock and message.role is MsgRole.ASSISTANT:
            calls.add(block.id)
    return results, calls


class _Window:
    """The making of one view."""

    def __init__(
        self,
        view: View,
        limit: int,
        measure: Measure,
        keep: float,
        pending: Collection[str],
    ) -> None:
        messages = view.messages
        self._messages = messages
        self._limit = limit
        self._measure = measure
        self._keep = keep
        self._pending = pending
        self._head = view.head
        self._summarized = view.head > 0 and messages[view.head - 1].role is not MsgRole.SYSTEM
        self._walk = segments(messages, self._head)
        self._walked: list[Segment] = []
        self._roles: dict[int, MsgRole] = {}
        """The role of the first message of a segment, by its start."""

    def view(self) -> Sequence[Msg] | int:
        """The view; if too few messages fit, the tokens of those that must be there."""
        top = self._at(range(self._head))
        left = self._limit - sum(map(self._measure, top))
        cuts, whole = self._cuts(left)
        if whole:
            return self._messages
        needed = self._needed()
        totals = [Cut(at, tokens + self._tokens_of(n for n in needed if n < at)) for at, tokens in cuts]
        fitting = [cut for cut in totals if cut.tokens <= left]
        if not fitting:
            return self._limit - left + (totals[0].tokens if totals else self._tokens_of(needed))
        at = steady(self._beginning_well(fitting, needed), self._keep * left)
        older = self._at([n for n in needed if n < at])
        return [*top, *older, *self._at(range(at, len(self._messages)))]

    def _cuts(self, left: int) -> tuple[list[Cut], bool]:
        """The places where the conversation may be cut, newest first; and True if no cut is needed."""
        cuts: list[Cut] = []
        tokens = 0
        for segment in self._segments():
            own = self._at(range(*segment))
            tokens += sum(map(self._measure, own))
            if tokens > left and cuts:
                return cuts, False
            cuts.append(Cut(segment.start, tokens))
            self._roles[segment.start] = own[0].role
        return cuts, tokens <= left

    def _at(self, numbers: Iterable[int]) -> Sequence[Msg]:
        return [self._messages[number] for number in numbers]

    def _tokens_of(self, numbers: Iterable[int]) -> int:
        return sum(map(self._measure, self._at(numbers)))

    def _segments(self) -> Iterator[Segment]:
        """The segments from the end; those that were walked before are not walked again."""
        yield from self._walked
        for segment in self._walk:
            self._walked.append(segment)
            yield segment

    def _segment_of(self, number: int) -> Segment:
        return next(each for each in self._segments() if each.start <= number)

    # --- what must be there ---------------------------------------------------------------------------------------

    def _needed(self) -> list[int]:
        """The indexes of messages that must be there, in order; the newest segment is there in any case."""
        needed = set(self._users_before(len(self._messages)))
        for number in self._waiting_calls():
            segment = self._segment_of(number)
            needed.update(range(*segment), self._users_before(segment.start))
        return sorted(needed)

    def _users_before(self, at: int) -> Iterator[int]:
        """The last user message before this index; if it stands between a call and a result, the one before, too."""
        number = at - 1
        while number >= self._head:
            message = self._messages[number]
            if message.role is MsgRole.USER and not message.metadata.get(AS_IT_IS):
                yield number
                start = self._segment_of(number).start
                if start == number:
                    return
                number = start
            number -= 1

    def _waiting_calls(self) -> list[int]:
        """The messages with calls without a result: the last assistant message, and those of `pending`."""
        sought, answered = set(self._pending), set[str]()
        found: list[int] = []
        last = True
        for number in range(len(self._messages) - 1, self._head - 1, -1):
            if not last and not sought:
                break
            results, calls = ids_in(self._messages[number])
            if self._messages[number].role is MsgRole.ASSISTANT:
                if (calls - answered) and (last or calls & sought):
                    found.append(number)
                sought -= calls
                last = False
            answered |= results
        return found

    def _beginning_well(self, fitting: Sequence[Cut], needed: Sequence[int]) -> Sequence[Cut]:
        """The cuts after which the view begins with a user's message; all of them if there is none."""
        if self._summarized:
            return fitting
        first = next((n for n in needed if self._messages[n].role is MsgRole.USER), None)
        if first is None:
            return fitting
        good = [cut for cut in fitting if cut.at > first or self._roles[cut.at] is MsgRole.USER]
        return good or fitting
