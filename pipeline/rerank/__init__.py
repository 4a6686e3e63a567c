"""Reranking: a model reads the query beside each of the best hits and orders them anew.

    search (in one transaction) ─► the best 50 ─► reranker ─► the best `limit`

Invariants: no transaction is open while the reranker is asked; a reranker that fails, is late or
answers oddly leaves the fused order, and the answer says `degraded: ["rerank"]`.
"""
