"""The options of a scheduler, and those that follow from versions and gates, which are read only here (4330.12).

`config.py` makes a `SchedulerConfig` from a KubeSchedulerConfiguration; ``runtime.py`` runs it.
"""

from collections.abc import Mapping

import msgspec

from mooring.api.scheme import Scheme
from mooring.base.component import Component
from mooring.client.leader_election import LeaderElection
from mooring.scheduler.deciding.profiles import ProfileSpec
from mooring.scheduler.framework import SchedulerFeatures, options
from mooring.scheduler.framework.registry import Factory
from mooring.scheduler.queue import Backoffs

COMPONENT = "mooring-scheduler"


class SchedulerConfig(msgspec.Struct, frozen=True):
    """The settings of a KubeSchedulerConfiguration."""

    profiles: tuple[ProfileSpec, ...] = (ProfileSpec(),)
    backoffs: Backoffs = msgspec.field(default_factory=Backoffs)
    leader_election: LeaderElection = msgspec.field(default_factory=lambda: LeaderElection(COMPONENT))
    kubeconfig: str = ""
    plugins: Mapping[str, Factory] = msgspec.field(default_factory=dict)
    """Factories of users' plugins, in addition to the built-in ones."""


class ComponentOptions(msgspec.Struct, frozen=True):
    """The options that follow from a component's versions and gates."""

    features: SchedulerFeatures
    version: str
    """The emulated version, for the User-Agent."""
    scheme: Scheme
    """The kinds and versions that the component uses."""


def for_component(component: Component) -> ComponentOptions:
    """Read a component's versions and gates, once."""
    return ComponentOptions(
        features=options.from_gates(component.gates),
        version=str(component.versions.emulation),
        scheme=Scheme(component.versions),
    )
