"""Telling subscribers what became of documents: notices from the database to their URLs, signed, once at least."""

from consumers.notify.courier import Courier
from consumers.notify.couriers import Subscription, open_couriers
from consumers.notify.sending import Route

__all__ = ["Courier", "Route", "Subscription", "open_couriers"]
