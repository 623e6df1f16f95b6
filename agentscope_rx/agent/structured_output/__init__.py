"""Structured output: what shape is asked for, how a model is asked for it, and how its answer is read."""

from agentscope_rx.agent.structured_output.config import OutputMode, Reminder, StructuredOutput

__all__ = ["OutputMode", "Reminder", "StructuredOutput"]
