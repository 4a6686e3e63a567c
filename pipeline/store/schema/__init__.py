"""The schema of the database: migrations, roles, privileges, and checks of the server."""
