"""Connections that live while something is done to them."""

import select
import time

from exchange import ping_once
from sockets import recv, recv_some, send, wait


def busy_client(sock, seconds=6):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        ping_once(sock)
        time.sleep(0.02)


def busy_server(sock):
    while recv(sock, 4) == b"ping":
        send(sock, b"pong")


def ended_client(sock, pause=0.005, within=20):
    """Somebody else ends the connection, and soon."""
    end = time.monotonic() + within
    try:
        while time.monotonic() < end:
            ping_once(sock)
            if wait(sock, select.POLLIN, pause):
                break
        else:
            raise AssertionError("the connection lives")
        got = recv(sock, 1)
        assert False, f"{got!r} instead of an error"
    except (ConnectionError, BrokenPipeError):
        pass


def silent_client(sock):
    """It is ended while nothing is sent."""
    ended_client(sock, 15)


def ended_server(sock):
    try:
        while data := recv_some(sock):
            send(sock, data.replace(b"i", b"o"))
        raise AssertionError("the end, and no error")
    except (ConnectionError, BrokenPipeError):
        pass


SCENARIOS = {
    "busy": (busy_client, busy_server),
    "ended": (ended_client, ended_server),
    "silent": (silent_client, ended_server),
}
