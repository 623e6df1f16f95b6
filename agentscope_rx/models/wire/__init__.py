"""The parts of wire formats that providers share: turns, JSON, names, media, endpoints. Pure."""
