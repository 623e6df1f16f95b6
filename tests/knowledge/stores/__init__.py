"""Stores of chunks."""
