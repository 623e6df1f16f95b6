"""`Supervisor`: a coordinator whose model delegates to members, and answers with what they have found.

    desk = Supervisor("Desk", model, [researcher, Delegate(lawyer, verbatim=True), critic])
    await desk.call("Is this contract sound?")

    reasoning -> acting: call_researcher | call_critic -> reasoning -> ... -> Done        members of a round at once
                       -> call_lawyer -> Done                                             its answer is the reply
                       -> forward_answer -> Done                                          the same, as the model decides

A member is called as any sub-agent is: its events are nested, its calls wait for approvals in the supervisor's reply,
and its usage counts for the supervisor's limits.
"""

from __future__ import annotations

from collections.abc import Iterable

from typing_extensions import Unpack

from agentscope_rx.agent.ports import AgentCore
from agentscope_rx.agent.react.react_agent import ReActAgent
from agentscope_rx.agent.system_prompt import SystemPrompt
from agentscope_rx.models.chat_model import ChatModel
from agentscope_rx.models.options import GenerateOptions
from agentscope_rx.pipeline.options import PipelineOptions
from agentscope_rx.pipeline.supervision.delegate import Delegate, Sees, check_sees, delegates_of
from agentscope_rx.pipeline.supervision.delegate_tool import DelegateTool
from agentscope_rx.pipeline.supervision.forward_tool import ForwardTool

PROMPT = (
    "You coordinate other agents. Give each of them the part of the work that it is described for, with all that it "
    "needs to know; call several at once if their work does not depend on each other. Then answer the user with what "
    "they have found."
)
"""The system prompt, unless another one is given."""


class Supervisor(ReActAgent):
    """A coordinator whose `model` calls its members as tools, `call_<member>`; several calls of a round run at once.

    `members` are agents of any kind, or `Delegate`s. `sees` decides what members see: the "task" that the coordinator
    writes, or also the "conversation" before it. A member keeps its conversation, and the coordinator may continue it.
    A member that fails is an error result for the model. With `forward=True` the coordinator has a tool,
    `forward_answer`, that makes the last answer of a member the reply, word for word. `tools` are further tools. The
    other options are those of `ReActAgent`.
    """

    def __init__(
        self,
        name: str,
        model: ChatModel | str,
        members: Iterable[AgentCore | Delegate],
        sys_prompt: SystemPrompt | None = PROMPT,
        *,
        sees: Sees = "task",
        forward: bool = False,
        tools: Iterable[object] = (),
        max_iters: int = 10,
        generate_options: GenerateOptions | None = None,
        **options: Unpack[PipelineOptions],
    ) -> None:
        delegates = delegates_of(members)
        check_sees(sees)
        delegating: list[object] = [DelegateTool(each, each.sees or sees) for each in delegates.values()]
        if forward:
            delegating.append(ForwardTool(delegates))
        super().__init__(
            name,
            model,
            sys_prompt,
            tools=[*delegating, *tools],
            max_iters=max_iters,
            generate_options=generate_options,
            **options,
        )
        self.members: tuple[AgentCore, ...] = tuple(each.agent for each in delegates.values())
