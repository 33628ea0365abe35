"""Job definitions with their models, queues, and the registry that checks them at start-up."""
