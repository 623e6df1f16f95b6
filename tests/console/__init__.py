"""Tests of `agentscope_rx.console`."""
