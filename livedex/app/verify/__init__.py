"""Compare the index with its sources, and repair it."""
