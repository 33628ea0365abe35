"""The groups of the command that call JobControl or start it."""
