"""Livedex as a server of the Model Context Protocol: tools and documents for agents.

    agent ─stdio─► livedex mcp ─HTTP─┐
    agent ─streamable HTTP─► /mcp ───┴─► the HTTP API, with the caller's own credential

Invariant: every tool is a call of the HTTP API with the headers of the caller, so that scopes,
rights, limits and errors are those of the API.
"""
