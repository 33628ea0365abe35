"""What must work under fire, one module for each case."""
