"""`World`: plays a script, one process after the other, and checks after every step what must hold.

A process is an event loop of its own with an agent of its own: nothing but the session, and what the tools have done
to the world, outlives it.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar

from tenacity import wait_fixed

from agentscope_rx import (
    Approve,
    InMemoryMemory,
    Msg,
    ReActAgent,
    Reject,
    RuntimeContext,
    StructuredOutput,
    ToolResultBlock,
    ToolUseBlock,
)
from agentscope_rx.agent import GracefulShutdown, InterruptSource
from agentscope_rx.errors import ModelConnectionError
from agentscope_rx.messages import TextBlock, ThinkingBlock, ToolResultKind, open_calls
from agentscope_rx.models.options import ExecutionConfig, GenerateOptions
from agentscope_rx.models.response import ToolUseDelta
from agentscope_rx.session import InMemorySession, JsonSession, Session
from agentscope_rx.testing import HANG, Delay, ScriptedModel, collect_dropped, run_virtual
from tests.support.scripts import checks
from tests.support.scripts.hooks import hooks_of
from tests.support.scripts.ledger import GROUP, META, Interrupt, Ledger, toolkit
from tests.support.scripts.models import MODES, Choosy, ModelDown, around, choice_of
from tests.support.scripts.parts import Brittle, Ending, Faulty, Remote, StoreDown, Unsteady, limits_of
from tests.support.scripts.playing import OWN, Outcome, play_call
from tests.support.scripts.steps import (
    Answers,
    Both,
    Call,
    Fails,
    Fault,
    Given,
    Misfit,
    Nothing,
    Observe,
    Output,
    Part,
    Respond,
    Restart,
    Say,
    Script,
    Step,
    Text,
    Think,
    Use,
    Wait,
)

T = TypeVar("T")
KEYS = ("ann", "bob")
OUTSIDE = "by somebody outside"
SCHEMA = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "degrees": {"type": "integer"}},
    "required": ["city", "degrees"],
}
RIGHT = {"city": "Rome", "degrees": 21}
_LEFT = ("a disposed run", "a stream left before its error was read", "an await that was cancelled")
"""The place of errors that came after the subscriber had gone."""
_REPAIRS = ("repairing the memory of agent Friday", "saving agent Friday", "a write that outlived its run")
"""Where an error of memory is told that is not why the run has ended."""
_OF_A_PROCESS = ("store", "shutdown", "context", "memories", "friday")
TIMED = ("dispose", "cancel", "interrupt", "interrupt_with", "interrupt_tool", "shutdown")


class World:
    """What outlives the processes of a script, and the process that is there now."""

    def __init__(self, script: Script, root: Path | None = None, *, restarts: bool = False, apart: float = 0.0) -> None:
        self.setup = script.setup
        self.steps = deque(script.steps)
        self.restarts = restarts
        self.apart = apart
        """Seconds by which what happens from outside is kept off the moments of what happens inside."""
        self.ledger = Ledger()
        self.hooks = [hook for each in script.setup.hooks for hook in hooks_of(each)]
        self.faulty = Faulty(script.setup.fault or Fault(at=-1))
        self.torn = False
        """True if memory has failed in this step when calls were to get their results."""
        self.ends: dict[str, Msg] = {}
        """The replies that the stages of the runs have come to, by run."""
        self.root = root
        self.number = 0
        self.store: Session = InMemorySession()
        self.foreign: set[str] = set()
        """Ids of messages that others have put into a memory."""
        self.expected: list[checks.State] = [checks.State(), checks.State()]
        """The conversations as the process before has left them."""
        self.told: list[tuple[object, ...]] = []
        """How each run ended, in words that are the same whenever the script is played."""
        self.heard = False
        self.in_turn = 0
        self.alone = True

    # --- processes ------------------------------------------------------------------------------------------------

    def play(self) -> World:
        """All steps, in as many processes as it takes."""
        while self.play_process():
            pass
        return self

    def play_process(self) -> bool:
        """The steps up to the next restart, and True if there are more."""
        return run_virtual(self._process())

    def __getstate__(self) -> dict[str, object]:
        # what a process has does not outlive it
        return {name: value for name, value in vars(self).items() if name not in _OF_A_PROCESS}

    def story(self) -> tuple[object, ...]:
        """What has happened, in words that are the same whenever the script is played."""
        ledger = self.ledger
        memories = [checks.shapes(state.messages) for state in self.expected]
        return self.told, memories, ledger.begun, ledger.ended, ledger.suspended

    async def _process(self) -> bool:
        if self.setup.store == "files" and self.root is not None:
            # (what is kept in this process is kept by the object)
            self.store = JsonSession(self.root)
        if self.setup.fault is not None and self.setup.fault.session and not isinstance(self.store, Unsteady):
            self.store = Unsteady(self.store, self.faulty)
        self.shutdown = GracefulShutdown(timeout=0.25, grace=5.0)
        self.context = RuntimeContext(self.ledger, Interrupt(lambda: self.friday.interrupt(None, InterruptSource.TOOL)))
        self.memories = [self._memory(), self._memory()]
        self.friday = self.agent(hooks=self.hooks, shutdown=self.shutdown, pending=self.setup.pending)
        for key, memory, expected in zip(KEYS, self.memories, self.expected, strict=True):
            begin = self.friday.bind if self.setup.bound else self.friday.load
            await begin(self.store, key, memory=memory)
            assert self.state(memory) == expected, "what is loaded is not what was saved"
        self.heard = False
        while self.steps:
            step = self.steps.popleft()
            if isinstance(step, Restart):
                break
            await self._step(step)
            if self.shutdown.refuses or self.restarts:
                break
        self.expected = [self.state(memory) for memory in self.memories]
        for key, memory in zip(KEYS, self.memories, strict=True):
            if not self.setup.bound or self.heard:
                await self.friday.save(self.store, key, memory=memory)
        return bool(self.steps)

    def _memory(self) -> InMemoryMemory:
        if self.setup.fault is not None and not self.setup.fault.session:
            return Brittle(self.faulty)
        return Remote() if self.setup.remote else InMemoryMemory()

    def agent(self, memory: InMemoryMemory | None = None, **options: Any) -> ReActAgent:
        """An agent named Friday, as every process of this script builds it."""
        setup = self.setup
        friday = Ending(
            "Friday",
            ScriptedModel(),
            "You are Friday.",
            toolkit=toolkit(parallel=setup.parallel, kit=setup.kit),
            memory=memory,
            max_iters=setup.max_iters,
            finish=setup.finish,  # pyright: ignore[reportArgumentType]
            generate_options=GenerateOptions(tool_choice=choice_of(setup.choice)),
            **options,
        )
        friday.ends = self.ends
        return friday

    def state(self, memory: InMemoryMemory, agent: ReActAgent | None = None) -> checks.State:
        """The conversation in this memory, as values."""
        conversation = (agent or self.friday).conversation(memory)
        return checks.State(
            tuple(memory.messages),
            conversation.pending,
            dict(conversation.approvals.answers),
            conversation.rules,
            conversation.cut_off,
            conversation.active_groups,
            conversation.output is not None,
        )

    # --- steps ----------------------------------------------------------------------------------------------------

    async def _step(self, step: Step) -> None:
        if isinstance(step, Observe):
            await self.observe(step.what, self.memories[step.conversation])
            return
        calls = [step] if isinstance(step, Call) else [step.first, step.second] if isinstance(step, Both) else []
        # (two calls take their answers from one model)
        self.alone = len(calls) == 1
        hangs = all(_ends(each) for each in calls)
        turns = [self._turn(turn, each, hangs) for each in calls for turn in each.turns]
        script = (Choosy if self.setup.choosy else ScriptedModel)(
            *turns,
            *["The end."] * 40,
            execution_config=ExecutionConfig(max_attempts=2, wait=wait_fixed(0.25)),
            output_modes=MODES,
        )
        self.friday.model = around(self.setup.around, script)
        self.faulty.armed, self.faulty.failed, self.torn = True, "", False
        with collect_dropped() as dropped:
            outcomes = await asyncio.gather(*(play_call(self, each) for each in calls))
        self.faulty.armed = False
        # (an error that a run was about to tell when it was left is told there, by the kernel's contract; so is that of
        # a model with others around it, which is left when its run is interrupted)
        left = bool(self.setup.around) or any(each.left for each in outcomes)
        told = [
            f"{error} in {where}"
            for error, where in zip(dropped, dropped.where, strict=True)
            if not (left and where in _LEFT) and not (isinstance(error, StoreDown) and where in _REPAIRS)
        ]
        self.heard = self.heard or bool(self.faulty.failed)
        self.torn = self.faulty.way == "after" or any(where == _REPAIRS[0] for where in dropped.where)
        expected = [f"{OWN} in a subscriber's callback" for each in outcomes if each.raised]
        assert told == expected, f"dropped: {told}"
        assert not self.friday.running and not self.friday.entered
        for outcome in outcomes:
            await self._check(outcome, script)

    async def _check(self, outcome: Outcome, script: ScriptedModel) -> None:
        checks.check_error(self, outcome)
        checks.check_memory(self, outcome)
        checks.check_truth(self, outcome)
        checks.check_ledger(self, outcome)
        checks.check_prompts(script)
        await checks.check_saved(self, outcome)
        await checks.check_next(self, outcome)
        self.told.append(outcome.told())

    async def observe(self, what: str, memory: InMemoryMemory) -> None:
        """Another speaker is observed, or writes."""
        self.heard = True
        match what:
            case "words":
                message = Msg.assistant("Good morning.", "Monday")
            case "calls" | "peer":
                message = Msg.assistant([TextBlock("I shall look."), self.use("quick")], "Monday")
            case _:
                message = Msg.assistant([self.use("quick")], "Friday")
        self.foreign.add(message.id)
        if what == "peer":
            await memory.add([message])
        else:
            await self.friday.observe(message, memory=memory)

    def _next(self) -> int:
        self.number += 1
        return self.number

    def use(self, name: str, /, **arguments: object) -> ToolUseBlock:
        """A call with an id of its own."""
        return ToolUseBlock(f"c{self._next()}", name, arguments)

    # --- what the model does --------------------------------------------------------------------------------------

    def _turn(self, turn: Sequence[Part], step: Call, hangs: bool) -> list[Any]:
        self.in_turn = 0
        return [played for part in turn for played in self._part(part, step, hangs)] or ["Hm."]

    def _part(self, part: Part, step: Call, hangs: bool) -> list[Any]:
        match part:
            case Say(text):
                return [text]
            case Think(text):
                return [ThinkingBlock(text)]
            case Wait(seconds):
                return [Delay(seconds)]
            case Fails(again):
                return [ModelConnectionError("gone") if again else ModelDown("the model fails")]
            case Use():
                return self._use(part, step)
            case Respond(right):
                return self._respond(right, step)
            case _:
                return [HANG if hangs else Delay(10)]

    def _use(self, part: Use, step: Call) -> list[Any]:
        number = self._next()
        id = self._id("c", number, step)
        if part.tool == META:
            return [ToolUseBlock(id, META, {"to_activate" if part.n else "to_deactivate": [GROUP]})]
        if not part.split and not part.broken:
            return [ToolUseBlock(id, part.tool, {"n": part.n})]
        first = [ToolUseDelta(number, id, part.tool, '{"n"'), Delay(0.5)]
        return [*first, ToolUseDelta(number, arguments=": " if part.broken else f": {part.n}}}")]

    def _respond(self, right: bool, step: Call) -> list[Any]:
        given = dict(RIGHT) if right else {"city": 3}
        mode = "tool" if self.setup.finish == "tool" else "" if step.output is None else step.output.mode
        if mode != "tool":
            return ['{"city": "Rome", ', '"degrees": 21}' if right else '"degrees": "hot"}']
        if self.setup.finish == "tool":
            given["response"] = "It is warm." if right else 3
        number = self._next()
        return [ToolUseBlock(self._id("r", number, step), "generate_response", given)]

    def _id(self, kind: str, number: int, step: Call) -> str:
        if not (self.setup.same_ids and self.alone):
            return f"{kind}{number}"
        self.in_turn += 1
        # (the ledger is that of all conversations)
        return f"call_{self.in_turn}_{step.conversation}"

    # --- what a call is given -------------------------------------------------------------------------------------

    def options(self, step: Call) -> dict[str, Any]:
        """How the call is made, but for its input."""
        options: dict[str, Any] = {"memory": self.memories[step.conversation], "context": self.context}
        if step.output is not None:
            options["output"] = self._output(step.output)
        if step.limit is not None:
            options["limits"] = limits_of(step.limit)
        return options

    def _output(self, output: Output) -> StructuredOutput:
        mode: Any = "tool" if self.setup.finish == "tool" else output.mode
        failure: Any = "text" if output.text else "error"
        return StructuredOutput(SCHEMA, mode=mode, max_retries=output.retries, on_failure=failure)

    def given(self, given: Given, memory: InMemoryMemory) -> Any:
        """The input, made for what is pending now."""
        known = self.friday.conversation(memory).pending
        pending = [call for call in open_calls(memory.messages, "Friday") if known is None or call.id in known]
        match given:
            case Text(text):
                return text
            case Nothing():
                return None
            case Misfit(kind):
                return _misfit(kind, pending)
            case Answers(answers, backwards, text):
                made = [self._answer(*pair) for pair in zip(pending, answers, strict=False)]
                several = [each for each in made if each is not None]
                if not several:
                    return "go on" if text else None
                if backwards:
                    several.reverse()
                if text and len(several) == len(pending) and all(isinstance(each, Msg) for each in several):
                    several.append(Msg.user("And then?"))
                return several
        return None

    def _answer(self, call: ToolUseBlock, answer: str) -> Any:
        ledger = self.ledger
        if answer in ("approve", "edit", "always", "always_so"):
            ledger.approved.add(call.id)
        match answer:
            case "approve":
                return Approve(call)
            case "edit":
                return Approve(call, {"n": 7})
            case "always":
                ledger.approved_tools.add(call.name)
                return Approve(call, remember="tool")
            case "always_so":
                ledger.approved_tools.add(call.name)
                return Approve(call, remember="arguments")
            case "reject":
                return Reject(call, "no")
            case "never":
                return Reject(call, "never", remember="tool")
            case "result":
                return Msg.tool(ToolResultBlock.of(call, OUTSIDE))
            case _:
                return None


def _ends(step: Call) -> bool:
    """True if the clock ends this call, whatever the model does."""
    return step.end.way in TIMED or (step.limit is not None and step.limit.which == "deadline")


def _misfit(kind: str, pending: Sequence[ToolUseBlock]) -> Any:
    if kind == "unknown" or not pending:
        return [*(Approve(call) for call in pending[:1]), Approve("nobody's")]
    first = pending[0]
    match kind:
        case "twice":
            return [Approve(first), Msg.tool(ToolResultBlock.of(first, OUTSIDE))]
        case "placeholder":
            return Msg.tool(ToolResultBlock(first.id, first.name, "waits", ToolResultKind.SUSPENDED))
        case _:
            return [Approve(first), Msg.user("and?")]
