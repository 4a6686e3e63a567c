"""Turn texts into vectors through a provider that may fail in any way.

    embed stage
        |
    BatchedPassageEmbedder     stages/passage_embedder.py: passages of all documents in shared
        |                      batches, each passage once; stores the vectors
    EmbeddingService           service.py: splits a batch into requests, finds the text that makes
        |                      a request fail, decides between a bad text and an outage
    EmbeddingClient            client.py: one request: concurrency, Retry-After, retries,
        |                      validation, metrics, circuit breaker
    Embedder                   embedder.py: the provider: `openai_embedder`, `local_embedder`,
                               `fake_embedder`, or a class of the user

Where several processes embed, `consumers.claimed_passage_embedder` stands before the first one: it
claims passages in the database, so that each is embedded by one process only.

Each collaborator has one job:

| module | job |
|---|---|
| `circuit_breaker` | fail fast during an outage; detect recovery with a probe |
| `embed_call` | the state of one call of the service: requests, bisection, request size |
| `poison_texts` | failure history of texts; the rules for rejecting one |
| `query_embedder` | search queries: a cache, a short deadline, no queue |
| `provider_errors`, `provider_messages`, `status_classes` | error responses to errors |
| `openai_response`, `vectors` | validation of responses and vectors |
| `embedder_factory` | the setting LIVEDEX_EMBEDDER to an embedder |

All batches are formed by `runtime.micro_batch`.
"""
