"""`GuardrailsHook`: checks of input, output, tool calls and tool results that stop, replace or warn."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import cast

from reactivex import Observable
from reactivex import operators as ops

from agentscope_rx.errors import ConfigurationError
from agentscope_rx.events import (
    Event,
    EventSource,
    InputEvent,
    PostActingEvent,
    PostReasoningEvent,
    PostSummaryEvent,
    PreActingEvent,
    PreCallEvent,
    PreObserveEvent,
)
from agentscope_rx.guardrails.answer_checks import AnswerChecks
from agentscope_rx.guardrails.check_request import CheckRequest, with_text
from agentscope_rx.guardrails.core import GUARDRAILS, GuardCore, OnStop, Refused, settled
from agentscope_rx.guardrails.judging import Outcome, judge
from agentscope_rx.guardrails.port import Guardrail, check_guardrail
from agentscope_rx.guardrails.state import GuardState, part_of
from agentscope_rx.guardrails.tool_checks import ToolChecks
from agentscope_rx.guardrails.verdict import Finding
from agentscope_rx.guardrails.windows import Thinking, WindowOptions
from agentscope_rx.hooks import Hook, ModelRequest, ToolRequest
from agentscope_rx.messages import ContentBlock, Msg, ToolResultBlock, ToolUseBlock
from agentscope_rx.messages.msg import new_id
from agentscope_rx.models import ChatResponse
from agentscope_rx.reactive import Flow, concat_map, flow, from_iterable, just
from agentscope_rx.tools import Tool, ToolEvent

REPLY = "I cannot go on with this: {reason}"
NOTICE = "[This message was removed by a guardrail.]"

ModelOperator = Callable[[Observable[ChatResponse], ModelRequest], Flow[ChatResponse]]
ToolOperator = Callable[[Observable[ToolEvent], ToolRequest], Observable[ToolEvent]]


class GuardrailsHook(Hook):
    """Runs checks on input, output, tool calls and tool results. A check may stop, replace or warn.

    | checks of | are asked | after a stop |
    |---|---|---|
    | `input` | before it is remembered | the run ends with the reply |
    | `output` | about each window of text, before it is shown | the text shown so far is void; `reply` is the answer |
    | `tool_call` | before approvals; slow checks as the call begins | the call is not run; the model reads why |
    | `tool_result` | before it is shown and remembered | the model reads why, in its place |

    | option | |
    |---|---|
    | `on_stop` | `"reply"`, or `"error"`: a stop fails the run with a `GuardrailError` |
    | `reply` | ends a stopped run, unless the verdict has one; `{reason}` and `{guardrail}` are filled in |
    | `refused` | memory of a stopped input: `"notice"` in its place, `"hide"` (never sent again), `"keep"` |
    | `notice` | the text of that notice |
    | `on_warning` | gets each warning, a `Finding` |
    | `max_delay`, `max_chars` | text is held until a sentence or line ends, at most so long and so much |
    | `thinking` | `"hold"`: judged as text is; `"drop"`: removed; `"show"`: shown unjudged |

    - **Several checks** work at once. The first stop cancels the others; of several that replace, each is asked about
      what those before it have left.
    - **Failures**: a check that raises, is late (`timeout`) or returns something else counts as a stop; with
      `on_error="pass"` as a pass. The error is reported either way.
    - **A parallel check** of the input works beside the model: nothing of the answer is shown, remembered or acted on
      until the verdict. An input that is remembered already is replaced at the end of the run. If the run is
      interrupted before the verdict, the input is judged with the next request.
    - **Nothing of an answer is shown or remembered before its checks have passed it**, except with `thinking="show"`,
      and the arguments of tool calls, which `tool_call` checks judge. Pictures and audio are not judged.
    - **The shown text is the remembered text**, unless another hook changes one of them.
    - **A stopped call or result** ends the run only if its verdict has a `reply`.
    - **Findings** are in the metadata of the message or result, under `"guardrails"`.
    - **Not judged as output** are a reply made of tool results (`return_direct`), the text of `interrupt()`, and the
      output of a sub-agent: its result is judged by the `tool_result` checks of its parent.
    - **Input** is that of `call`, `enqueue` and `observe`, and the messages with results of background work.
    - **Structured output** is judged as the JSON text that the model writes. Thinking that was replaced loses its
      signature; with `"drop"` some providers miss it in the next round of a tool call.
    - **Results**: the progress of a tool whose results are judged is not shown. The result of a call in the background
      is judged when it comes.
    - **Usage** of an answer that was stopped while it was streamed is not counted: providers report it at the end.
    - **Hooks that change arguments** need a lower priority than this one (40). A call that is changed afterwards is
      judged again by checks that are plain functions, and refused if there are others.
    """

    in_sub_agents = True

    def __init__(
        self,
        *checks: Guardrail,
        on_stop: OnStop = "reply",
        refused: Refused = "notice",
        reply: str = REPLY,
        notice: str = NOTICE,
        on_warning: Callable[[Finding], object] | None = None,
        max_delay: float = 2.0,
        max_chars: int = 4096,
        thinking: Thinking = "hold",
        name: str = GUARDRAILS,
        priority: int = 40,
    ) -> None:
        self.checks: tuple[Guardrail, ...] = tuple(check_guardrail(check) for check in checks)
        _check_options(on_stop=on_stop, refused=refused, thinking=thinking)
        reach = max((check.reach for check in self.checks if "output" in check.kinds), default=0)
        _check_bounds(max_delay, max_chars, reach)
        _check_texts(reply=reply, notice=notice)
        if on_warning is not None and not callable(on_warning):
            raise ConfigurationError(f"on_warning is a function of a Finding, not {on_warning!r:.60}.")
        self.priority = priority
        whole = any(check.whole for check in self.checks if "output" in check.kinds)
        windows = WindowOptions(max_delay, max_chars, reach, whole, thinking)
        inputs, calls, results = self._of("input"), self._of("tool_call"), self._of("tool_result")
        self._first = [check for check in inputs if not check.parallel]
        self._beside = [check for check in inputs if check.parallel]
        self._results = results
        self._core = GuardCore(part_of(name), on_stop, refused, reply, notice, on_warning)
        self._answers = AnswerChecks(self._core, self._of("output"), self._beside, windows)
        self._tools = ToolChecks(self._core, calls, results)
        kinds: list[type[Event]] = [PreCallEvent, PostReasoningEvent, PostSummaryEvent]
        kinds += [InputEvent, PreObserveEvent] if inputs else []
        kinds += [PreActingEvent] if calls else []
        kinds += [PostActingEvent] if calls or results else []
        self.kinds: tuple[type[Event], ...] | None = tuple(kinds)
        # attributes, and not methods: a hook without such checks stands around nothing
        self.around_model: ModelOperator = self._answers.around
        self.around_tool: ToolOperator | None = self._tools.around if results else None

    def _of(self, kind: str) -> list[Guardrail]:
        return [check for check in self.checks if kind in check.kinds]

    # --- the input ----------------------------------------------------------------------------------------------------

    def on_pre_call(self, event: Event) -> Event | Flow[Event] | None:
        """Judge the input before it is remembered."""
        assert isinstance(event, PreCallEvent)
        resumed = None if event.resumes is None else event.resumes.run_id
        live = self._core.live

        def begin(state: GuardState) -> GuardState:
            # stops of runs that were lost; one that goes on is stopped as the lost one was
            stops = {run: stop for run, stop in state.stops.items() if run in live}
            if resumed is not None and (stop := state.stops.get(resumed)) is not None:
                stops[event.run_id] = stop
            return state if stops == state.stops else replace(state, stops=stops)

        self._core.change(event.source, begin)
        self._core.run(event.source)
        given = event.input
        if self._beside and given:
            # a stop finds its message by the id, which a caller may have chosen: no other message may have it
            known = {message.id for message in event.history}
            given = tuple(each.replace(id=new_id()) if each.id in known else each for each in given)
        if given == event.input:
            return self._taken(event)
        changed = event.replace(input=given)
        return self._taken(changed) or changed

    def on_input(self, event: Event) -> Event | Flow[Event] | None:
        """Judge input to the run in progress."""
        assert isinstance(event, InputEvent)
        return self._taken(event)

    def _taken(self, event: PreCallEvent | InputEvent) -> Event | Flow[Event] | None:
        source = event.source
        if self._beside:
            ids = tuple(self._answers.entry(message) for message in event.input if _speaks(message))
            self._core.change(source, lambda state: replace(state, unjudged=(*state.unjudged, *ids)) if ids else state)
        if not event.input or not (self._first or self._results):
            return None
        each = from_iterable(event.input).pipe(
            concat_map(partial(self._message, source, self._first, partial(self._core.stop, source))), ops.to_list()
        )
        return flow(each.pipe(ops.map(lambda messages: event.replace(input=tuple(messages)))))

    def on_pre_observe(self, event: Event) -> Event | Flow[Event] | None:
        """Judge messages of other agents, by all checks of the input."""
        assert isinstance(event, PreObserveEvent)
        source = event.source

        def stop(outcome: Outcome) -> None:
            if self._core.on_stop == "error" and outcome.stop is not None:
                raise self._core.error(source, outcome.stop)

        checks = [*self._first, *self._beside]
        each = from_iterable(event.input).pipe(concat_map(partial(self._message, source, checks, stop)), ops.to_list())
        return flow(each.pipe(ops.map(lambda messages: event.replace(input=tuple(messages)))))

    def _message(
        self, source: EventSource, checks: Sequence[Guardrail], stop: Callable[[Outcome], object], message: Msg
    ) -> Msg | Flow[Msg]:
        """The message as it is to be remembered: its words are judged by `checks`, its results by theirs."""
        if not message.tool_results:
            return self._said(source, checks, stop, message)
        if not _speaks(message):
            return self._brought(source, message)
        said = just(message).pipe(concat_map(partial(self._said, source, checks, stop)))
        return flow(said.pipe(concat_map(partial(self._brought, source))))

    def _said(
        self, source: EventSource, checks: Sequence[Guardrail], stop: Callable[[Outcome], object], message: Msg
    ) -> Msg | Flow[Msg]:

        def settle(outcome: Outcome) -> Msg:
            self._core.report(outcome.findings)
            if outcome.stop is not None:
                stop(outcome)
                return self._core.refuse(message)
            return message if outcome.content is None else with_text(message, str(outcome.content))

        request = CheckRequest(kind="input", text=message.text, message=message, source=source)
        return settled(judge(checks, request), settle)

    def _brought(self, source: EventSource, message: Msg) -> Msg | Flow[Msg]:
        """A message with results that the caller has brought."""

        def judged(block: object) -> object:
            return self._tools.result(source, None, block) if isinstance(block, ToolResultBlock) else block

        if not self._results:
            return message
        blocks = from_iterable(message.content).pipe(concat_map(judged), ops.to_list())
        return flow(blocks.pipe(ops.map(lambda content: message.replace(content=cast("list[ContentBlock]", content)))))

    # --- the answer ---------------------------------------------------------------------------------------------------

    def on_post_reasoning(self, event: Event) -> Event | None:
        """End the run, if the answer is the reply of a stop; note the findings."""
        assert isinstance(event, PostReasoningEvent)
        noted = self._answers.noted(event)
        if noted is None:
            return None
        message, stopped = noted
        changed = event.replace(message=message)
        return changed.stop() if stopped else changed

    def on_post_summary(self, event: Event) -> Event | None:
        """Note the findings."""
        assert isinstance(event, PostSummaryEvent)
        noted = self._answers.noted(event)
        return None if noted is None else event.replace(message=noted[0])

    # --- tools --------------------------------------------------------------------------------------------------------

    def refusal(self, call: ToolUseBlock, tool: Tool | None, source: EventSource) -> str | None:
        """The reason why the call must not run, by the checks that take no time; as the call begins, by all checks."""
        return self._tools.refusal(call, source)

    def on_pre_acting(self, event: Event) -> Event | Flow[Event]:
        """Judge the call by all checks."""
        assert isinstance(event, PreActingEvent)
        return self._tools.before_call(event)

    def on_post_acting(self, event: Event) -> None:
        """Forget the call; fail the run if its result was stopped and stops are errors."""
        assert isinstance(event, PostActingEvent)
        self._tools.after_call(event)

    # --- compactions --------------------------------------------------------------------------------------------------

    def held(self, source: EventSource) -> Sequence[str]:
        """The messages that no summary may contain: input that is not judged, or refused and not yet replaced."""
        state = self._core.part.get(source)
        return (*self._answers.ids_in(state.unjudged), *state.refused)

    # --- the end ------------------------------------------------------------------------------------------------------

    def revised(self, source: EventSource, history: Sequence[Msg]) -> Sequence[Msg]:
        """The messages that replace inputs which were stopped after they were remembered."""
        self._core.live.pop(source.run_id, None)
        state = self._core.part.get(source)
        if not state.refused and source.run_id not in state.stops:
            return ()
        stops = {run: stop for run, stop in state.stops.items() if run != source.run_id}
        self._core.change(source, lambda state: replace(state, refused=(), stops=stops))
        refused = [message for message in history if message.id in state.refused]
        return [new for message in refused if (new := self._core.refuse(message)) is not message]


def _speaks(message: Msg) -> bool:
    """True if the message is not only results."""
    results = message.tool_results
    return not results or len(results) < len(message.content)


def _check_options(**options: str) -> None:
    known = {"on_stop": ("reply", "error"), "refused": ("notice", "hide", "keep"), "thinking": ("hold", "drop", "show")}
    for name, value in options.items():
        if value not in known[name]:
            raise ConfigurationError(f"{name} must be one of {', '.join(known[name])}, not {value!r:.60}.")


def _check_bounds(max_delay: object, max_chars: object, reach: int) -> None:
    if isinstance(max_delay, bool) or not isinstance(max_delay, (int, float)) or not 0 < max_delay < float("inf"):
        raise ConfigurationError(f"max_delay must be a number of seconds, more than 0, not {max_delay!r:.60}.")
    if isinstance(max_chars, bool) or not isinstance(max_chars, int) or max_chars < max(1, 4 * reach):
        raise ConfigurationError(
            f"max_chars must be a number of at least {max(1, 4 * reach)}, four times what the checks reach, not "
            f"{max_chars!r:.60}."
        )


def _check_texts(**texts: object) -> None:
    for name, text in texts.items():
        if not isinstance(text, str):
            raise ConfigurationError(f"{name} must be text, not {text!r:.60}.")
