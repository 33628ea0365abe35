"""The Python client of JobControl."""
