"""The pipeline: words, stages, chunking, extraction, embedding, the store, search and the API."""
