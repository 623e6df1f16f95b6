"""What a tool returns, as what a model reads."""
