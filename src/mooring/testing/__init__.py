"""Builders, a mock clock, a control plane and the replay of recorded cases, for our tests and users' tests.

    from mooring.testing import node, pod

| Module | Contents |
|---|---|
| ``fluent.py`` | `node("a").taint("sla", "950")`, `pod("p").toleration("sla", "Gt", "900")` |
| ``builders.py`` | the same as plain functions that return objects |
| ``control_plane.py`` | a running control plane, and the objects of custom kinds in it |
| ``plugin.py`` | the pytest fixtures `mooring` and, with pytest-kind's interface, `k8s_cluster` |
| ``clock.py`` | `MockClock`, a clock that only `advance` moves |
| ``replay/`` | `python -m mooring.testing.replay` |
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mooring.testing.clock import MockClock
    from mooring.testing.control_plane import RunningControlPlane
    from mooring.testing.fluent import NodeBuilder, PodBuilder, node, pod

__all__ = ["MockClock", "NodeBuilder", "PodBuilder", "RunningControlPlane", "node", "pod"]

_HOMES = {
    "MockClock": "clock",
    "RunningControlPlane": "control_plane",
    "NodeBuilder": "fluent",
    "PodBuilder": "fluent",
    "node": "fluent",
    "pod": "fluent",
}


def __getattr__(name: str) -> object:
    """Import lazily: pytest imports this package in every run."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
