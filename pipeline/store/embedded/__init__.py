"""The PostgreSQL that Livedex starts by itself."""
