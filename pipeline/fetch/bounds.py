"""How much, how long and how many: the bounds of fetching."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class FetchLimits:
    """The bounds of one fetch, and of all of a process.

    Attributes:
        total_timeout_s: for everything from the name of the host to the last byte, redirects
            included.
        connect_s: for a connection to one address.
        read_timeout_s: without a byte.
        max_redirects: followed one after another.
        at_once: fetches of the process; has to be less than the workers of the stage, so that
            others always find one.
        max_per_origin: of these, from one origin.
        share: of these, of one tenant: so that others find one.
        large_body_bytes: a body above it needs one of `large` places until it is let go.
        slot_wait_s: waited for a turn.
    """

    total_timeout_s: float = 30.0
    connect_s: float = 5.0
    read_timeout_s: float = 15.0
    max_redirects: int = 5
    at_once: int = 8
    max_per_origin: int = 4
    share: int = 6
    large_body_bytes: int = 262_144
    large: int = 2
    slot_wait_s: float = 0.25
