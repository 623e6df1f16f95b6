"""Agents that transfer a conversation to one another."""
