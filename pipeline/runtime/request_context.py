"""What is known of the request that a task answers."""

from __future__ import annotations

from contextvars import ContextVar

current_credential: ContextVar[str] = ContextVar("credential", default="")
"""Who reads, within its tenant."""
