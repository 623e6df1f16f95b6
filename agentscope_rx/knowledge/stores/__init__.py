"""Stores of chunks: the embedded one, and those of databases."""
