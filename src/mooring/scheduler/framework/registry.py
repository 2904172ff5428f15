"""Plugins by name: how they are made, and what they are given.

A factory takes the plugin's arguments, as a KubeSchedulerConfiguration has them, and a `Handle`. The in-tree registry
is ``scheduler/plugins/__init__.py``; users' factories come from the entry-point group `ENTRY_POINTS`.
"""

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any

from mooring.scheduler.columns.cluster import Cluster
from mooring.scheduler.framework.options import SchedulerFeatures
from mooring.scheduler.framework.plugins import Plugin

if TYPE_CHECKING:  # simulations need no client, and should not wait for it to be loaded
    from mooring.client import Client
    from mooring.scheduler.framework.nominations import Nominations
    from mooring.scheduler.framework.waiting import WaitingPods

ENTRY_POINTS = "mooring.scheduler.plugins"

PluginArguments = Mapping[str, Any]
"""As decoded from JSON or YAML, camelCase keys."""


@dataclass(frozen=True, slots=True)
class Handle:
    """What a plugin may use."""

    cluster: Cluster
    features: SchedulerFeatures = field(default_factory=SchedulerFeatures)
    client: "Client | None" = None
    """For `pre_bind` and `bind`; None where nothing is written, as in simulations."""
    nominations: "Nominations | None" = None
    """The pods that were promised room; there are some wherever there is an engine."""
    lot: random.Random = field(default_factory=random.Random)
    """Decides among equals, so that a seed makes everything repeatable."""
    waiting: "WaitingPods | None" = None
    """The pods that `permit` lets wait, to be allowed or rejected; None where nothing is bound."""


Factory = Callable[[PluginArguments, Handle], Plugin]
Registry = Mapping[str, Factory]


class PluginError(ValueError):
    """A plugin cannot be made; the message names it and says why."""


def from_entry_points() -> dict[str, Factory]:
    """The factories of installed packages, by plugin name."""
    found: dict[str, Factory] = {}
    for entry in entry_points(group=ENTRY_POINTS):
        try:
            found[entry.name] = entry.load()
        except Exception as problem:
            what = f"the scheduler plugin {entry.name} ({entry.value})"
            raise PluginError(f"{what} cannot be loaded: {problem}") from problem
    return found
