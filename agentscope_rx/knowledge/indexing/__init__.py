"""Indexing: folders to stores, with progress, incrementally."""
