"""Telling subscribers what became of documents: notices from the database to their URLs, signed,
once at least.
"""

from livedex.consumers.notify.couriers import Subscription, open_delivery_workers
from livedex.consumers.notify.delivery_worker import DeliveryWorker
from livedex.consumers.notify.webhook_sender import Endpoint

__all__ = ["DeliveryWorker", "Endpoint", "Subscription", "open_delivery_workers"]
