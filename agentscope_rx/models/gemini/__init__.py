"""Gemini: the Developer API and Vertex AI."""
