"""`instruction`: a message that nobody who takes part in the conversation has said."""

from __future__ import annotations

from agentscope_rx.messages import Msg, MsgRole

AS_IT_IS = "as_it_is"
"""A key of a message's metadata: the message is no part of what speakers say to each other, and is left as it is."""


def hint_message(text: str) -> Msg:
    """A message that tells the model what to do now, in whatever conversation."""
    return Msg("user", text, MsgRole.USER, metadata={AS_IT_IS: True})
