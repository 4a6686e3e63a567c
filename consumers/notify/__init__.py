"""Telling subscribers what became of documents: notices from the database to their URLs, signed, once at least."""

from livedex.consumers.notify.couriers import Subscription, open_couriers
from livedex.consumers.notify.delivery_worker import Courier
from livedex.consumers.notify.webhook_sender import Route

__all__ = ["Courier", "Route", "Subscription", "open_couriers"]
