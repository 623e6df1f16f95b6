"""Retrieval: searches fused, reranked, widened and merged."""
