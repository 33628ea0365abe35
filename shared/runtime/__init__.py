"""What every process needs: clock, ids, loops, settings, logs, start and stop."""
