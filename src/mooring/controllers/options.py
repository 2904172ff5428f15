"""The options of controllers. Versions and gates are read only here (4330.12)."""

import re
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

import msgspec

from mooring.api.scheme import Scheme
from mooring.base.component import Component
from mooring.base.known_gates import NODE_DECLARED_FEATURES
from mooring.base.version import BINARY, Version
from mooring.client import Backoff
from mooring.constraints import options
from mooring.constraints.options import ConstraintOptions

if TYPE_CHECKING:
    from mooring.controllers.programs.file import Programs

COMPONENT = "mooring-controllers"
KUBELET_FEATURES = (
    "InPlacePodLevelResourcesVerticalScaling",
    "InPlacePodVerticalScalingInitContainers",
    "RestartAllContainersOnContainerExits",
)
"""Features that a simulated kubelet declares by default, and that pods can require."""
_DECLARED_SINCE = Version(1, 36)
_STATEFUL_PODS_AT_ONCE = Version(1, 37)
"""The first release with the gate MaxUnavailableStatefulSet on by default."""


_KUBELET = re.compile(r"v?(\d+)\.(\d+)(\.\d+)?([-+][0-9A-Za-z.+-]+)?")


class Kubelet(msgspec.Struct, frozen=True):
    """The version and features that simulated kubelets report."""

    version: str = f"v{BINARY}.0"
    features: tuple[str, ...] = KUBELET_FEATURES

    def with_version(self, version: str) -> "Kubelet | None":
        """Return the kubelet of another version (`1.34` or `v1.34.2`); None if that is not a version.

        >>> Kubelet().with_version("1.34").version
        'v1.34.0'
        """
        match = _KUBELET.fullmatch(version)
        if match is None:
            return None
        major, minor, patch, rest = match.groups()
        declare = Version(int(major), int(minor)) >= _DECLARED_SINCE
        return Kubelet(f"v{major}.{minor}{patch or '.0'}{rest or ''}", self.features if declare else ())


class UnknownControllerError(ValueError):
    """A name in `--controllers` is unknown; the message lists the known ones."""


class ControllerOptions(msgspec.Struct, frozen=True):
    """The options of all controllers: timeouts, and what a component's versions and feature gates determine."""

    constraints: ConstraintOptions = msgspec.field(default_factory=ConstraintOptions)
    version: str = ""
    scheme: Scheme = msgspec.field(default_factory=Scheme)
    kubelet: Kubelet = Kubelet()
    programs: "Programs | None" = None
    """The programs that run for images on simulated nodes; None if there are none."""
    stateful_pods_at_once: bool = True
    """Whether StatefulSets honour `maxUnavailable` (MaxUnavailableStatefulSet)."""
    node_grace_seconds: float = 50.0
    rejection_backoff: Backoff = Backoff(initial=1.0, maximum=300.0, jitter=0.5)
    """The backoff of a pod template whose pods the server rejects; a maximum of 0 leaves it to the queue."""


def for_component(component: Component) -> ControllerOptions:
    """Return the options that a component's versions and feature gates determine; timeouts have their defaults."""
    declare = component.gates.enabled(NODE_DECLARED_FEATURES) and component.versions.emulation >= _DECLARED_SINCE
    return ControllerOptions(
        constraints=options.from_gates(component.gates),
        version=str(component.versions.emulation),
        scheme=Scheme(component.versions),
        kubelet=Kubelet(f"v{component.versions.emulation}.0", KUBELET_FEATURES if declare else ()),
        stateful_pods_at_once=component.versions.emulation >= _STATEFUL_PODS_AT_ONCE,
    )


def select_controllers(wanted: Sequence[str], known: Collection[str]) -> tuple[str, ...]:
    """Return the controllers of `--controllers`, as kube-controller-manager reads it: `*` is all, `-name` excludes.

    >>> select_controllers(["*", "-job"], ["deployment", "job"])
    ('deployment',)
    """
    words = [word for word in (word.strip() for word in wanted) if word]
    unknown = [word for word in words if word != "*" and word.removeprefix("-") not in known]
    if unknown:
        raise UnknownControllerError(
            f"there is no controller {', '.join(unknown)}: there are {', '.join(sorted(known))}"
        )
    every = not words or "*" in words
    return tuple(name for name in known if f"-{name}" not in words and (every or name in words))
