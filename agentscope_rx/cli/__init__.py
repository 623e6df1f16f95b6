"""The command line: `agentscope-rx ask` and `chat`, with approvals, saved conversations and MCP."""
