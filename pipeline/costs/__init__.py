"""What embedding costs: prices, tokens and bills.

| module | job |
|---|---|
| `price_list` | the price of a model: `prices.toml`, overridden by a file of the user |
| `money` | amounts as the interface shows them |
| `token_counts` | estimated tokens of a text, and the tokens of a request by text |
| `token_usage` | tokens that a provider reports for a request |
| `bill` | what one version of a document took |

The ledger itself is a table: `livedex.pipeline.store.cost_ledger`.
"""
