"""Results: raw values as blocks, bounded in size."""
