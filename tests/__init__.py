"""The tests, by what they need."""
