"""Settings: one description of each, their check, and where they come from."""
