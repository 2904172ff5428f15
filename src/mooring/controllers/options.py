"""What the controllers are started with, and what of it depends on versions and gates: read once, here (4330.12)."""

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
"""What a kubelet declares by default, as far as pods can need it."""
_DECLARED_SINCE = Version(1, 36)
_STATEFUL_PODS_AT_ONCE = Version(1, 37)
"""Since when MaxUnavailableStatefulSet is on."""


_KUBELET = re.compile(r"v?(\d+)\.(\d+)(\.\d+)?([-+][0-9A-Za-z.+-]+)?")


class Kubelet(msgspec.Struct, frozen=True):
    """What simulated kubelets say of themselves."""

    version: str = f"v{BINARY}.0"
    features: tuple[str, ...] = KUBELET_FEATURES
    """What they declare that they can do, where nodes say such things."""

    def of(self, version: str) -> "Kubelet | None":
        """A kubelet of another version, as `1.34` or `v1.34.2`; None for a text that is none.

        >>> Kubelet().of("1.34").version
        'v1.34.0'
        """
        match = _KUBELET.fullmatch(version)
        if match is None:
            return None
        major, minor, patch, rest = match.groups()
        declare = Version(int(major), int(minor)) >= _DECLARED_SINCE
        return Kubelet(f"v{major}.{minor}{patch or '.0'}{rest or ''}", self.features if declare else ())


class UnknownControllerError(ValueError):
    """A name in `--controllers` is not one of a controller; the message lists those there are."""


class ControllerOptions(msgspec.Struct, frozen=True):
    """What follows from a component's versions and gates, and how patient the controllers are."""

    constraints: ConstraintOptions = msgspec.field(default_factory=ConstraintOptions)
    version: str = ""
    """How the component announces itself."""
    scheme: Scheme = msgspec.field(default_factory=Scheme)
    """The kinds and versions that it speaks."""
    kubelet: Kubelet = Kubelet()
    """What simulated kubelets are like, where their nodes do not say otherwise."""
    programs: "Programs | None" = None
    """What runs on simulated nodes for which images; None: nothing is executed."""
    stateful_pods_at_once: bool = True
    """Whether StatefulSets heed `maxUnavailable` (MaxUnavailableStatefulSet)."""
    node_grace_seconds: float = 50.0
    """How long a node may be silent before it counts as unreachable."""
    rejection_backoff: Backoff = Backoff(initial=1.0, maximum=300.0, jitter=0.5)
    """How long a template is left alone when the server refuses its pods. A maximum of 0: as in Kubernetes, where only
    the queue slows down, and everything that happens to the workload is another attempt."""


def for_component(component: Component) -> ControllerOptions:
    """Read a component's versions and gates, once."""
    declare = component.gates.enabled(NODE_DECLARED_FEATURES) and component.versions.emulation >= _DECLARED_SINCE
    return ControllerOptions(
        constraints=options.from_gates(component.gates),
        version=str(component.versions.emulation),
        scheme=Scheme(component.versions),
        kubelet=Kubelet(f"v{component.versions.emulation}.0", KUBELET_FEATURES if declare else ()),
        stateful_pods_at_once=component.versions.emulation >= _STATEFUL_PODS_AT_ONCE,
    )


def chosen(wanted: Sequence[str], known: Collection[str]) -> tuple[str, ...]:
    """The controllers that `--controllers` means, as kube-controller-manager reads it: `*` is all, `-name` all but one.

    >>> chosen(["*", "-job"], ["deployment", "job"])
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
