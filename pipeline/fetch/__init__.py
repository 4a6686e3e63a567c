"""What stands at a URL, got so that whoever names the URL can reach nothing but public servers and
the hosts that the operator names.

    url ─► Url ─► check every address of the host ─► connect to exactly that address
                        ├► a redirect: begin again with its target
                        └► a body within limits of size and time

Invariants: a host is resolved once for each connection, and the connection goes to an address that
was looked at; a proxy of the environment is never used; credentials go to the origin that they are
for and to no other; nothing of a URL but its host stands in an error.
"""
