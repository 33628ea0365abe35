"""A session's credits, leases and pushes, in memory."""
