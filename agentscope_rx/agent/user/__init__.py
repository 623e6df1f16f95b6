"""A person as an agent: `UserAgent`, and where their answers come from."""
