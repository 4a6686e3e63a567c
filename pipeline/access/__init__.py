"""Authentication by API key or JWT, and rate limits per credential."""
