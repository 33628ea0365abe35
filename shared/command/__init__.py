"""The command itself, and what starts processes."""
