"""Who may come in: API keys, tokens of an issuer, and how much each may ask."""
