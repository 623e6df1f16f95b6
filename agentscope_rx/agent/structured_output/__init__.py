"""Structured output: the shape of a reply, the request to the model, and the reading of its answer."""

from agentscope_rx.agent.structured_output.config import OutputMode, Reminder, StructuredOutput

__all__ = ["OutputMode", "Reminder", "StructuredOutput"]
