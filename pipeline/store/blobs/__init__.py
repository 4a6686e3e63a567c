"""Large contents, in PostgreSQL or in object storage."""
