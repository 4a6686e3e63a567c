"""Ingestion: converts requests to events and publishes them."""
