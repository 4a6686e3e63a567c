"""The HTTP kit that the API and the webhooks share: bodies, problems, middleware, authentication,
and the outbound client.
"""
