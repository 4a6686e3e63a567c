"""Documents, their passages and vectors."""
