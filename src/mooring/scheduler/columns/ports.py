"""Host ports in use: for each protocol and port, the node rows and addresses where it is taken."""

from collections import Counter
from collections.abc import Iterable

import numpy as np

from mooring.scheduler.columns.signatures import ANY_ADDRESS, HostPort
from mooring.scheduler.columns.topology import Mask, Rows


class PortColumns:
    def __init__(self) -> None:
        self._used: dict[tuple[str, int], dict[int, Counter[str]]] = {}

    def add(self, row: int, ports: Iterable[HostPort]) -> None:
        for port in ports:
            rows = self._used.setdefault((port.protocol, port.port), {})
            rows.setdefault(row, Counter())[port.address] += 1

    def subtract(self, row: int, ports: Iterable[HostPort]) -> None:
        for port in ports:
            rows = self._used[port.protocol, port.port]
            addresses = rows[row]
            addresses[port.address] -= 1
            if not addresses[port.address]:
                del addresses[port.address]
            if not addresses:
                del rows[row]
            if not rows:
                del self._used[port.protocol, port.port]

    def conflicts(self, ports: Iterable[HostPort], rows: Rows, capacity: int) -> Mask:
        """Return the node rows where one of `ports` is in use. Address 0.0.0.0 conflicts with every address."""
        taken = np.zeros(capacity, np.bool_)
        for port in ports:
            used = self._used.get((port.protocol, port.port), {})
            for row in used if isinstance(rows, slice) else used.keys() & set(rows.tolist()):
                addresses = used[row]
                if port.address == ANY_ADDRESS or port.address in addresses or ANY_ADDRESS in addresses:
                    taken[row] = True
        return taken[rows]
