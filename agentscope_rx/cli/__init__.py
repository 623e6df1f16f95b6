"""The command line: `agentscope-rx ask`, `chat`, `setup-local`."""
