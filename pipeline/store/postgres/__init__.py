"""Connections to PostgreSQL: connection strings, errors, statements, notifications, limits."""
