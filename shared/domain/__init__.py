"""The rules of jobs, leases, batches, definitions and retries: pure, and tested without waiting."""
