"""Hooks that come with the library."""
