"""One end of a connection that tries what applications do with sockets: accel.py client|server SCENARIO ADDRESS PORT.

Sockets are non-blocking from their beginning, but in scenarios that say otherwise. An end that sees anything else than TCP would do
says so and exits with 1. Each scenario is a pair of functions, for the end that connects and for the one that accepts.
"""

import array
import errno
import fcntl
import hashlib
import json
import os
import random
import select
import signal
import socket
import struct
import sys
import tempfile
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


# ---- plain exchanges ----


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


def recv_some(sock):
    while True:
        try:
            return sock.recv(65536)
        except BlockingIOError:
            assert wait(sock, select.POLLIN), "recv: nothing came"


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


# ---- ends ----


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


def ping_once(sock):
    send(sock, b"ping")
    expect(sock, b"pong")


def echo_once(sock):
    expect(sock, b"ping")
    send(sock, b"pong")


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


# ---- reading ----


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


# ---- writing ----


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


# ---- descriptors ----


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


# ---- long lives ----


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


# ---- many ----


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


# ---- blocking sockets, as plain as can be ----


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
    "ping": (ping_client, ping_server),
    "hello": (hello_client, hello_server),
    "both": (lambda s: both_at_once(s, 1, 2), lambda s: both_at_once(s, 2, 1)),
    "sleeper": (sleeper_client, sleeper_server),
    "both-small": (
        lambda s: both_at_once(s, 1, 2, 13, 8 * MIB),
        lambda s: both_at_once(s, 2, 1, 13, 8 * MIB),
    ),
    "half": (half_client, half_server),
    "half-back": (half_back_client, half_back_server),
    "late-reader": (late_reader_client, late_reader_server),
    "broken-pipe": (broken_pipe_client, broken_pipe_server),
    "reset": (reset_client, reset_server),
    "killed": (killed_client, killed_server),
    "peek": (pieces_client, peek_server),
    "fionread": (pieces_client, fionread_server),
    "lowat": (lowat_first_client, lowat_first_server),
    "epoll": (pieces_client, epoll_server(0)),
    "epoll-edge": (pieces_client, epoll_server(select.EPOLLET)),
    "iovecs": (pieces_client, iovecs_server),
    "writev": (writev_client, received_server(100_000)),
    "cork": (cork_client, received_server(100_000)),
    "sendfile": (sendfile_client, received_server(300_000)),
    "splice": (splice_client, received_server(100_000)),
    "outq": (outq_client, received_server(100_000)),
    "fork": (pieces_client, fork_server),
    "passed": (pieces_client, passed_server),
    "busy": (busy_client, busy_server),
    "ended": (ended_client, ended_server),
    "silent": (silent_client, ended_server),
    "waitall": (waitall_client, waitall_server),
    "signals": (signals_client, signals_server),
    "timeout": (timeout_client, timeout_server),
}
MANY = {
    "short": (short_client, short_server),
    "crowd": (crowd_client, crowd_server),
    "early": (early_client, early_server),
}
# Those whose listener blocks, as that of servers with a thread for each connection.
BLOCKING = {"waitall", "signals", "timeout"}


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


def main(role, scenario, address, port):
    if scenario in MANY:
        client, server = MANY[scenario]
        if role == "client":
            return client(address, int(port))
        return server(listen(address, int(port), False))
    client, server = SCENARIOS[scenario]
    if role == "client":
        with connect(address, int(port)) as sock:
            return client(sock)
    listener = listen(address, int(port), scenario in BLOCKING)
    assert wait(listener, select.POLLIN), "nobody came"
    with listener.accept()[0] as sock:
        sock.setblocking(scenario in BLOCKING)
        return server(sock)


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except (AssertionError, OSError) as failure:
        print(f"{sys.argv[1:3]}: {failure!r}", file=sys.stderr)
        sys.exit(1)
