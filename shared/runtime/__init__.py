"""What every process needs to run: a clock, ids, loops, settings, logs, start and stop."""
