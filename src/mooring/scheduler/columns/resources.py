"""Allocatable and used amounts of every node, its host ports in use, and its images.

Amounts are two tables of the same form, with a line for each resource.
Lines 0 to 2 are the number of pods, and the cpu and memory that scoring assumes; lines from 3 on are cpu, memory,
ephemeral storage and then other resources in the order in which they were added. The amounts that a pod adds to a node
are one column vector, cached in its signature, so that placing a pod is one addition.

A resource gets a line when a node offers it or the configuration names it, never because a pod requests it; otherwise
pods could grow the tables without limit. Amounts of other resources that pods request are kept outside the tables.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mooring.api.core_v1 import ContainerImage, Node
from mooring.base import logs
from mooring.constraints import requests
from mooring.constraints.columns.revisions import next_revision
from mooring.constraints.requests import CPU, EPHEMERAL_STORAGE, MEMORY, PODS
from mooring.scheduler.columns.signatures import ANY_ADDRESS, HostPort, PodSignature
from mooring.scheduler.columns.topology import Mask, Rows

log = logs.get(__name__)

POD_COUNT, SCORED_CPU, SCORED_MEMORY = 0, 1, 2
_FIRST = 3
_MOST_LINES = 1024
"""The maximum number of resources for which amounts are kept; pods that request further ones fit on no node."""
_SPARE_LINES = 64
"""Above this number of resources, the line of one that no node offers any more is given to another resource."""

Table = NDArray[np.int64]


class Usage(NamedTuple):
    """The resource amounts that a pod with a given signature adds to its node; valid for one layout of the columns."""

    layout: int
    column: Table
    beside: dict[str, int]
    """Requested amounts of resources that no node offers, so that they have no line in the resource columns."""


class ResourceColumns:
    def __init__(self, capacity: int) -> None:
        self._lines = {PODS: POD_COUNT, CPU: _FIRST, MEMORY: _FIRST + 1, EPHEMERAL_STORAGE: _FIRST + 2}
        self._named = set(self._lines)
        shape = (_FIRST + 3, capacity)
        self.allocatable: Table = np.zeros(shape, np.int64)
        self.used: Table = np.zeros(shape, np.int64)
        self.free: Table = np.zeros(shape, np.int64)
        """The allocatable amounts less the used ones, which may be negative."""
        self.layout = 0
        """A number that rises when the tables get more rows or other lines."""
        self._beside: dict[str, dict[int, int]] = {}
        self._states: dict[int, bytes] = {}

    def find(self, resource: str) -> int | None:
        """Return the index of a resource in the columns; None if no node offers the resource."""
        return self._lines.get(resource)

    def name(self, resource: str) -> None:
        """Reserve a line in the columns for a resource that the scheduler's configuration names."""
        self._named.add(resource)
        self._add_lines((resource,))

    def line(self, resource: str, *, assumed: bool = False) -> int:
        """Return the index of a resource; with `assumed`, of its amounts with default requests of cpu and memory."""
        scored = {CPU: SCORED_CPU, MEMORY: SCORED_MEMORY}.get(resource) if assumed else None
        return scored or self._lines[resource]

    def resources(self) -> dict[str, int]:
        """Return the resources in the columns with their index."""
        return dict(self._lines)

    def amounts(self, resource: str, row: int) -> tuple[int, int]:
        """Return the allocatable and the used amount of a resource on one row."""
        line = self._lines.get(resource)
        if line is None:
            return 0, self._beside.get(resource, {}).get(row, 0)
        return int(self.allocatable[line, row]), int(self.used[line, row])

    def state(self, row: int) -> bytes:
        """Return a key that is equal for nodes with the same allocatable and used amounts."""
        found = self._states.get(row)
        if found is None:
            found = self._states[row] = self.allocatable[:, row].tobytes() + self.used[:, row].tobytes()
        return found

    def put(self, row: int, node: Node) -> bool:
        """Set the allocatable amounts of a node; return whether they changed."""
        amounts = node.status.allocatable
        offered = requests.in_units(amounts)
        self._add_lines(offered)
        column = np.zeros(len(self.allocatable), np.int64)
        for resource, amount in offered.items():
            if resource in self._lines:
                column[self._lines[resource]] = amount
        column[POD_COUNT] = amounts[PODS].value() if PODS in amounts else 0
        column[SCORED_CPU], column[SCORED_MEMORY] = column[_FIRST], column[_FIRST + 1]
        if np.array_equal(self.allocatable[:, row], column):
            return False
        self.allocatable[:, row] = column
        self.free[:, row] = column - self.used[:, row]
        self._states.pop(row, None)
        return True

    def remove(self, row: int) -> None:
        self.allocatable[:, row] = 0
        self.used[:, row] = 0
        self.free[:, row] = 0
        self._states.pop(row, None)

    def add(self, row: int, signature: PodSignature, times: int = 1) -> None:
        """Add a pod's usage to its node; subtract it if `times` is -1."""
        usage = self._usage(signature)
        more, less = (self.used, self.free) if times == 1 else (self.free, self.used)
        column = more[:, row]
        column += usage.column
        column = less[:, row]
        column -= usage.column
        self._states.pop(row, None)
        for resource, amount in usage.beside.items():
            rows = self._beside.setdefault(resource, {})
            rows[row] = rows.get(row, 0) + times * amount
            if not rows[row]:
                del rows[row]
            if not rows:
                del self._beside[resource]

    def usage_of(self, signature: PodSignature) -> NDArray[np.int64]:
        """Return the amounts, by line, that a pod of a pod signature adds to its node."""
        return self._usage(signature).column

    def usage_table(self, signatures: Sequence[PodSignature]) -> Table:
        """Return the amounts that pods of some pod signatures add: a line for each resource, a column for each pod."""
        if not signatures:
            return np.zeros((len(self.used), 0), np.int64)
        numbers: dict[PodSignature, int] = {}
        places = [numbers.setdefault(signature, len(numbers)) for signature in signatures]
        return np.array([self.usage_of(signature) for signature in numbers]).T[:, places]

    def invalidate(self) -> None:
        """Invalidate all caches of values derived from the resource columns."""
        self.layout += 1

    def grow(self, capacity: int) -> None:
        self.layout += 1
        added = np.zeros((len(self.used), capacity - self.used.shape[1]), np.int64)
        self.allocatable = np.concatenate((self.allocatable, added), axis=1)
        self.used = np.concatenate((self.used, added), axis=1)
        self.free = np.concatenate((self.free, added), axis=1)

    def _usage(self, signature: PodSignature) -> Usage:
        usage = signature.usage
        if usage is None or usage.layout != self.layout:
            column = np.zeros(len(self.used), np.int64)
            for resource, amount in signature.requests.items():
                if resource in self._lines:
                    column[self._lines[resource]] = amount
            column[POD_COUNT] = 1
            column[SCORED_CPU], column[SCORED_MEMORY] = signature.scored.get(CPU, 0), signature.scored.get(MEMORY, 0)
            beside = {name: amount for name, amount in signature.requests.items() if name not in self._lines}
            usage = signature.usage = Usage(self.layout, column, beside)
        return usage

    def _add_lines(self, resources: Collection[str]) -> None:
        missing = [resource for resource in resources if resource not in self._lines]
        for resource in missing:
            line = self._take_vacant_line(resources)
            if line is None and len(self.used) >= _MOST_LINES:
                log.warning("there are too many resources to count %s", resource[:100])
                return
            if line is None:
                line = len(self.used)
                empty = np.zeros((1, self.used.shape[1]), np.int64)
                self.allocatable = np.concatenate((self.allocatable, empty))
                self.used = np.concatenate((self.used, empty))
            self._lines[resource] = line
            for row, amount in self._beside.pop(resource, {}).items():
                self.used[line, row] = amount
            self.free = self.allocatable - self.used
            self._states.clear()
            self.layout += 1

    def _take_vacant_line(self, wanted: Collection[str]) -> int | None:
        if len(self.used) < _SPARE_LINES:
            return None
        for resource, line in self._lines.items():
            if resource not in wanted and resource not in self._named and not self.allocatable[line].any():
                del self._lines[resource]
                rows = self.used[line].nonzero()[0].tolist()
                if rows:
                    self._beside[resource] = {row: int(self.used[line, row]) for row in rows}
                self.used[line] = 0
                return line
        return None


class PortColumns:
    """Host ports in use: for each protocol and port, the node rows and addresses where it is taken."""

    def __init__(self) -> None:
        self._used: dict[tuple[str, int], dict[int, Counter[str]]] = {}

    def add(self, row: int, ports: Iterable[HostPort], times: int = 1) -> None:
        """Count the ports that a pod uses on its node; uncount them if `times` is -1."""
        for port in ports:
            rows = self._used.setdefault((port.protocol, port.port), {})
            addresses = rows.setdefault(row, Counter())
            addresses[port.address] += times
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


class ImageColumns:
    """The container images of each node, with their sizes."""

    def __init__(self) -> None:
        self.changed_at = 0
        """The revision at which a node last gained or lost an image."""
        self._sizes: dict[str, dict[int, int]] = {}
        self._on: dict[int, dict[str, int]] = {}

    def put(self, row: int, images: Sequence[ContainerImage]) -> None:
        before = self._on.get(row, {})
        after = {name: image.size_bytes for image in images for name in image.names}
        if before == after:
            return
        self.changed_at = next_revision()
        for name in before:
            sizes = self._sizes[name]
            del sizes[row]
            if not sizes:
                del self._sizes[name]
        for name, size in after.items():
            self._sizes.setdefault(name, {})[row] = size
        self._on[row] = after

    def remove(self, row: int) -> None:
        self.put(row, ())
        self._on.pop(row, None)

    def sizes(self, image: str) -> dict[int, int]:
        """Return the size of an image, by row of the nodes that have it."""
        return self._sizes.get(image, {})


def index_of(lines: Sequence[int]) -> slice | NDArray[np.intp]:
    """Return an index that selects some lines of a table: a slice, which copies nothing, if they are consecutive."""
    is_consecutive = bool(lines) and list(lines) == list(range(lines[0], lines[0] + len(lines)))
    return slice(lines[0], lines[0] + len(lines)) if is_consecutive else np.array(lines, np.intp)
