"""The formats in which a run is sent to its clients."""
