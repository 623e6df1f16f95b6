"""What `ShellTool` and `PythonTool` share: their backend, their limits, and the result of a run for the model."""

from __future__ import annotations

import os
from dataclasses import replace

from agentscope_rx.errors import ConfigurationError
from agentscope_rx.messages import TextBlock, ToolResultBlock, ToolResultKind, ToolUseBlock
from agentscope_rx.tools.backends.backend import Backend, backend_of
from agentscope_rx.tools.backends.local import LocalBackend
from agentscope_rx.tools.files.workspace import Workspace
from agentscope_rx.tools.process.limits import Limits, check_seconds, check_whole
from agentscope_rx.tools.process.run import ProcessResult


def backend_for(
    workspace: Workspace | str | os.PathLike[str] | None, backend: Backend | None, namespace: bool | None
) -> Backend:
    """The given backend, or a `LocalBackend`, for which `namespace` is."""
    if backend is not None and namespace is not None:
        raise ConfigurationError("Give namespace to the backend, as in LocalBackend('project', namespace=True).")
    return backend_of(workspace, backend, lambda folder: LocalBackend(folder, namespace=namespace))


def limits_for(backend: Backend, timeout: float | None, max_output: int | None) -> Limits:
    """The backend's limits, with those that the tool was given in their place."""
    if timeout is not None:
        check_seconds("timeout", timeout)
    check_whole("max_output", max_output, 100)
    given = backend.limits
    return replace(
        given,
        time=given.time if timeout is None else timeout,
        output=given.output if max_output is None else max_output,
    )


def result_of_run(outcome: ProcessResult, limits: Limits, call: ToolUseBlock | None) -> ToolResultBlock:
    """The result of a run for the model: its output, and how it ended."""
    call = call or ToolUseBlock("by hand", "run", {})
    metadata: dict[str, object] = {
        "exit_code": outcome.exit_code,
        "timed_out": outcome.timed_out,
        "output_bytes": outcome.total,
    }
    text = outcome.text.rstrip("\n") or "(no output)"
    if outcome.timed_out:
        message = f"Error: It did not finish within {limits.time:g} s and was ended. Its output until then:\n{text}"
        return ToolResultBlock(call.id, call.name, (TextBlock(message),), ToolResultKind.TIMEOUT, metadata)
    if outcome.exceeded is not None:
        most = f"{limits.memory:,} bytes of memory" if outcome.exceeded == "memory" else f"{limits.processes} processes"
        message = f"Error: It used more than {most} and was ended. Its output until then:\n{text}"
        metadata["exceeded"] = outcome.exceeded
        return ToolResultBlock(call.id, call.name, (TextBlock(message),), ToolResultKind.FAILED, metadata)
    code = outcome.exit_code
    how = f"ended by signal {-code}" if code is not None and code < 0 else f"exit code {code}"
    return ToolResultBlock(call.id, call.name, (TextBlock(f"{text}\n({how})"),), None, metadata)
