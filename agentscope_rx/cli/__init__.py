"""The command line: `agentscope-rx ask` and `chat`, with approvals, saved conversations, MCP; and `setup-local`."""
