"""What a process shares among those it works for."""
