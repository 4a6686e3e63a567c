"""The PostgreSQL queue as a broker."""
