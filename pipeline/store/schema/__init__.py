"""The database schema: migrations, roles, privileges, and version checks of the server."""
