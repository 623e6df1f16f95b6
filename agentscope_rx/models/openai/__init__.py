"""OpenAI and every server that speaks Chat Completions."""
