"""The service that hands work to executors, and the runtime that runs it."""
