"""A coordinator that delegates to members."""
