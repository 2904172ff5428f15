"""Ports for servers that a test restarts, or whose port it must know before they start.

A port stays reserved for this process until it ends, so it is still free after a server on it has stopped:
other processes that call `free_port` skip it (a locked file says so), and it is below the range from which the
system picks ports for connections and for servers on port 0.
"""

import atexit
import fcntl
import itertools
import os
import random
import socket
import tempfile
from pathlib import Path
from typing import IO

_FIRST, _DEFAULT_END = 11_000, 32_768
_SYSTEM_RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")
_LOCKS = Path(tempfile.gettempdir()) / f"mooring-test-ports-{os.getuid()}"
_reserved: dict[int, IO[bytes]] = {}


def free_port() -> int:
    """Reserve a port on which no program listens."""
    _LOCKS.mkdir(exist_ok=True)
    end = min(_DEFAULT_END, _first_system_port())
    ports = range(_FIRST, end) if end > _FIRST else range(_first_system_port(), 65_536)
    for port in itertools.islice(itertools.cycle(ports), start := random.randrange(len(ports)), start + len(ports)):
        if port not in _reserved and _reserve(port):
            return port
    raise OSError(f"every port from {ports.start} to {ports.stop - 1} is in use")


@atexit.register
def release_ports() -> None:
    """Close the lock files of all reserved ports, at the end of the process."""
    while _reserved:
        _reserved.popitem()[1].close()


def free_ports(count: int) -> list[int]:
    return [free_port() for _ in range(count)]


def _first_system_port() -> int:
    try:
        return int(_SYSTEM_RANGE.read_text().split()[0])
    except FileNotFoundError:  # not Linux, where the range begins at 49152
        return _DEFAULT_END


def _reserve(port: int) -> bool:
    """Lock the file of a port, and return whether no other process has the lock or the port."""
    lock = (_LOCKS / str(port)).open("wb")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(("0.0.0.0", port))
    except OSError:
        lock.close()
        return False
    _reserved[port] = lock
    return True
