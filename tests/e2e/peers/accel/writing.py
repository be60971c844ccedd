"""Ways to write."""

import array
import fcntl
import os
import random
import select
import socket
import tempfile

from exchange import echo_once, ping_once
from sockets import SIOCOUTQ, expect, noise, send, soon, unread, wait


def received_server(total):
    def server(sock):
        echo_once(sock)
        expect(sock, noise(9, total))
        send(sock, b"done")

    return server


def writev_client(sock):
    ping_once(sock)
    data = noise(9, 100_000)
    cut = random.Random(1)
    while data:
        parts = [data[i : i + 700] for i in range(0, cut.randrange(700, 20_000), 700)]
        try:
            data = data[sock.sendmsg(parts) :]
        except BlockingIOError:
            assert wait(sock, select.POLLOUT)
    expect(sock, b"done")


def cork_client(sock):
    ping_once(sock)
    data = noise(9, 100_000)
    for i, option in enumerate([socket.TCP_CORK, socket.TCP_NODELAY]):
        sock.setsockopt(socket.IPPROTO_TCP, option, 1)
        half = data[i * 50_000 : (i + 1) * 50_000]
        for at in range(0, 50_000, 1000):
            part, flags = half[at : at + 1000], socket.MSG_MORE if at % 3000 else 0
            while part:
                try:
                    part = part[sock.send(part, flags) :]
                except BlockingIOError:
                    assert wait(sock, select.POLLOUT)
        sock.setsockopt(socket.IPPROTO_TCP, option, 0)
    expect(sock, b"done")


def sendfile_client(sock):
    ping_once(sock)
    with tempfile.TemporaryFile() as file:
        file.write(noise(9, 300_000))
        file.flush()
        at = 0
        while at < 300_000:
            try:
                at += os.sendfile(sock.fileno(), file.fileno(), at, 300_000 - at)
            except BlockingIOError:
                assert wait(sock, select.POLLOUT)
    expect(sock, b"done")


def splice_client(sock):
    ping_once(sock)
    data = noise(9, 100_000)
    out, into = os.pipe()
    while data:
        data = data[os.write(into, data[:30_000]) :]
        left = unread(out)
        while left:
            try:
                left -= os.splice(out, sock.fileno(), left)
            except BlockingIOError:
                assert wait(sock, select.POLLOUT)
    expect(sock, b"done")


def outq_client(sock):
    ping_once(sock)
    send(sock, noise(9, 100_000))
    soon(lambda: not outq(sock), "SIOCOUTQ does not come down to 0")
    expect(sock, b"done")


def outq(sock):
    count = array.array("i", [0])
    fcntl.ioctl(sock, SIOCOUTQ, count)
    return count[0]


SCENARIOS = {
    "writev": (writev_client, received_server(100_000)),
    "cork": (cork_client, received_server(100_000)),
    "sendfile": (sendfile_client, received_server(300_000)),
    "splice": (splice_client, received_server(100_000)),
    "outq": (outq_client, received_server(100_000)),
}
