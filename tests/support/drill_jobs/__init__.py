"""Job types of a deployment's own, as a user's package brings them."""
