"""The workspace of an agent."""
