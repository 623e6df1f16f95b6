"""One call of a tool, from the model's request to exactly one result, and the batch that it is in."""
