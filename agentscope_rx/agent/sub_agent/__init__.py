"""Agents as tools: what the parent keeps of their conversations, and how a call of one runs."""
