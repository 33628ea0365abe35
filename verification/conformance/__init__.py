"""Whether services and executors speak the protocol."""
