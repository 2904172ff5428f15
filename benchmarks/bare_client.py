"""A client that costs as little as Python allows: requests are made beforehand, and answers are hardly looked at.

Server and client share two cores. asyncio with its streams takes as long for a small request as the server does, and
three times as long to read a large answer; plain TLS sockets take 20 µs for a request, and what deciphering takes.
"""

import select
import socket
import ssl
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

_BEGINNING = 1024
_END_OF_HEAD, _END_OF_CHUNKS = b"\r\n\r\n", b"\r\n0\r\n\r\n"


def connected(server: Any, tls: ssl.SSLContext | None = None) -> ssl.SSLSocket:
    """Connect to a `benchmarks.apiserver` server, by default with the administrator's certificate."""
    plain = socket.create_connection((server.host, server.port))
    secured: ssl.SSLSocket = (tls or server.tls).wrap_socket(plain, server_hostname=server.host)
    return secured


def request(method: str, path: str, body: bytes = b"", media: str = "application/json", accept: str = "") -> bytes:
    """Encode a request."""
    wanted = f"accept: {accept}\r\n" if accept else ""
    head = f"{method} {path} HTTP/1.1\r\nhost: x\r\n{wanted}content-type: {media}\r\ncontent-length: {len(body)}"
    return head.encode() + _END_OF_HEAD + body


def answered(connections: Sequence[ssl.SSLSocket], requests: Sequence[bytes]) -> float:
    """Send requests, each connection the next one when it has its answer; the seconds that it took.

    All have to succeed, with answers so small that they come in one piece.
    """
    arrivals, by_number = select.epoll(), {each.fileno(): each for each in connections}
    begun, waiting, left = time.perf_counter(), iter(requests), len(requests)
    for connection in connections:
        arrivals.register(connection.fileno(), select.EPOLLIN)
        connection.setblocking(False)
        if asked := next(waiting, None):
            connection.send(asked)
    while left:
        for number, _ in arrivals.poll():
            try:
                answer = by_number[number].recv(65536)
            except ssl.SSLWantReadError:  # a ticket for a later session
                continue
            if not answer.startswith(b"HTTP/"):  # the rest of an answer in pieces, as kube-apiserver may send it
                continue
            if not answer.startswith(b"HTTP/1.1 20"):
                raise RuntimeError(answer.decode())
            left -= 1
            if asked := next(waiting, None):
                by_number[number].send(asked)
    arrivals.close()
    return time.perf_counter() - begun


def taken(connection: ssl.SSLSocket, asked: bytes) -> tuple[float, int, bytes]:
    """When the first byte of an answer came, how many its body has with its chunks, and the beginning of it.

    Bodies have no line breaks of HTTP, as JSON has none.
    """
    connection.sendall(asked)
    first, heard = connection.recv(65536), time.perf_counter()
    while _END_OF_HEAD not in first:
        first += connection.recv(65536)
    assert first.startswith(b"HTTP/1.1 200"), first
    head, _, begin = first.partition(_END_OF_HEAD)
    length = int(head.partition(b"content-length: ")[2].partition(b"\r\n")[0] or 0)
    size, last, buffer = len(begin), begin[-7:], bytearray(65536)
    while (size < length) if length else not last.endswith(_END_OF_CHUNKS):
        read = connection.recv_into(buffer)
        size += read
        if len(begin) < _BEGINNING:
            begin += buffer[:read]
        last = (last + bytes(buffer[max(0, read - 7) : read]))[-7:]
    return heard, size, begin


def computed(process: int) -> float:
    """Seconds of the processor that the threads of a process have used, exactly."""
    threads = Path(f"/proc/{process}/task").iterdir()
    return sum(int((each / "schedstat").read_text().split()[0]) for each in threads) / 1e9
