"""`check_tool`: the laws of the `Tool` port, for a tool or whatever can be lifted to one."""

from __future__ import annotations

import asyncio
import copy
import json
from collections.abc import Callable, Coroutine, Mapping
from functools import partial
from typing import cast

from reactivex import operators as ops

from agentscope_rx.agent import ReActAgent
from agentscope_rx.errors import AgentScopeError, ConfigurationError
from agentscope_rx.events import PreActingEvent
from agentscope_rx.frozen_values import dataclass
from agentscope_rx.messages import Msg, ToolResultBlock, ToolResultKind, ToolUseBlock
from agentscope_rx.reactive import Flow
from agentscope_rx.testing.kits.publisher import apply_rules
from agentscope_rx.testing.kits.publisher_rules import Publisher
from agentscope_rx.testing.kits.rules import Kit, KitReport, SkippedRule, equal, quiet, raises, require
from agentscope_rx.testing.record import DroppedErrors
from agentscope_rx.testing.scripted_model import ScriptedModel
from agentscope_rx.tools import Tool, ToolContext, Toolkit
from agentscope_rx.tools.arguments import InvalidArgumentsError
from agentscope_rx.tools.coerce import as_tool
from agentscope_rx.tools.results.convert import result_of
from agentscope_rx.tools.schemas.check import check_of

Arguments = Mapping[str, object]


def check_tool(
    tool: object,
    *,
    arguments: Arguments | None = None,
    invalid: Arguments | None = None,
    failing: Arguments | None = None,
    ahead: int | None = None,
    repeatable: bool = True,
    concurrent: bool = True,
    name: str | None = None,
    real_time: bool = False,
) -> KitReport:
    """Check a `Tool`, or a function, a method or an agent, which becomes one.

    | argument     | is                                                                                            |
    |--------------|-----------------------------------------------------------------------------------------------|
    | `arguments`  | those of a call that succeeds; the kit makes it some fifty times. Needed with parameters       |
    | `failing`    | those of a call that fails                                                                    |
    | `invalid`    | those that are refused before a call                                                          |
    | `ahead`      | the number of values that may still come after demand is withheld; None: it is not looked at  |
    | `repeatable` | False: the tool's Flow is for one subscription                                                |
    | `concurrent` | False: the tool refuses a second call at the same time                                        |
    """
    kit = Kit(name or getattr(tool, "__name__", None) or getattr(tool, "name", repr(tool)), real_time=real_time)
    try:
        lifted = as_tool(tool)
    except AgentScopeError as error:
        raise kit.broken("definition", LAWS[0][1], f"{error}") from error
    required = lifted.parameters.get("required")
    if arguments is None and required:
        raise ConfigurationError(
            f"Tool {lifted.name!r} needs arguments for a call that succeeds: check_tool(tool, arguments={{...}}), with "
            f"{required!r:.200}."
        )
    case = _Case(lifted, dict(arguments or {}), invalid, failing)
    for rule, law, check in LAWS:
        kit.check(rule, law, partial(check, case))
    broken = None if failing is None else (lambda: case.called(failing))
    apply_rules(kit, Publisher(case.called, broken, ahead, repeatable, concurrent and repeatable), "call ")
    return kit.report()


@dataclass(frozen=True, slots=True)
class _Case:
    tool: Tool
    arguments: dict[str, object]
    invalid: Arguments | None
    failing: Arguments | None

    def use(self, arguments: Arguments | None = None, id: str = "call_1") -> ToolUseBlock:
        """A model's call of the tool."""
        return ToolUseBlock(id, self.tool.name, self.arguments if arguments is None else arguments)

    def called(self, arguments: Arguments | None = None) -> Flow[object]:
        """One call, as a toolkit makes it."""
        call = self.use(arguments)
        return self.tool.call_with(self.tool.validate(call.input), ToolContext(call))

    async def result(self, arguments: Arguments | None = None, id: str = "call_1") -> ToolResultBlock:
        """The result of a call through a toolkit, which must come last and once."""
        events = await Toolkit([self.tool]).call(self.use(arguments, id)).pipe(ops.to_list())
        results = [event for event in events if isinstance(event, ToolResultBlock)]
        require(len(results) == 1 and results[0] is events[-1], f"the results of a call were {results!r:.200}")
        equal((results[0].id, results[0].name), (id, self.tool.name), "id and name of the result")
        return results[0]


async def _definition(case: _Case, dropped: DroppedErrors) -> None:
    tool = case.tool
    schema = tool.schema
    equal(schema, tool.schema, "the schema, read a second time")
    require(schema.description.strip(), f"tool {tool.name!r} has no description for the model")
    check_of(tool.name, schema.parameters)
    parameters = cast("dict[str, object]", json.loads(json.dumps(_plain(schema.parameters))))
    equal(parameters.get("type"), "object", "the type of its parameters")
    missing = set(cast("list[str]", parameters.get("required", ()))) - set(_properties(parameters))
    require(not missing, f"required parameters without a property: {sorted(missing)}")


def _properties(parameters: Mapping[str, object]) -> Mapping[str, object]:
    return cast("Mapping[str, object]", parameters.get("properties", {}))


def _plain(value: object) -> object:
    if isinstance(value, Mapping):
        return {key: _plain(inner) for key, inner in cast("Mapping[str, object]", value).items()}
    if isinstance(value, (list, tuple)):
        return [_plain(inner) for inner in cast("list[object]", value)]
    return value


async def _validation(case: _Case, dropped: DroppedErrors) -> None:
    given = copy.deepcopy(case.arguments)
    case.tool.validate(case.arguments)
    equal(case.arguments, given, "the arguments after validation")
    wrong = [case.invalid] if case.invalid is not None else []
    for name in cast("list[str]", case.tool.parameters.get("required", ())):
        wrong.append({key: value for key, value in given.items() if key != name})
    if not wrong:
        raise SkippedRule("no parameter is required, and no invalid arguments were given")
    for arguments in wrong:
        what = f"validation of {arguments!r:.100}"
        await raises(_validated(case.tool, arguments), InvalidArgumentsError, what)
        equal((await case.result(arguments)).kind, ToolResultKind.INVALID_ARGUMENTS, f"the kind of result of {what}")


async def _validated(tool: Tool, arguments: Arguments) -> object:
    return tool.validate(arguments)


async def _result(case: _Case, dropped: DroppedErrors) -> None:
    values = await case.called().pipe(ops.to_list())
    for value in values:
        result_of(case.use(), value)
    given = copy.deepcopy(case.arguments)
    result = await case.result()
    require(not result.is_error, f"the call failed: {result.kind} {result.text[:200]}")
    equal(case.arguments, given, "the arguments after the call")
    message = Msg.tool(result)
    equal(Msg.from_json(message.to_json()), message, "the result after a round trip through JSON")


async def _failure(case: _Case, dropped: DroppedErrors) -> None:
    if case.failing is None:
        raise SkippedRule("no arguments of a call that fails were given")
    result = await case.result(case.failing)
    require(result.is_error, f"a call that fails gave the result {result.text[:200]!r}")
    require(result.text.strip(), "the error has no text for the model")


async def _apart(case: _Case, dropped: DroppedErrors) -> None:
    found = await asyncio.gather(*(case.result(id=f"call_{number}") for number in range(3)))
    failed = [result.text for result in found if result.is_error]
    require(not failed, f"of three calls at the same time {len(failed)} failed: {failed[:1]!r:.200}")


async def _in_a_run(case: _Case, dropped: DroppedErrors) -> None:
    agent = _agent(case)
    await agent.call("Use the tool.")
    results = [result for message in await agent.memory.get() for result in message.tool_results]
    equal([result.id for result in results], ["call_1"], "the results in memory")


async def _interrupted(case: _Case, dropped: DroppedErrors) -> None:
    for turns in (0, 1, 5):
        agent = _agent(case)
        began = asyncio.Event()

        async def interrupt(agent: ReActAgent = agent, began: asyncio.Event = began, turns: int = turns) -> None:
            await began.wait()
            for _ in range(turns):
                await asyncio.sleep(0)
            agent.interrupt()

        waiting = asyncio.ensure_future(interrupt())
        async with agent.stream("Use the tool.") as events:
            async for event in events:
                if isinstance(event, PreActingEvent):
                    began.set()
        await waiting
        await agent.idle()
        await quiet()
        memory = await agent.memory.get()
        calls = [call.id for message in memory for call in message.tool_calls]
        results = [result.id for message in memory for result in message.tool_results]
        equal(results, calls, "the results in memory after an interruption")


def _agent(case: _Case) -> ReActAgent:
    if case.tool.requires_approval:
        raise SkippedRule("in a run the tool waits for approval")
    return ReActAgent("tester", ScriptedModel(case.use(), "Done."), tools=[case.tool])


LAWS: tuple[tuple[str, str, Callable[[_Case, DroppedErrors], Coroutine[object, object, None]]], ...] = (
    ("definition", "it has a name, a description and a JSON schema of type object", _definition),
    ("validation", "arguments that do not fit are an InvalidArgumentsError, and none are changed", _validation),
    ("result", "each value can be shown to a model, and the last one is the result", _result),
    ("failure", "a failure is an error result with a text", _failure),
    ("apart", "calls at the same time do not disturb each other", _apart),
    ("run", "in a run of an agent the call has one result", _in_a_run),
    ("interruption", "after an interruption the call has one result, and nothing is left", _interrupted),
)
