"""One end of a connection that tries what applications do with sockets: accel client|server SCENARIO ADDRESS PORT.

Sockets are non-blocking from their beginning, but in scenarios that say otherwise. An end that sees anything else than TCP would do
says so and exits with 1. Each scenario is a pair of functions, for the end that connects and for the one that accepts.

Those of one connection begin with a byte from the end that accepts: by then both ends are known, so the connection is accelerated if it
may be. In those of many connections the first message races against that.
"""

import select
import sys

import blocking
import descriptors
import ends
import exchange
import lives
import many
import reading
import writing
from sockets import connect, expect, listen, send, wait

GREETING = b"!"

# Of one connection each; those of `many` make their own.
SCENARIOS = {}
for theme in (blocking, descriptors, ends, exchange, lives, reading, writing):
    SCENARIOS.update(theme.SCENARIOS)


def main(role, scenario, address, port):
    if scenario in many.SCENARIOS:
        client, server = many.SCENARIOS[scenario]
        if role == "client":
            return client(address, int(port))
        return server(listen(address, int(port), False))
    client, server = SCENARIOS[scenario]
    # As those of servers with a thread for each connection.
    blocks = scenario in blocking.SCENARIOS
    if role == "client":
        with connect(address, int(port)) as sock:
            expect(sock, GREETING)
            return client(sock)
    listener = listen(address, int(port), blocks)
    assert wait(listener, select.POLLIN), "nobody came"
    with listener.accept()[0] as sock:
        sock.setblocking(blocks)
        send(sock, GREETING)
        return server(sock)


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except (AssertionError, OSError) as failure:
        print(f"{sys.argv[1:3]}: {failure!r}", file=sys.stderr)
        sys.exit(1)
