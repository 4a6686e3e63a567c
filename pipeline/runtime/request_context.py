"""Context of the request that a task handles."""

from __future__ import annotations

from contextvars import ContextVar

current_credential: ContextVar[str] = ContextVar("credential", default="")
"""The credential of the request, within its tenant."""
