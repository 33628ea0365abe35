"""The groups of the command that start workers and executors."""
