"""One of several members answers, as a model or a function decides."""
