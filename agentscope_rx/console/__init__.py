"""Runs on a terminal: `Console` is an observer, `print_run` is for scripts."""

from agentscope_rx.console.console import Console, print_run

__all__ = ["Console", "print_run"]
