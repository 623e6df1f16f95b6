"""`RunFinder`: the runs of this process, and with a relay those of the others."""

from __future__ import annotations

from agentscope_rx.agent.inbox import When
from agentscope_rx.agent.input import CallInput
from agentscope_rx.service.failure import RunElsewhereError, UnknownRunError
from agentscope_rx.service.runs.live_run import LiveRun
from agentscope_rx.service.runs.registry import Runs
from agentscope_rx.service.runs.relay import RunRelay
from agentscope_rx.service.runs.relayed_run import RelayedRun


class RunFinder:
    """Finds runs by their ids, and controls them where they are.

    `shared`: other processes serve the same conversations, so that a run may be in one of them.
    """

    def __init__(self, runs: Runs, relay: RunRelay | None = None, *, shared: bool = False) -> None:
        self._runs = runs
        self._relay = relay
        self._shared = shared

    async def find(self, run_id: str) -> LiveRun | RelayedRun:
        """The run of this id; `UnknownRunError` if there is none."""
        try:
            return self._runs.find(run_id)
        except UnknownRunError:
            if self._relay is None:
                raise UnknownRunError(run_id, elsewhere=self._shared) from None
        return await self._relay.find_soon(run_id)

    async def find_conversation(self, key: str) -> RelayedRun | None:
        """The live run of this conversation in another process."""
        return None if self._relay is None else await self._relay.find_conversation(key)

    async def interrupt(self, run_id: str, text: str | None = None) -> bool:
        """Interrupt the run, whose reply is `text`; False if it has ended. `RunLostError` if its process is gone."""
        run = await self.find(run_id)
        if isinstance(run, LiveRun):
            return run.interrupt(text)
        return self._relay is not None and await self._relay.request(run, "interrupt", text)

    async def enqueue(self, run_id: str, input: CallInput, when: When) -> None:
        """Give the run input; `RunEndedError` if it has ended, `RunElsewhereError` if another process has it."""
        run = await self.find(run_id)
        if isinstance(run, RelayedRun):
            raise RunElsewhereError(run_id)
        run.enqueue(input, when)

    async def stop(self, run_id: str) -> None:
        """Stop the run, and wait for its clean-up. `RunLostError` if its process is gone."""
        run = await self.find(run_id)
        if isinstance(run, LiveRun):
            await self._runs.stop(run_id)
        elif self._relay is not None:
            await self._relay.request(run, "stop")
