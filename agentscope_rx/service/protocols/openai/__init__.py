"""The endpoint that OpenAI's clients speak to: Chat Completions, Responses and the list of models."""
