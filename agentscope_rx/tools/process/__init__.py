"""Child processes that end with all that they have started."""
