"""Job types whose projectors do what the output says."""
