"""Tests of permissions: rules, decisions, files, hooks, and attempts to get around them."""
