"""The system prompt of a run: a text, or a function of the run that gives one.

| `sys_prompt`                                   | is                                                     |
|------------------------------------------------|--------------------------------------------------------|
| a str, None                                    | the same for each run                                  |
| a function of the `Run`, plain or async        | called once for each run, before its PreCall hooks     |
| a function that returns an Observable          | the last value that it emits; no value is no prompt    |

The function finds the call's data in `run.context` (None if the call was given none), `run.memory` and
`run.history()`. An error of it fails the run.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from contextvars import copy_context
from typing import cast

from reactivex import Observable, abc
from reactivex import operators as ops

from agentscope_rx.agent.run import Run
from agentscope_rx.errors import ConfigurationError
from agentscope_rx.messages import Msg
from agentscope_rx.reactive import Flow, concat_map, flow, from_awaitable, just

PromptText = str | None
SystemPrompt = str | Callable[[Run], PromptText | Awaitable[PromptText] | Observable[str]]
"""The type of `sys_prompt`."""


def check_system_prompt(prompt: object) -> None:
    """`ConfigurationError` for anything but a text or a function of one argument."""
    if prompt is None or isinstance(prompt, str):
        return
    if not callable(prompt):
        raise ConfigurationError(f"sys_prompt must be a str or a function of the run, not {prompt!r:.60}.")
    try:
        inspect.signature(prompt).bind(object())
    except TypeError as error:
        raise ConfigurationError(f"sys_prompt must take the run, as in `def prompt(run)`: {error}.") from error
    except ValueError:
        # a callable without a signature
        return


def system_message(prompt: SystemPrompt | None, run: Run) -> Flow[Msg | None]:
    """The system message of this run; None if the prompt is blank.

    Signals: one message, or None; the error of the function, or a `ConfigurationError` if it gives no text.
    Cancels: the awaitable or the Observable of the function.
    """
    if prompt is None or isinstance(prompt, str):
        return just(_message(prompt))
    # a context variable that it sets stays within it
    answer = copy_context().run(prompt, run)
    if isinstance(answer, abc.ObservableBase):
        return flow(cast("Observable[object]", answer)).pipe(ops.last_or_default(None), concat_map(_message))
    if inspect.isawaitable(answer):
        # the result of the awaitable may be an Observable
        return from_awaitable(answer).pipe(concat_map(lambda later: system_message(lambda _: cast("str", later), run)))
    return just(_message(answer))


def _message(text: object) -> Msg | None:
    if text is None:
        return None
    if not isinstance(text, str):
        raise ConfigurationError(f"The function sys_prompt must return a str, not {text!r:.60}.")
    return Msg.system(text) if text.strip() else None
