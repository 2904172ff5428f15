"""Compute the requested fraction of a cluster's resources, in total and by node, from the scheduler's columns."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mooring.advisor.simulate.results import Distribution, ResourceUse
from mooring.constraints.requests import CPU
from mooring.scheduler.facade import Cluster

PODS = "pods"
_BUCKETS = 10


@dataclass(frozen=True, slots=True)
class Usage:
    """The requested fraction of each resource on each node at one time."""

    names: tuple[str, ...]
    rows: dict[str, int]
    """The index of a node in the arrays, by name."""
    allocatable: dict[str, NDArray[np.float64]]
    requested: dict[str, NDArray[np.float64]]

    def fractions(self, resource: str) -> NDArray[np.float64]:
        """Return the requested fraction of a resource by node; 0 for nodes without it."""
        requested, allocatable = self.requested[resource], self.allocatable[resource]
        return np.divide(requested, allocatable, out=np.zeros_like(requested), where=allocatable > 0)

    def total_use(self) -> tuple[ResourceUse, ...]:
        return tuple(self._resource_use(resource) for resource in self.allocatable)

    def use_of_node(self, name: str) -> dict[str, float]:
        row = self.rows[name]
        return {
            resource: round(float(self.requested[resource][row] / allocatable[row]), 4)
            for resource, allocatable in self.allocatable.items()
            if allocatable[row]
        }

    def _resource_use(self, resource: str) -> ResourceUse:
        allocatable, requested = self.allocatable[resource], self.requested[resource]
        total, used = float(allocatable.sum()), float(requested.sum())
        return ResourceUse(
            resource=resource,
            allocatable=total,
            requested=used,
            fraction=round(used / total, 4) if total else 0.0,
            nodes=_compute_distribution(self.fractions(resource)[allocatable > 0]),
        )


def usage_of(cluster: Cluster) -> Usage:
    """Return the requested fractions of all nodes now. Resources that no node has are left out."""
    infos = list(cluster.node_infos())
    rows = np.array([info.row for info in infos], np.intp)
    table = cluster.resources
    allocatable: dict[str, NDArray[np.float64]] = {}
    requested: dict[str, NDArray[np.float64]] = {}
    # Pods come last, because other resources matter more.
    for resource, line in sorted(table.resources().items(), key=lambda entry: entry[0] == PODS):
        has = table.allocatable[line, rows].astype(np.float64)
        if has.any():
            unit = 1000.0 if resource == CPU else 1.0  # the columns are in millicores
            allocatable[resource] = has / unit
            requested[resource] = table.used[line, rows].astype(np.float64) / unit
    names = tuple(info.name for info in infos)
    return Usage(names, {name: row for row, name in enumerate(names)}, allocatable, requested)


def requested_fraction(cluster: Cluster, resource: str) -> float:
    """Return the fraction of a resource of the whole cluster that pods request; 0 if no node has the resource."""
    line = cluster.resources.find(resource)
    if line is None:
        return 0.0
    total = int(cluster.resources.allocatable[line].sum())
    return round(int(cluster.resources.used[line].sum()) / total, 4) if total else 0.0


def _compute_distribution(fractions: NDArray[np.float64]) -> Distribution:
    if not len(fractions):
        return Distribution(least=0.0, median=0.0, p90=0.0, most=0.0, histogram=(0,) * (_BUCKETS + 1))
    # A node at exactly 10% belongs to the first bucket; rounding hides floating-point errors.
    tenths = np.ceil(np.round(fractions * _BUCKETS, 9)).astype(np.int64) - 1
    counts = np.bincount(np.clip(tenths, 0, _BUCKETS), minlength=_BUCKETS + 1)
    least, median, p90, most = (round(float(np.quantile(fractions, part)), 4) for part in (0.0, 0.5, 0.9, 1.0))
    return Distribution(least=least, median=median, p90=p90, most=most, histogram=tuple(counts.tolist()))
