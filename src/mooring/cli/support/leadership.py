"""What every component with a lease does: it shows whether it works, and stands again when it has lost the lease."""

from collections.abc import Callable, Coroutine, Mapping
from functools import partial
from typing import Protocol

import uvloop
from prometheus_client import CollectorRegistry, Gauge

from mooring.base import logs

log = logs.get(__name__)


class Part(Protocol):
    """The scheduler, or the controllers."""

    @property
    def is_ready(self) -> bool: ...


def run_and_stand_again(run: Callable[[], Coroutine[None, None, bool]]) -> None:
    """Run a component until it is told to stop. One that has lost its lease begins anew and waits for its turn.

    Everything is made anew, as a service manager would do it: what a leader knew is old by now.
    """
    while not uvloop.run(run()):
        log.error("the lease was lost, perhaps to another instance: this one begins again and waits for its turn")


def show_who_works(registry: CollectorRegistry, parts: Mapping[str, Part]) -> None:
    """Show, by the name of its lease, whether a part of this process works. The metric has Kubernetes' name."""
    gauge = Gauge(
        "leader_election_master_status", "1 if this instance works, 0 if it does not.", ("name",), registry=registry
    )
    for name, part in parts.items():
        gauge.labels(name).set_function(partial(_works, part))


def _works(part: Part) -> float:
    return float(part.is_ready)
