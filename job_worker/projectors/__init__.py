"""What becomes of results: the only SQL outside storage, in tables of its own."""
