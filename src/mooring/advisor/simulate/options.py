"""The options of a simulation: the server's and scheduler's options at given versions and gates."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from mooring.admission import options as admission_options
from mooring.admission.options import AdmissionOptions
from mooring.advisor.simulate.node_pools import NodePool
from mooring.advisor.simulate.time_passing import StartTime
from mooring.api.core_v1 import Pod
from mooring.base.component import Component
from mooring.controllers import options as controller_options
from mooring.scheduler.facade import IN_TREE, Backoffs, ProfileSpec
from mooring.scheduler.framework import Registry, SchedulerFeatures
from mooring.scheduler.framework import options as scheduler_features

_BACKOFFS = Backoffs()


@dataclass(frozen=True, slots=True)
class Settings:
    """The versions, feature gates and scheduler profiles of the simulated control plane, and how pods start."""

    admission: AdmissionOptions = field(default_factory=AdmissionOptions)
    features: SchedulerFeatures = field(default_factory=SchedulerFeatures)
    profiles: tuple[ProfileSpec, ...] = (ProfileSpec(),)
    registry: Registry = field(default_factory=lambda: IN_TREE)
    backoffs: Backoffs = _BACKOFFS
    stateful_pods_at_once: bool = True
    """Whether StatefulSets respect `maxUnavailable`, depending on the version."""
    description: str = "the defaults"
    start_time: StartTime | None = None
    """How long pods take to become ready; None for no time."""
    release: str = ""
    """The release of Kubernetes that is emulated."""
    pools: tuple[NodePool, ...] = ()
    """The pools from which an autoscaler adds nodes."""
    workload: Iterable[Pod] = ()
    """The pods of a trace, for plugins that sample them."""


def for_component(
    component: Component,
    profiles: tuple[ProfileSpec, ...] = (ProfileSpec(),),
    registry: Registry = IN_TREE,
    backoffs: Backoffs = _BACKOFFS,
    description: str = "the defaults",
) -> Settings:
    """Return the settings of a simulation that emulates a component's versions and feature gates."""
    return Settings(
        admission=admission_options.for_component(component),
        features=scheduler_features.from_gates(component.gates),
        profiles=profiles,
        registry=registry,
        backoffs=backoffs,
        stateful_pods_at_once=controller_options.for_component(component).stateful_pods_at_once,
        description=description,
        release=str(component.versions.emulation),
    )
