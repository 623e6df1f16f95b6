"""The parts that all sources and operators are made of: attaching, subscribing, cancelling, demand, loops."""
