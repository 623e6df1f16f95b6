"""Several agents as one: pipelines, each of which is an agent, and `MsgHub`."""
