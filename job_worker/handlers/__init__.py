"""The functions that do the work of the job types that ship."""
