"""Events of documents, their decoding, and notifications for subscribers."""
