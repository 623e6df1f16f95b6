"""Chunkers: by tokens, sentences, headings and the structure of code."""
