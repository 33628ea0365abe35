"""Both services and executors as processes that are killed and restarted."""
