"""OpenAI's Responses API, and servers that speak it."""
