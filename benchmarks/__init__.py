"""What a turn, a chunk and an agent cost, beside a bare asyncio loop that does the same work: `make bench`."""
