"""Many connections, each a short one."""

import errno
import os
import select
import socket

from sockets import PATIENCE, TCP_FASTOPEN_CONNECT, connect, expect, family, noise, send, wait


def early_client(address, port):
    """Bytes that are written before the connection is established come first."""
    for _ in range(20):
        sock = socket.socket(family(address), socket.SOCK_STREAM)
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, TCP_FASTOPEN_CONNECT, 1)
        error = sock.connect_ex((address, port))
        assert error in (0, errno.EINPROGRESS), os.strerror(error)
        data, sent = noise(1, 5000), 0
        try:
            sent = sock.send(data[:1000])
        except BlockingIOError:
            pass
        assert wait(sock, select.POLLOUT), "connect: no answer"
        for at in range(sent, 5000, 100):
            send(sock, data[at : at + 100][: 5000 - at])
        expect(sock, data)
        sock.close()


def early_server(listener):
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_FASTOPEN, 16)
    short_server(listener, 20)


def crowd_client(address, port, count=20):
    socks = [connect(address, port) for _ in range(count)]
    for _ in range(20):
        for i, sock in enumerate(socks):
            send(sock, b"%03d" % i)
        for i, sock in enumerate(socks):
            expect(sock, b"%03d" % i)


def crowd_server(listener):
    short_server(listener, 20)


def short_client(address, port, count=10_000):
    """Each connection's bytes come in order, though the first message races against accept()."""
    for i in range(count):
        sock = connect(address, port)
        send(sock, b"%08d" % i)
        send(sock, b"a" * (i % 50))
        send(sock, b"b\n")
        expect(sock, b"%08d" % i + b"a" * (i % 50) + b"b\n")
        sock.close()


def short_server(listener, count=10_000):
    epoll = select.epoll()
    epoll.register(listener, select.EPOLLIN)
    open_ones, ended = {}, 0
    while ended < count:
        events = epoll.poll(PATIENCE)
        assert events, f"no event after {ended} connections"
        for fd, _ in events:
            if fd == listener.fileno():
                sock, _ = listener.accept()
                sock.setblocking(False)
                open_ones[sock.fileno()] = sock
                epoll.register(sock, select.EPOLLIN)
                continue
            sock = open_ones[fd]
            try:
                data = sock.recv(4096)
            except BlockingIOError:
                continue
            if data:
                send(sock, data)
            else:
                del open_ones[fd]
                sock.close()
                ended += 1


SCENARIOS = {
    "short": (short_client, short_server),
    "crowd": (crowd_client, crowd_server),
    "early": (early_client, early_server),
}
