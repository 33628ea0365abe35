"""No I/O, milliseconds."""
