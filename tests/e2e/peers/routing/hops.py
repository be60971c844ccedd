"""What a datagram shows of its hops: hops send ADDRESS PORT HOPS | hops receive ADDRESS PORT."""

import socket
import struct
import sys

PATIENCE = 20
IPV6_HOPLIMIT = 52
IPV6_RECVHOPLIMIT = 51
IP_RECVTTL, IP_RECVERR, IPV6_RECVERR = 12, 11, 25


def of(address):
    return socket.AF_INET6 if ":" in address else socket.AF_INET


def receive(address, port):
    """Prints how many hops the first datagram has left."""
    sock = socket.socket(of(address), socket.SOCK_DGRAM)
    sock.settimeout(PATIENCE)
    if sock.family == socket.AF_INET6:
        sock.setsockopt(socket.IPPROTO_IPV6, IPV6_RECVHOPLIMIT, 1)
    else:
        sock.setsockopt(socket.IPPROTO_IP, IP_RECVTTL, 1)
    sock.bind((address, int(port)))
    print("listening", flush=True)
    _, ancillary, _, _ = sock.recvmsg(16, 64)
    print("left", struct.unpack("i", ancillary[0][2])[0], flush=True)


def send(address, port, hops):
    """Sends until somebody on the way says that the hops were too few, or nobody does."""
    sock = socket.socket(of(address), socket.SOCK_DGRAM)
    sock.settimeout(1)
    if sock.family == socket.AF_INET6:
        sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_UNICAST_HOPS, int(hops))
        sock.setsockopt(socket.IPPROTO_IPV6, IPV6_RECVERR, 1)
    else:
        sock.setsockopt(socket.IPPROTO_IP, socket.IP_TTL, int(hops))
        sock.setsockopt(socket.IPPROTO_IP, IP_RECVERR, 1)
    sock.connect((address, int(port)))
    try:
        sock.send(b"hop")
        sock.recv(16)
    except TimeoutError:
        print("nobody complains", flush=True)
    except OSError as error:
        print("told", error.strerror, flush=True)


if __name__ == "__main__":
    {"send": send, "receive": receive}[sys.argv[1]](*sys.argv[2:])
