"""Guardrails: checks of input, output, tool calls and tool results, and the isolation of untrusted results."""

from agentscope_rx.guardrails.check_request import CheckRequest
from agentscope_rx.guardrails.guardrails_hook import GuardrailsHook
from agentscope_rx.guardrails.port import Guardrail, guardrail
from agentscope_rx.guardrails.verdict import PASS, Finding, Verdict

__all__ = [
    "PASS",
    "CheckRequest",
    "Finding",
    "Guardrail",
    "GuardrailsHook",
    "Verdict",
    "guardrail",
]
