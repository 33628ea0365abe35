"""What can be asked of ExecutionService: one file, one class, one transaction."""
