"""The hooks of user_hooks.py, which the type checker has checked, also run."""

from __future__ import annotations

from agentscope_rx.events import PostCallEvent
from agentscope_rx.testing import run_virtual
from tests.agent.parts import assert_whole, events_of
from tests.hooks.user_hooks import made


def test_every_form_that_the_type_checker_takes_is_a_hook():
    someone = made()
    events = run_virtual(events_of(someone, "hi"))
    assert isinstance(events[-1], PostCallEvent)
    # the audit stops a call before it runs
    assert events[-1].message.pending_calls
    assert_whole(someone, pending=[call.id for call in events[-1].message.pending_calls])
