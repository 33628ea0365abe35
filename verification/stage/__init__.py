"""What runs and can be killed: the stack, executors, and the servers below."""
