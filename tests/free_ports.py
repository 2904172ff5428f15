"""Ports that no other process takes, for servers that tests restart, or whose port is known beforehand.

They are below those that the system gives to connections and to servers on port 0, and every process of a test
run has ports of its own: so a port stays free while its server is down.
"""

import itertools
import os
import random
import socket

_FIRST, _EACH, _PROCESSES = 11_000, 2_000, 8
_numbers = itertools.count(random.randrange(_EACH))


def free_port() -> int:
    """Return a port that is free, never the same one."""
    process = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")) % _PROCESSES
    while True:
        port = _FIRST + process * _EACH + next(_numbers) % _EACH
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("0.0.0.0", port))
            except OSError:
                continue
            return port


def free_ports(count: int) -> list[int]:
    return [free_port() for _ in range(count)]
