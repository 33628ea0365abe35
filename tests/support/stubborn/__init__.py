"""A deployment's own package, with a job type that can't be cancelled once it runs."""
