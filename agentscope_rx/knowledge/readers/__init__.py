"""Readers: one for each family of formats."""
