"""The embedded PostgreSQL server, which Livedex starts itself."""
