"""Deliver webhook notifications to subscribers: signed, at least once."""

from livedex.consumers.notify.couriers import open_delivery_workers
from livedex.consumers.notify.delivery_worker import DeliveryWorker, Subscription
from livedex.consumers.notify.registered_deliveries import RegisteredDeliveries
from livedex.consumers.notify.webhook_sender import Endpoint

__all__ = [
    "DeliveryWorker",
    "Endpoint",
    "RegisteredDeliveries",
    "Subscription",
    "open_delivery_workers",
]
