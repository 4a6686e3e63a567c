"""Retrieval quality of an index on judged questions: readers, measures, comparison, reports."""
