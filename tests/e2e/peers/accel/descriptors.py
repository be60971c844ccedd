"""Sockets that go to other processes."""

import os
import socket
import sys

from exchange import echo_once
from reading import pieces, pieces_client
from sockets import expect, send


def fork_server(sock):
    echo_once(sock)
    expect(sock, pieces()[:300])
    child = os.fork()
    if not child:
        try:
            expect(sock, pieces()[300:700])
            os._exit(0)
        except BaseException as error:
            print(error, file=sys.stderr, flush=True)
            os._exit(1)
    assert os.waitpid(child, 0)[1] == 0, "the child saw something else"
    expect(sock, pieces()[700:])
    send(sock, b"done")


def passed_server(sock):
    echo_once(sock)
    ours, theirs = socket.socketpair()
    socket.send_fds(ours, [b"x"], [sock.fileno()])
    sock.close()
    _, fds, _, _ = socket.recv_fds(theirs, 1, 1)
    other = socket.socket(fileno=fds[0])
    expect(other, pieces())
    send(other, b"done")
    other.close()


SCENARIOS = {
    "fork": (pieces_client, fork_server),
    "passed": (pieces_client, passed_server),
}
