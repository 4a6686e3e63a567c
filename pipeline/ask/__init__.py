"""Answers with citations.

    question ─► search ─► sources ─► chat model ─► markers checked ─► answer with citations
                             └─────► extractive: the sentences that carry the answer

Invariants: an answer is made only of chunks that the search returned, with the rights of the
caller; a marker `[n]` in an answer is a citation of source n or is removed; text of documents
cannot contain a marker; without sources nothing is answered and no model is called.
"""
