"""Requests and answers, both directions at once, and readers that sleep."""

import hashlib
import json
import random
import select
import socket
import time

from sockets import MIB, at_end, expect, noise, recv_some, send, wait


def ping_once(sock):
    send(sock, b"ping")
    expect(sock, b"pong")


def echo_once(sock):
    expect(sock, b"ping")
    send(sock, b"pong")


def ping_client(sock, rounds=1000):
    for i in range(rounds):
        data = noise(i, 1 + i * 7 % 16384)
        send(sock, data)
        expect(sock, data)
    sock.shutdown(socket.SHUT_WR)
    at_end(sock)


def ping_server(sock):
    while data := recv_some(sock):
        send(sock, data)


def hello_client(sock):
    expect(sock, b"welcome\n")
    ping_client(sock, 10)


def hello_server(sock):
    send(sock, b"welcome\n")
    ping_server(sock)


def both_at_once(sock, mine, theirs, largest=23, total=48 * MIB):
    """Writes and reads pieces of random size, as it goes; both ends do so at once."""
    # A first message that comes before both ends are known keeps its direction on TCP; the answer to it is never so early.
    (ping_once if mine < theirs else echo_once)(sock)
    sizes = random.Random(mine)
    hashes = {seed: hashlib.sha256() for seed in (mine, theirs)}
    source = random.Random(mine)
    sent = received = 0
    pending = b""
    while received < total or sent < total or pending:
        if not pending and sent < total:
            size = min(total - sent, int(2 ** sizes.uniform(0, largest)))
            pending = source.randbytes(size)
            hashes[mine].update(pending)
            sent += size
        events = (select.POLLIN if received < total else 0) | (select.POLLOUT if pending else 0)
        ready = wait(sock, events)
        assert ready, f"nothing moves: {sent} sent, {received} received"
        if ready & select.POLLIN:
            try:
                part = sock.recv(min(total - received, int(2 ** sizes.uniform(0, 21))))
                assert part, "the end came early"
                hashes[theirs].update(part)
                received += len(part)
            except BlockingIOError:
                pass
        if ready & select.POLLOUT and pending:
            try:
                pending = pending[sock.send(pending) :]
            except BlockingIOError:
                pass
    assert received == total
    mine_hash, their_hash = hashes[mine].digest(), hashes[theirs].digest()
    send(sock, mine_hash)
    expect(sock, their_hash)


def sleeper_client(sock, total=64 * MIB):
    data = noise(7, MIB)
    taken, end = 0, time.monotonic() + 4
    while time.monotonic() < end:
        try:
            taken += sock.send(data[taken % MIB :])
        except BlockingIOError:
            time.sleep(0.05)
    print(json.dumps({"taken": taken}), flush=True)
    # The reader sleeps: what was taken is in buffers.
    assert taken < 24 * MIB, f"{taken} bytes were taken though nobody read"
    while taken < total:
        part = data[taken % MIB :][: total - taken]
        send(sock, part)
        taken += len(part)
    sock.shutdown(socket.SHUT_WR)
    at_end(sock)


def sleeper_server(sock, total=64 * MIB):
    time.sleep(5)
    data, got = noise(7, MIB), 0
    while part := recv_some(sock):
        where = got % MIB
        assert (data[where:] + data[: len(part)])[: len(part)] == part, f"wrong after byte {got}"
        got += len(part)
    assert got == total, f"{got} bytes of {total}"


def stream_client(sock, total=2 * MIB, message=16384):
    ping_once(sock)
    data = noise(8, MIB)
    for at in range(0, total, message):
        send(sock, data[at % MIB : at % MIB + message])
    expect(sock, b"done")


def stream_server(sock, total=2 * MIB):
    """Reads as fast as it can, and compares as it goes without ever being away for long."""
    data, got = noise(8, MIB) * 2, 0
    echo_once(sock)
    while got < total:
        part = recv_some(sock)
        assert part, "the end came early"
        assert part == data[got % MIB : got % MIB + len(part)], f"wrong after byte {got}"
        got += len(part)
    send(sock, b"done")


SCENARIOS = {
    "stream": (stream_client, stream_server),
    "ping": (ping_client, ping_server),
    "hello": (hello_client, hello_server),
    "both": (lambda s: both_at_once(s, 1, 2), lambda s: both_at_once(s, 2, 1)),
    "sleeper": (sleeper_client, sleeper_server),
    "both-small": (
        lambda s: both_at_once(s, 1, 2, 13, 8 * MIB),
        lambda s: both_at_once(s, 2, 1, 13, 8 * MIB),
    ),
}
