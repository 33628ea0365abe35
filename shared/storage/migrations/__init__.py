"""The database's history, one file a step; each step is frozen once it was released."""
