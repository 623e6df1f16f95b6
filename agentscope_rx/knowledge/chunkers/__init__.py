"""Chunkers: ways of cutting documents to chunks."""
