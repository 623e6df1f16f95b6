"""Agents as tools of other agents."""
