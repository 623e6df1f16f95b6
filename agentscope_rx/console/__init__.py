"""A run on a terminal, as a subscriber: `Console`, and `print_run` for scripts."""

from agentscope_rx.console.console import Console, print_run

__all__ = ["Console", "print_run"]
