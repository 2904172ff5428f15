"""The metric by which one sees which of several instances works. Every component with a lease has it."""

from collections.abc import Mapping
from functools import partial
from typing import Protocol

from prometheus_client import CollectorRegistry, Gauge


class Part(Protocol):
    """The scheduler, or the controllers."""

    @property
    def is_ready(self) -> bool: ...


def show_who_works(registry: CollectorRegistry, parts: Mapping[str, Part]) -> None:
    """Show, by the name of its lease, whether a part of this process works. The metric has Kubernetes' name."""
    gauge = Gauge(
        "leader_election_master_status", "1 if this instance works, 0 if it does not.", ("name",), registry=registry
    )
    for name, part in parts.items():
        gauge.labels(name).set_function(partial(_works, part))


def _works(part: Part) -> float:
    return float(part.is_ready)
