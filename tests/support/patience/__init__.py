"""A deployment's own package: synthetic work of types that differ in time-out and grace only."""
