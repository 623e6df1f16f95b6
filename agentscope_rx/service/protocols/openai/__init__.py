"""OpenAI's API for agents."""

from agentscope_rx.service.protocols.openai.routes import openai_routes

__all__ = ["openai_routes"]
