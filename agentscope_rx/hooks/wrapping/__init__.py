"""Operators around the flow of a call, a stage, a model call or a tool call; use `agentscope_rx.hooks.around`."""
