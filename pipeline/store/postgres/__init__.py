"""PostgreSQL access: connection strings, connections, errors, statements, LISTEN, and limits."""
