"""The pipeline: domain types, stages, extraction, chunking, embedding, store, search and API."""
