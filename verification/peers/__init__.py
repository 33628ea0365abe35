"""The other side of the protocol: callers, executors and services that do what a check says."""
