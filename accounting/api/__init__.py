"""REST edges of money."""
