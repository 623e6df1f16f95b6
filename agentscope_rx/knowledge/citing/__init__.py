"""Knowledge for an agent: the hook, the tool, numbers and citations."""
