"""A job type as a deployment brings its own, whose projector fails when the output says so."""
