"""What every scenario does with its socket: wait, send, receive, and look at what is left."""

import array
import errno
import fcntl
import os
import random
import select
import socket
import time

PATIENCE = 30
MIB = 1 << 20
FIONREAD, SIOCOUTQ = 0x541B, 0x5411
TCP_FASTOPEN_CONNECT = 30


def wait(sock, events, within=PATIENCE):
    """The events that came, 0 if none did in time."""
    poll = select.poll()
    poll.register(sock, events)
    ready = poll.poll(within * 1000)
    return ready[0][1] if ready else 0


def send(sock, data):
    view = memoryview(data)
    while view:
        try:
            view = view[sock.send(view) :]
        except BlockingIOError:
            assert wait(sock, select.POLLOUT), "send: no room came"


def recv(sock, count, flags=0):
    """Exactly so many bytes, or fewer before the end."""
    parts = []
    while count:
        try:
            part = sock.recv(count, flags)
        except BlockingIOError:
            assert wait(sock, select.POLLIN), f"recv: {count} bytes did not come"
            continue
        if not part:
            break
        parts.append(part)
        count -= len(part)
    return b"".join(parts)


def rest(sock):
    return b"".join(iter(lambda: recv_some(sock), b""))


def expect(sock, data):
    got = recv(sock, len(data))
    assert got == data, f"{len(got)} bytes of {len(data)}; the first wrong one is {first_wrong(got, data)}"


def first_wrong(got, data):
    return next((i for i, (a, b) in enumerate(zip(got, data)) if a != b), min(len(got), len(data)))


def noise(seed, count):
    return random.Random(seed).randbytes(count)


def at_end(sock):
    assert recv(sock, 1) == b"", "more came than was sent"


def unread(sock):
    count = array.array("i", [0])
    fcntl.ioctl(sock, FIONREAD, count)
    return count[0]


def soon(condition, what, within=PATIENCE):
    end = time.monotonic() + within
    while not condition():
        assert time.monotonic() < end, what
        time.sleep(0.01)


def family(address):
    return socket.AF_INET6 if ":" in address else socket.AF_INET


def connect(address, port):
    sock = socket.socket(family(address), socket.SOCK_STREAM)
    sock.setblocking(False)
    error = sock.connect_ex((address, port))
    assert error in (0, errno.EINPROGRESS), os.strerror(error)
    assert wait(sock, select.POLLOUT), "connect: no answer"
    error = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
    assert not error, os.strerror(error)
    return sock


def listen(address, port, blocking):
    sock = socket.socket(family(address), socket.SOCK_STREAM)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    sock.setblocking(blocking)
    sock.bind((address, port))
    sock.listen(512)
    print("listening", flush=True)
    return sock


def recv_some(sock):
    while True:
        try:
            return sock.recv(65536)
        except BlockingIOError:
            assert wait(sock, select.POLLIN), "recv: nothing came"
