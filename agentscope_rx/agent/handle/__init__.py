"""Shared runs: a run that begins by itself, with a log of its events and any number of subscribers."""
