"""What watchers cost the server: memory while nothing happens, and a change until the last of them has it.

python -m benchmarks watchers
WATCHERS=10000 TOKENS=yes python -m benchmarks watchers

The server is a process of its own, over HTTPS, with client certificates, or with tokens. Clients shake hands, ask, and
from then on notice bytes without deciphering them, so that what is measured is the server.
"""

import json
import os
import re
import resource
import select
import socket
import ssl
import statistics
import tempfile
import time
from pathlib import Path

from benchmarks.apiserver import _MAPS, _Server
from benchmarks.bare_client import computed, connected

WATCHERS = int(os.environ.get("WATCHERS", "1000"))
TOKENS = bool(os.environ.get("TOKENS"))
_TOKEN = "a-token-of-the-benchmark"
_CHANGES = 15
_WATCH = f"GET {_MAPS}?watch=1&sendInitialEvents=false&resourceVersionMatch=NotOlderThan HTTP/1.1\r\nhost: x\r\n\r\n"


def main() -> None:
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    with tempfile.TemporaryDirectory() as directory:
        tokens = Path(directory) / "tokens.csv"
        tokens.write_text(f"{_TOKEN},watcher,1,system:masters\n")
        server = _Server(Path(directory), "--max-watches", str(WATCHERS + 1000), "--token-auth-file", str(tokens))
        try:
            _measure(server)
        finally:
            server.stop()


def _measure(server: _Server) -> None:
    writer = connected(server)
    _change(writer, "before")
    before = _kilobytes(server.pid)
    watchers = [_watching(server) for _ in range(WATCHERS)]
    time.sleep(1)
    used = _kilobytes(server.pid) - before
    print(f"{WATCHERS:,} idle watchers: {used / 1024:.0f} MB, {used / WATCHERS:.1f} KB each")
    last, middle, processor = zip(
        *(_time_change(server, writer, watchers, number) for number in range(_CHANGES)), strict=True
    )
    print(f"one change until the last has it: {min(last):.1f} ms at best, {statistics.median(last):.1f} ms")
    print(f"until the middle one has it: {min(middle):.1f} ms at best, {statistics.median(middle):.1f} ms")
    print(f"processor time of the server for each: {sum(processor) / _CHANGES / WATCHERS * 1e6:.0f} µs")


def _watching(server: _Server) -> socket.socket:
    """Start a watch; return its socket after the head of the response, still enciphered: only arrivals are timed."""
    connection = connected(server, server.trust if TOKENS else server.tls)
    connection.sendall((_WATCH.replace("host: x", f"host: x\r\nauthorization: Bearer {_TOKEN}")).encode())
    head = b""
    while b"\r\n\r\n" not in head:
        head += connection.recv(65536)
    return socket.socket(fileno=connection.detach())


def _time_change(
    server: _Server, writer: ssl.SSLSocket, watchers: list[socket.socket], number: int
) -> tuple[float, float, float]:
    """Return milliseconds until the last and the median watcher receive a change, and the server's CPU time for it."""
    arrivals = select.epoll()
    by_number = {watcher.fileno(): watcher for watcher in watchers}
    for each in by_number:
        arrivals.register(each, select.EPOLLIN | select.EPOLLONESHOT)
    times: list[float] = []
    spent, begun = computed(server.pid), time.perf_counter()
    _send_change(writer, f"change-{number}")
    while len(times) < len(watchers):
        for each, _ in arrivals.poll():
            by_number[each].recv(65536)
            times.append((time.perf_counter() - begun) * 1000)
    arrivals.close()
    _answer(writer)
    return times[-1], statistics.median(times), computed(server.pid) - spent


def _change(writer: ssl.SSLSocket, name: str) -> None:
    _send_change(writer, name)
    _answer(writer)


def _send_change(writer: ssl.SSLSocket, name: str) -> None:
    body = json.dumps({"metadata": {"name": name}}).encode()
    writer.sendall(f"POST {_MAPS} HTTP/1.1\r\nhost: x\r\ncontent-length: {len(body)}\r\n\r\n".encode() + body)


def _answer(writer: ssl.SSLSocket) -> None:
    answer = b""
    while b"\r\n\r\n" not in answer:
        answer += writer.recv(65536)
    assert answer.startswith(b"HTTP/1.1 201"), answer


def _kilobytes(pid: int) -> int:
    """Memory that the process has for itself."""
    found = re.search(r"Anonymous:\s+(\d+)", Path(f"/proc/{pid}/smaps_rollup").read_text())
    assert found is not None
    return int(found[1])


if __name__ == "__main__":
    main()
