"""`Approvals`: the answers to calls that wait for approval, and the answers that hold for calls to come.

Approve("c1")                       decides the call c1
Approve("c1", remember="tool")      also every later call of its tool
Approve("c1", remember="arguments") also every later call of its tool with the same arguments
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from agentscope_rx.frozen_values import dataclass
from agentscope_rx.messages import ApprovalAnswer, Approve, Reject, ToolUseBlock


@dataclass(frozen=True, slots=True)
class ApprovalRule:
    """A remembered answer: decides later calls of `tool`; with an `input`, only calls with these arguments."""

    tool: str
    input: Mapping[str, object] | None
    approved: bool
    reason: str = ""

    def covers(self, call: ToolUseBlock) -> bool:
        """True if this rule decides the call."""
        return call.name == self.tool and (self.input is None or self.input == call.input)


class Approvals:
    """The answers of one conversation: to pending calls by their ids, and as rules, the latest last."""

    __slots__ = ("answers", "rules")

    def __init__(self, answers: Iterable[ApprovalAnswer] = (), rules: Iterable[ApprovalRule] = ()) -> None:
        self.answers = {answer.call_id: answer for answer in answers}
        """Answers to pending calls that have not been acted on."""
        self.rules: tuple[ApprovalRule, ...] = tuple(rules)

    def add(self, answers: Iterable[ApprovalAnswer], pending: Mapping[str, ToolUseBlock]) -> None:
        """Add answers to pending calls, and make rules of those with `remember`."""
        for answer in answers:
            self.answers[answer.call_id] = answer
            if answer.remember is not None:
                self._remember(answer, pending[answer.call_id])

    def _remember(self, answer: ApprovalAnswer, call: ToolUseBlock) -> None:
        edited = answer.input if isinstance(answer, Approve) else None
        arguments = call.input if edited is None else edited
        reason = answer.reason if isinstance(answer, Reject) else ""
        rule = ApprovalRule(
            call.name, arguments if answer.remember == "arguments" else None, isinstance(answer, Approve), reason
        )
        others = (old for old in self.rules if (old.tool, old.input) != (rule.tool, rule.input))
        self.rules = (*others, rule)

    def decision(self, call: ToolUseBlock) -> ApprovalAnswer | None:
        """The answer to this call, else that of the latest rule that covers it."""
        answer = self.answers.get(call.id)
        if answer is not None or not self.rules:
            return answer
        for rule in reversed(self.rules):
            if rule.covers(call):
                return Approve(call) if rule.approved else Reject(call, rule.reason)
        return None

    def keep(self, pending: Collection[str]) -> None:
        """Forget answers to calls that are no longer pending."""
        if self.answers:
            self.answers: dict[str, ApprovalAnswer] = {
                id: answer for id, answer in self.answers.items() if id in pending
            }
