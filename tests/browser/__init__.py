"""Views in a real browser."""
