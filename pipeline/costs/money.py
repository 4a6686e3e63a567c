"""Amounts of money, in US dollars."""

from __future__ import annotations

from decimal import ROUND_HALF_UP, Decimal

CURRENCY = "USD"
_SMALLEST = Decimal("0.000001")
FREE = {"amount": "0", "currency": CURRENCY}
"""The price of a model on machines of one's own."""


def exact_amount(amount: Decimal) -> dict[str, str]:
    """Return an amount as the interface shows it, with every digit.

    Args:
        amount: in US dollars, finite.
    """
    shown = f"{amount:f}"
    if "." in shown:
        shown = shown.rstrip("0").rstrip(".")
    return {"amount": shown, "currency": CURRENCY}


def rounded_amount(amount: Decimal) -> dict[str, str]:
    """Return an amount to four decimals, or six where four would hide a part of it;
    what is not free never shows as nothing.

    Args:
        amount: in US dollars, finite.
    """
    if not amount:
        return FREE
    rounded = amount.quantize(_SMALLEST, ROUND_HALF_UP) or _SMALLEST.copy_sign(amount)
    shown = f"{rounded:f}"
    short = not rounded % Decimal("0.0001")
    return {"amount": shown[:-2] if short else shown, "currency": CURRENCY}
