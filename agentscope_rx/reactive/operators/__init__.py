"""Operators, one a file. `agentscope_rx.reactive` exports them."""
