"""Runs on a terminal: `print_run` for scripts, `Console` as an observer.

    reply = print_run(agent.stream("Hello"))

    agent.stream("Hello").subscribe(Console())

Colours need `rich` (extra `cli`); without it the text is plain.
"""

from agentscope_rx.console.console import Console, print_run

__all__ = ["Console", "print_run"]
