"""Ways to read."""

import select
import socket
import time

from exchange import echo_once, ping_once
from sockets import PATIENCE, expect, noise, recv, send, soon, unread, wait


def pieces_client(sock):
    ping_once(sock)
    pieces_client_after_ping(sock)


def pieces_client_after_ping(sock):
    for i in range(10):
        send(sock, noise(i, 100))
        time.sleep(0.02)
    expect(sock, b"done")


def pieces():
    return b"".join(noise(i, 100) for i in range(10))


def peek_server(sock):
    echo_once(sock)
    soon(lambda: len(peeked(sock)) == 1000, "not all of it was peeked at")
    assert peeked(sock) == pieces() and peeked(sock)[:10] == sock.recv(10, socket.MSG_PEEK)
    expect(sock, pieces())
    send(sock, b"done")


def peeked(sock):
    try:
        return sock.recv(5000, socket.MSG_PEEK)
    except BlockingIOError:
        return b""


def fionread_server(sock):
    echo_once(sock)
    soon(lambda: unread(sock) == 1000, f"FIONREAD says {unread(sock)} instead of 1000")
    recv(sock, 300)
    assert unread(sock) == 700, f"FIONREAD says {unread(sock)} instead of 700"
    expect(sock, pieces()[300:])
    send(sock, b"done")


def lowat_server(sock):
    echo_once(sock)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, 1000)
    assert wait(sock, select.POLLIN), "nothing came"
    got = sock.recv(5000)
    # What came before the option was set may be read early, no more.
    assert len(got) == 1000, f"readable with {len(got)} of 1000 bytes"
    assert got == pieces()
    send(sock, b"done")


def lowat_first_client(sock):
    ping_once(sock)
    expect(sock, b"ready")
    for i in range(10):
        send(sock, noise(i, 100))
        time.sleep(0.02)
    expect(sock, b"done")


def lowat_first_server(sock):
    echo_once(sock)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, 1000)
    send(sock, b"ready")
    assert wait(sock, select.POLLIN), "nothing came"
    got = sock.recv(5000)
    assert len(got) == 1000, f"readable with {len(got)} of 1000 bytes"
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, 1)
    send(sock, b"done")


def epoll_server(flags):
    def server(sock):
        echo_once(sock)
        epoll = select.epoll()
        epoll.register(sock, select.EPOLLIN | flags)
        got = b""
        while len(got) < 1000:
            assert epoll.poll(PATIENCE), f"no event after {len(got)} bytes"
            # Edge-triggered: everything has to be taken, and each message is an edge of its own.
            try:
                while part := sock.recv(64):
                    got += part
            except BlockingIOError:
                pass
        assert got == pieces()
        send(sock, b"done")

    return server


# More than the bound, so that the end of it comes through TCP.
UPLOAD = 400_000


def upload_client(sock):
    ping_once(sock)
    data = noise(5, UPLOAD)
    for start in range(0, UPLOAD, 20_000):
        send(sock, data[start : start + 20_000])
    expect(sock, b"done")


def short_reads_server(sock):
    """Takes a read of less than it asked for as a sign that nothing is left, as epoll(7) allows and nginx does."""
    echo_once(sock)
    epoll = select.epoll()
    epoll.register(sock, select.EPOLLIN | select.EPOLLET)
    got = b""
    # Everything is there before the first read.
    time.sleep(1)
    while len(got) < UPLOAD:
        assert epoll.poll(PATIENCE), f"no event after {len(got)} bytes"
        part = b" " * 30_000
        while len(part) == 30_000 and len(got) < UPLOAD:
            part = sock.recv(30_000)
            got += part
    assert got == noise(5, UPLOAD)
    send(sock, b"done")


def iovecs_server(sock):
    echo_once(sock)
    got = b""
    while len(got) < 1000:
        assert wait(sock, select.POLLIN)
        buffers = [bytearray(37) for _ in range(5)]
        count = sock.recvmsg_into(buffers)[0]
        got += b"".join(buffers)[:count]
    assert got == pieces()
    send(sock, b"done")


SCENARIOS = {
    "peek": (pieces_client, peek_server),
    "fionread": (pieces_client, fionread_server),
    "lowat": (lowat_first_client, lowat_first_server),
    "epoll": (pieces_client, epoll_server(0)),
    "epoll-edge": (pieces_client, epoll_server(select.EPOLLET)),
    "short-reads": (upload_client, short_reads_server),
    "iovecs": (pieces_client, iovecs_server),
}
