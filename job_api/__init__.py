"""The service that answers callers."""
