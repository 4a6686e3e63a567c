"""Events of documents, how they are read, and what subscribers are told."""
