"""Checkpoints within a run, and the journal of its tools' effects: a run goes on after its process was killed."""
