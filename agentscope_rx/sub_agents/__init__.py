"""Sub-agents that are declared in files of the workspace or in code; see `SubagentsHook`."""
