"""Blocking sockets, as plain as can be."""

import signal
import socket
import struct
import time

from exchange import echo_once, ping_once
from reading import pieces, pieces_client, pieces_client_after_ping
from sockets import expect, send


def waitall_client(sock):
    pieces_client(sock)


def waitall_server(sock):
    sock.setblocking(True)
    echo_once(sock)
    got = sock.recv(1000, socket.MSG_WAITALL)
    assert got == pieces(), f"MSG_WAITALL ended with {len(got)} of 1000 bytes"
    sock.sendall(b"done")


def signals_client(sock):
    ping_once(sock)
    time.sleep(0.5)
    pieces_client_after_ping(sock)


def signals_server(sock):
    """Signals are handled while recv() waits, which goes on."""
    sock.setblocking(True)
    echo_once(sock)
    signal.signal(signal.SIGALRM, lambda *_: None)
    signal.setitimer(signal.ITIMER_REAL, 0.05, 0.05)
    got = b""
    while len(got) < 1000:
        part = sock.recv(1000)
        assert part, "the end came early"
        got += part
    signal.setitimer(signal.ITIMER_REAL, 0)
    assert got == pieces()
    sock.sendall(b"done")


def timeout_client(sock):
    ping_once(sock)
    time.sleep(1)
    send(sock, b"late")
    expect(sock, b"done")


def timeout_server(sock):
    sock.setblocking(True)
    echo_once(sock)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("ll", 0, 300_000))
    begin = time.monotonic()
    try:
        sock.recv(10)
        raise AssertionError("recv() went well")
    except BlockingIOError:
        assert 0.2 < time.monotonic() - begin < 0.9
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("ll", 0, 0))
    assert sock.recv(10) == b"late"
    sock.sendall(b"done")


SCENARIOS = {
    "waitall": (waitall_client, waitall_server),
    "signals": (signals_client, signals_server),
    "timeout": (timeout_client, timeout_server),
}
