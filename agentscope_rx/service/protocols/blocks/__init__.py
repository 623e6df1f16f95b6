"""AgentScope 2's events, as a protocol: what `agentscope.app` sends of a chat, and what its clients send to it."""
