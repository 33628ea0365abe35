"""One suite for a fake and its real adapter: it keeps the fakes honest."""
