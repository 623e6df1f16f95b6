"""The first stage of a run that resumes another one: the stage that was to follow at its last checkpoint.

| at the checkpoint followed | now                                                                                 |
|----------------------------|-------------------------------------------------------------------------------------|
| reasoning, summarizing     | the same; acting, if the calls of a caller or of memory say that calls are open     |
| acting                     | acting with the calls that are still open; without any what follows their results    |
| the end                    | the end, with the reply that was saved                                              |
"""

from __future__ import annotations

from typing import cast

from agentscope_rx.agent.durable.saved_run import SavedRun
from agentscope_rx.agent.react.decide import Decision
from agentscope_rx.agent.react.model_call import without_choice
from agentscope_rx.agent.react.stage import ActingCore, ReActCore
from agentscope_rx.agent.react.structured_output import after_results, output_of
from agentscope_rx.agent.run import Done, Run, Stage
from agentscope_rx.reactive import just


def go_on_from(agent: ActingCore, run: Run, saved: SavedRun) -> Stage | None:
    """The stage that the saved run goes on with; None if the state of memory decides, as at any other begin."""
    if saved["released"]:
        asked = cast("ReActCore", agent)
        run.options = without_choice(asked, asked.generate_options)
    if run.calls.open:
        return None
    stage, reply = saved["stage"], saved["reply"]
    if stage == "end" and reply is not None:
        return just(Done(reply))
    if stage == "summarizing":
        return agent.summarizing(run, saved["limit"])
    if stage == "reasoning":
        return agent.reasoning(run, sent_back=saved["sent_back"])
    output = output_of(run)
    follow = None if output is None else after_results(cast("ReActCore", agent), run, output, Decision.REASON, None)
    if follow is not None:
        return just(follow)
    run.iteration += 1
    return None
