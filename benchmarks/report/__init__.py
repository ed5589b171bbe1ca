"""From results to tables, a page and plots."""
