"""`change_old`: what all strategies without a model have in common: old messages get short forms, oldest first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from agentscope_rx.context_policy.rounds import last_rounds
from agentscope_rx.context_policy.short_results import Form, with_forms
from agentscope_rx.context_policy.strategy import StrategyContext, oldest_first
from agentscope_rx.messages import Msg


def change_old(context: StrategyContext, keep_rounds: int, form: Form) -> Sequence[Msg]:
    """The messages outside of the last `keep_rounds` rounds with the short forms that `form` gives.

    Oldest first, until the target is reached; messages that would not become smaller are left out.
    """
    rounds = context.rounds
    old = rounds[: len(rounds) - len(last_rounds(rounds, keep_rounds))]
    return oldest_first(replace(context, rounds=old), lambda message: with_forms(message, form, context.measure))
