"""Runs with a log of their events, which go on when a client leaves."""
