"""What stands at a URL, got so that whoever names the URL can reach nothing but public servers and the hosts that the operator names.

    url ─► Place ─► every address of the host is looked at ─► a connection to exactly that address ─► redirect? begin again with the new place
                                                                                                   └► a body within bounds of size and time

Invariants: a host is resolved once for each connection, and the connection goes to an address that was looked at; a proxy of the environment
is never used; credentials go to the origin that they are for and to no other; nothing of a URL but its host stands in an error.
"""
