"""What must always hold, each judged by itself from the evidence."""
