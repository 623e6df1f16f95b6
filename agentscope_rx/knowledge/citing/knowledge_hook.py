"""`KnowledgeHook`: each call gets the passages that fit its question, and its reply says which of them it cites."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import chain, islice
from typing import Literal, get_args

from agentscope_rx.errors import ConfigurationError
from agentscope_rx.events import (
    CitationEvent,
    ErrorEvent,
    Event,
    EventSource,
    InputEvent,
    PostCallEvent,
    PreCallEvent,
    PreReasoningEvent,
    PreSummaryEvent,
    RetrievalEvent,
)
from agentscope_rx.hooks import Hook, NoticeRequest
from agentscope_rx.hooks.problem_reports import report_to
from agentscope_rx.hooks.question import last_user, said
from agentscope_rx.knowledge.citing.citations import citations_in, cited_by
from agentscope_rx.knowledge.citing.knowledge_tools import retrieval_tool
from agentscope_rx.knowledge.citing.numbers import adopt, number
from agentscope_rx.knowledge.citing.retriever import TIMEOUT, Retrieved, Retriever, Rewriter, bases_of
from agentscope_rx.knowledge.citing.scoping import checked_where, where_of
from agentscope_rx.knowledge.citing.wording import (
    EXPLANATION,
    HOW_TO_CITE,
    MAX_CHARACTERS,
    Shown,
    fitting,
    passages_message,
)
from agentscope_rx.knowledge.knowledge import LIMIT, Knowledge, check_threshold
from agentscope_rx.knowledge.where import Where
from agentscope_rx.messages import Msg
from agentscope_rx.messages.history import Joined
from agentscope_rx.models.checks import check_count, check_seconds
from agentscope_rx.parts import PartStates
from agentscope_rx.reactive import Flow, concat_map, empty, throw
from agentscope_rx.tools import Tool, ToolContext
from agentscope_rx.tools.background import BACKGROUND

KnowledgeMode = Literal["generic", "agentic", "both", "none"]
"""Passages for each call, the tool `retrieve_knowledge`, both, or neither."""
_MODES = get_args(KnowledgeMode)

_RUNS = 4096
"""Runs whose state is kept: one that is disposed of at its very end leaves what it has cited."""
_QUESTION = 4000
"""The characters of a question that are searched for."""


@dataclass(slots=True)
class _Call:
    """One call: its question so far, what was retrieved for it, and what its reply cites."""

    parts: PartStates | None
    asked: list[Msg] = field(default_factory=list[Msg])
    retrieved: bool = False
    shown: dict[int, Shown] = field(default_factory=dict[int, Shown])
    message: Msg | None = None
    images: bool = False
    cited: CitationEvent | None = None


class KnowledgeHook(Hook):
    """Gives each call the passages that fit its question, and checks the citations of its reply.

    `ReActAgent(knowledge=..., knowledge_mode=...)` installs one.

        PreCall, Input   the question: the text of the call's input
        before a round   rewrite |> search |> number --> Retrieval       once per question, in the place of no message
        PreReasoning     system | notes of a long-term memory | passages | history | hints
        PostCall         marks of the reply --> metadata["citations"] --> Citation

    The options:

    - `mode`: "generic": passages for each call; "agentic": the tool `retrieve_knowledge`; "both"; "none"
    - `limit`: the number of passages for a question; of the tool, unless the model asks for others
    - `threshold`: the least cosine similarity of a passage and the question, -1 to 1
    - `where`: which documents are searched, by their metadata; the call may narrow it (`KnowledgeScope` in its
      `RuntimeContext`)
    - `rewrite`: a `QueryRewriter`, or True for one with the agent's model: it makes the queries of the question and the
      conversation
    - `timeout`: seconds for the search of each base (None: no limit); a rewriter has its own
    - `max_characters`: characters of all passages of a request
    - `cite`: False: the model is not asked for citations, and its reply is not searched for them
    - `explanation`: the sentences before the passages
    - `on_error`: of a retrieval before a round: "report": to the dropped-error hook; "fail": it fails the run; or a
      function that gets it. Errors of the tool are error results
    - `in_sub_agents`: True: sub-agents of a `SubagentsHook` have the knowledge, too, with the same numbers

    How it works:

    - **Passages belong to one call**: they are in no memory, in no later call, and are never a question. A call that
      continues pending calls gets those for the last message of the user. Input during the run is a new question.
    - **A failing base** is reported in `error_text` of the `RetrievalEvent`, and the run goes on without its passages.
    - **Citations**: the model is asked to write `[1]` behind each statement that rests on a passage. When the call
      ends, the numbers are compared with the passages that it got: `citations_of(reply)` has those that exist,
      `CitationEvent.unknown` the others. Numbers go on through the conversation and are saved with it. Marks are `[1]`,
      `[1, 3]`, `[1][2]`, `[2-4]`, `[^1]` and `【1】`, but not in code or links. A right number does not prove the
      claim: compare the text.
    - **A passage cannot close its tag** or pass for another one. Its text is information, not an instruction; a
      model may follow it all the same.
    - Its `priority` lets it see input and reply as other hooks have left them, and puts the passages behind the notes
      of a `StaticLongTermMemory`.
    """

    kinds: tuple[type[Event], ...] | None = (
        PreCallEvent,
        InputEvent,
        PreReasoningEvent,
        PreSummaryEvent,
        PostCallEvent,
        ErrorEvent,
    )

    def __init__(
        self,
        knowledge: Knowledge | Sequence[Knowledge],
        *,
        mode: KnowledgeMode = "generic",
        limit: int = LIMIT,
        threshold: float | None = None,
        where: Where | None = None,
        rewrite: Rewriter | bool | None = None,
        timeout: float | None = TIMEOUT,
        max_characters: int = MAX_CHARACTERS,
        cite: bool = True,
        explanation: str = EXPLANATION,
        on_error: Literal["report", "fail"] | Callable[[Exception], object] = "report",
        in_sub_agents: bool = False,
        priority: int = 890,
    ) -> None:
        check_mode("mode", mode)
        check_threshold(threshold)
        check_count("limit", limit)
        check_count("max_characters", max_characters)
        check_seconds("timeout", timeout, optional=True)
        if on_error not in ("report", "fail") and not callable(on_error):
            raise ConfigurationError(f"on_error must be 'report', 'fail' or a function, not {on_error!r:.60}.")
        if not isinstance(rewrite, (bool, type(None))) and not callable(getattr(rewrite, "rewrite", None)):
            raise ConfigurationError(f"rewrite must be a QueryRewriter, True, False or None, not {rewrite!r:.60}.")
        for name, switch in (("cite", cite), ("in_sub_agents", in_sub_agents)):
            if not isinstance(switch, bool):  # pyright: ignore[reportUnnecessaryIsInstance]
                raise ConfigurationError(f"{name} must be True or False, not {switch!r:.60}.")
        self.mode: KnowledgeMode = mode
        self.limit = limit
        self.cite = cite
        self.in_sub_agents: bool = in_sub_agents
        self.priority: int = priority
        self._rewrite: Rewriter | bool | None = rewrite
        self._where = checked_where("where", where)
        self._max_characters = max_characters
        self._explanation = f"{explanation} {HOW_TO_CITE}" if cite else explanation
        self._on_error: object = on_error
        self._retriever = Retriever(bases_of(knowledge, "knowledge"), threshold=threshold, timeout=timeout)
        self._calls: OrderedDict[str, _Call] = OrderedDict()

    @property
    def bases(self) -> tuple[Knowledge, ...]:
        """The knowledge bases."""
        return self._retriever.bases

    def tools(self) -> tuple[Tool, ...]:
        if self.mode not in ("agentic", "both"):
            return ()
        options = (self._retriever, self.limit, self._where, self._max_characters)
        return (retrieval_tool(*options, cite=self.cite, seen=self._seen),)

    def on_event(self, event: Event) -> Event | None:
        if self.mode == "none":
            return None
        match event:
            case PreCallEvent():
                # (an operator around the call may try its beginning again)
                self._calls.pop(event.run_id, None)
                call = self._call(event)
                call.asked.extend(event.input)
                if self.cite:
                    adopt(self._numbered(event), citations_in(chain(event.history, event.input)))
            case InputEvent():
                self._take(event)
            case PreReasoningEvent() | PreSummaryEvent():
                message = self._call(event).message
                return None if message is None else event.replace(messages=Joined((message,), event.messages))
            case PostCallEvent() if self.cite:
                return self._cited(event)
            case ErrorEvent():
                self._calls.pop(event.run_id, None)
            case _:
                pass
        return None

    def notices(self, request: NoticeRequest) -> Flow[Event] | Event | None:
        if self.mode == "none":
            return None
        if request.before == "end":
            ended = self._calls.pop(request.run_id, None)
            return None if ended is None else ended.cited
        call = self._call(request)
        known = None if request.model is None else request.model.capabilities
        call.images = known is not None and known.images
        if call.retrieved or self.mode == "agentic" or request.limit_reached:
            return None
        return request.history.pipe(concat_map(partial(self._retrieve, request, call)))

    def revised(self, source: EventSource, history: Sequence[Msg]) -> Sequence[Msg]:
        """Changes no message: the run has ended, so the hook forgets its passages."""
        self._calls.pop(source.run_id, None)
        return ()

    # --- the question -------------------------------------------------------------------------------------------------

    def _take(self, event: InputEvent) -> None:
        """Input to the run in progress is a new question; the end of work in the background is none."""
        new = said(each for each in event.input if BACKGROUND not in each.metadata)
        if not new:
            return
        call = self._call(event)
        # a question that was not searched for yet is asked together with this one
        call.asked = [*new] if call.retrieved else [*call.asked, *new]
        call.retrieved = False
        if self.cite:
            adopt(self._numbered(event), citations_in(new))

    def _retrieve(self, request: NoticeRequest, call: _Call, history: Sequence[Msg]) -> Flow[Event]:
        asked = said(call.asked) or said(last_user(history))
        question = _shortened("\n".join(each.text for each in asked).strip())
        if not question:
            call.retrieved = True
            return empty()
        where = where_of(request.context, self._where)
        ids = {each.id for each in asked}
        before = said(each for each in history if each.id not in ids)

        def search(rewritten: Retrieved) -> Flow[Event]:
            found = self._retriever.search(rewritten.queries, self.limit, where=where)
            return found.pipe(concat_map(partial(self._found, request, call, question, rewritten)))

        return self._retriever.rewritten(self._rewriter(request), question, before).pipe(concat_map(search))

    def _rewriter(self, request: NoticeRequest) -> Rewriter | None:
        if self._rewrite is True and request.model is not None:
            from agentscope_rx.knowledge.retrieval.rewriting import QueryRewriter

            return QueryRewriter(request.model)
        return None if isinstance(self._rewrite, bool) else self._rewrite

    def _found(
        self, request: NoticeRequest, call: _Call, question: str, rewritten: Retrieved, found: Retrieved
    ) -> Event | Flow[Event]:
        for problem in found.problems:
            if self._on_error == "fail":
                return throw(problem)
            self._report(problem, request.agent)
        passages = fitting(found.passages, self._max_characters)
        citations = number(self._numbered(request), passages)
        call.retrieved = True
        # what was found last comes first, and stays if not all fit
        shown = dict(zip((each.number for each in citations), zip(citations, passages, strict=True), strict=True))
        call.shown = {**shown, **{key: each for key, each in call.shown.items() if key not in shown}}
        if call.shown:
            kept = self._fitting(call)
            # (what has no room now never has: what is found later stands before it)
            call.shown = dict(islice(call.shown.items(), len(kept)))
            call.message = passages_message(kept, self._explanation, images=call.images)
        return RetrievalEvent(
            source=request.source,
            question=question,
            queries=found.queries,
            bases=self._retriever.names,
            passages=citations,
            elapsed=rewritten.elapsed + found.elapsed,
            usage=rewritten.usage,
            model_name=rewritten.model_name,
            error_text="; ".join(text for text in (rewritten.rewriting_problem, found.error_text) if text),
        )

    def _fitting(self, call: _Call) -> list[Shown]:
        kept = fitting((passage for _, passage in call.shown.values()), self._max_characters)
        return [(citation, passage) for (citation, _), passage in zip(call.shown.values(), kept, strict=False)]

    # --- citations ----------------------------------------------------------------------------------------------------

    def _cited(self, event: PostCallEvent) -> Event | None:
        call = self._call(event)
        found = cited_by(event.message, self._numbered(event))
        if found is None:
            return None
        message, citations, unknown = found
        call.cited = CitationEvent(source=event.source, message_id=message.id, citations=citations, unknown=unknown)
        return None if message is event.message else event.replace(message=message)

    # --- state --------------------------------------------------------------------------------------------------------

    def _call(self, event: Event | NoticeRequest) -> _Call:
        call = self._calls.get(event.run_id)
        if call is None:
            call = self._calls[event.run_id] = _Call(event.source.parts)
            while len(self._calls) > _RUNS:
                self._calls.popitem(last=False)
        return call

    def _numbered(self, event: Event | NoticeRequest) -> PartStates | None:
        """Where the numbers are kept: in the outermost run that has this hook, so that its sub-agents share them."""
        outer = self._calls.get(event.path[0]) if event.path else None
        return event.source.parts if outer is None else outer.parts

    def _seen(self, context: ToolContext) -> tuple[PartStates | None, bool]:
        """Where the numbers of a tool call are kept, and True if the model of its run can see pictures."""
        outer = self._calls.get(context.path[0]) if context.path else None
        call = self._calls.get(context.run_id)
        return context.parts if outer is None else outer.parts, call is not None and call.images

    def _report(self, error: Exception, agent: str) -> None:
        listener = self._on_error if callable(self._on_error) else None
        report_to(listener, error, f"retrieving for a call of agent {agent!r}", "on_error of a KnowledgeHook")


def check_mode(name: str, mode: object) -> None:
    """`ConfigurationError` for anything but a `KnowledgeMode`."""
    if mode not in _MODES:
        raise ConfigurationError(f"{name} must be 'generic', 'agentic', 'both' or 'none', not {mode!r:.60}.")


def _shortened(question: str) -> str:
    """A question may stand before or after a long text."""
    half = _QUESTION // 2
    return question if len(question) <= _QUESTION else f"{question[:half]}\n{question[-half:]}"
