"""What happens when nobody calls."""
