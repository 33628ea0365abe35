"""A user's package with everything wrong that a start can tell."""
