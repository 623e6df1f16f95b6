"""What connects knowledge to an agent."""
