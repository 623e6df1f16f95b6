"""Ollama by its own wire format: `/api/chat`, on this machine or at ollama.com."""
