"""A user's package whose jobs carry secrets in and out, and let them slip where they can."""
