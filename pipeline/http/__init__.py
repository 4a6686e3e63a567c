"""HTTP code shared by the API and the webhooks: bodies, problem responses, middleware,
authentication, and the outbound client.
"""
