"""All Redis commands: lease streams, wake-ups, and the copy of events for other services."""
