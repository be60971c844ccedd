"""How connections end: half closed, reset, killed, with bytes left to read."""

import os
import signal
import socket
import struct
import time

from exchange import echo_once, ping_once
from sockets import at_end, expect, noise, recv, rest, send


def half_client(sock):
    data = noise(1, 200_000)
    send(sock, data)
    sock.shutdown(socket.SHUT_WR)
    # The answer and the end of it are there before any of it is read.
    time.sleep(0.5)
    expect(sock, data)
    at_end(sock)


def half_server(sock):
    data = rest(sock)
    assert data == noise(1, 200_000), "the request is damaged"
    send(sock, data)


def half_back_client(sock):
    expect(sock, noise(2, 100_000))
    at_end(sock)
    for i in range(20):
        send(sock, noise(i, 5000))
        time.sleep(0.01)


def half_back_server(sock):
    send(sock, noise(2, 100_000))
    sock.shutdown(socket.SHUT_WR)
    for i in range(20):
        expect(sock, noise(i, 5000))
    at_end(sock)


def late_reader_client(sock):
    ping_once(sock)
    send(sock, noise(3, 150_000))
    sock.close()


def late_reader_server(sock):
    echo_once(sock)
    time.sleep(0.5)
    # Both directions are shut before what came is read.
    sock.shutdown(socket.SHUT_WR)
    time.sleep(0.2)
    expect(sock, noise(3, 150_000))
    at_end(sock)


def broken_pipe_client(sock):
    ping_once(sock)
    sock.shutdown(socket.SHUT_WR)
    try:
        sock.send(b"too late")
    except BrokenPipeError:
        return at_end(sock)
    raise AssertionError("send() after shutdown(SHUT_WR) went well")


def broken_pipe_server(sock):
    echo_once(sock)
    at_end(sock)


def reset_client(sock):
    ping_once(sock)
    expect(sock, noise(4, 1000))
    try:
        got = recv(sock, 1)
    except ConnectionResetError:
        got = None
    assert got is None, f"{got!r} instead of an RST"
    try:
        send(sock, b"x")
    except (BrokenPipeError, ConnectionResetError):
        return
    raise AssertionError("send() after an RST went well")


def reset_server(sock):
    echo_once(sock)
    send(sock, noise(4, 1000))
    time.sleep(0.2)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def killed_client(sock):
    ping_once(sock)
    send(sock, noise(5, 100_000))
    os.kill(os.getpid(), signal.SIGKILL)


def killed_server(sock):
    echo_once(sock)
    time.sleep(0.5)
    expect(sock, noise(5, 100_000))
    at_end(sock)


SCENARIOS = {
    "half": (half_client, half_server),
    "half-back": (half_back_client, half_back_server),
    "late-reader": (late_reader_client, late_reader_server),
    "broken-pipe": (broken_pipe_client, broken_pipe_server),
    "reset": (reset_client, reset_server),
    "killed": (killed_client, killed_server),
}
