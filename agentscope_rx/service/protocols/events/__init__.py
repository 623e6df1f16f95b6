"""Our own events, as a protocol: a run is begun, followed, joined again, given input, interrupted and stopped."""
