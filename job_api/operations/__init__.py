"""What can be asked of JobControl: one file, one class, one transaction."""
