"""Random scripts: what happens to an agent, as plain values; a world that plays them; what must hold after each."""
