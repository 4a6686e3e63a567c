"""Storage of large contents in PostgreSQL or in object storage."""
