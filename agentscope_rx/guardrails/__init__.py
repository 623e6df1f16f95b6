"""Guardrails: checks of input, output, tool calls and tool results, and the isolation of untrusted results."""

from agentscope_rx.guardrails.check_request import CheckRequest
from agentscope_rx.guardrails.guardrails_hook import GuardrailsHook
from agentscope_rx.guardrails.injection import InjectionHints
from agentscope_rx.guardrails.personal_data import PersonalData
from agentscope_rx.guardrails.port import Guardrail, guardrail
from agentscope_rx.guardrails.secret_scan import Secrets
from agentscope_rx.guardrails.text_guardrail import Span, TextGuardrail
from agentscope_rx.guardrails.untrusted import UntrustedResults
from agentscope_rx.guardrails.verdict import PASS, Finding, Verdict

__all__ = [
    "PASS",
    "CheckRequest",
    "Finding",
    "Guardrail",
    "GuardrailsHook",
    "InjectionHints",
    "PersonalData",
    "Secrets",
    "Span",
    "TextGuardrail",
    "UntrustedResults",
    "Verdict",
    "guardrail",
]
