"""The kinds that Mooring knows: their names, types and discovery information.

`KINDS` has one entry for each version of each kind; the scheme decides which are served. The resources, with their
verbs and subresources, come from the API history (``history/resources.txt``); this module adds types, short names,
categories and conversions. Read next: ``scheme.py``.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from types import ModuleType
from typing import Any, NamedTuple

import msgspec

from mooring.api import (
    admissionregistration_v1,
    apiextensions_v1,
    apiregistration_v1,
    apps_v1,
    authentication_v1,
    authorization_v1,
    autoscaler_conversion,
    autoscaling_v1,
    autoscaling_v2,
    batch_v1,
    certificates_v1,
    conversion,
    coordination_v1,
    core_v1,
    discovery_v1,
    events_v1,
    flowcontrol_v1,
    networking_v1,
    node_v1,
    policy_v1,
    rbac_v1,
    resource_v1,
    resource_v1beta1,
    scheduling_v1,
    storage_v1,
    storagemigration_v1,
)
from mooring.api.history.tables import Served, served_resources
from mooring.api.lifecycles import ALWAYS, Lifecycle, lifecycle_of
from mooring.api.meta_v1 import Resource, ResourceList, list_of

ALL_VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")
ResourceType = type[Resource]
ListType = type[ResourceList]
_CHANGE = ("get", "patch", "update")
_CREATE = ("create",)


class GroupVersion(NamedTuple):
    """An API group (the core group is empty) and one of its versions."""

    group: str
    version: str

    @property
    def api_version(self) -> str:
        """The form in objects: `apps/v1`, or `v1` for the core group."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @classmethod
    def parse(cls, api_version: str) -> "GroupVersion":
        """Parse `apps/v1` or `v1`."""
        group, _, version = api_version.rpartition("/")
        return cls(group, version)


class Rank(NamedTuple):
    """The position of a version in Kubernetes' order: v2 > v1 > v1beta2 > v1beta1 > v1alpha3."""

    stability: int
    major: int
    minor: int


ALPHA, BETA, STABLE = range(3)


_VERSION = re.compile(r"v([1-9]\d*)(?:(alpha|beta)([1-9]\d*))?", re.ASCII)


def is_version(text: str) -> bool:
    """Whether a string is an API version, not a group."""
    return _VERSION.fullmatch(text) is not None


def preference(version: str) -> tuple[Any, ...]:
    """Return a sort key in clients' order of preference: v2, v1, v1beta1; then other names alphabetically."""
    if not is_version(version):
        return (1, version)
    return (0, *(-part for part in rank(version)))


@lru_cache(maxsize=256)
def rank(version: str) -> Rank:
    """Return the rank of a version such as `v1beta1`."""
    found = _VERSION.fullmatch(version)
    if not found:
        raise ValueError(f'"{version}" is not the version of an API: write v1, v1beta1 or v1alpha1')
    stability = {None: STABLE, "beta": BETA, "alpha": ALPHA}[found[2]]
    return Rank(stability, int(found[1]), int(found[3] or 0))


class Subresource(msgspec.Struct, frozen=True):
    """A subresource with its own URL, such as `status` or `scale`."""

    name: str
    verbs: tuple[str, ...] = _CHANGE
    kind: str = ""
    """The kind that is read and written there; empty for the parent's."""
    group_version: GroupVersion | None = None
    """The group and version of that kind, if not the parent's."""
    streams: bool = False
    """Whether it connects to a node or container (`log`, `exec`, `proxy`) instead of returning an object."""


class CustomKindInfo(msgspec.Struct, frozen=True, eq=False):
    """The properties of one version of a custom kind, from its CustomResourceDefinition."""

    singular: str
    list_kind: str
    definition: apiextensions_v1.CustomResourceDefinition
    version: apiextensions_v1.CustomResourceDefinitionVersion
    revision: int = 0
    """The definition's store revision: objects written later are pruned and defaulted by this schema."""


@dataclass(frozen=True, slots=True, eq=False)
class Kind:
    """One version of one kind."""

    group: str
    version: str
    kind: str
    type: ResourceType
    plural: str = ""
    """The name of the resource in URLs; empty for kinds that only appear in subresources."""
    namespaced: bool = True
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    verbs: tuple[str, ...] = ALL_VERBS
    subresources: tuple[Subresource, ...] = ()
    lifecycle: Lifecycle = ALWAYS
    storage_group: str | None = None
    """The group whose kind of the same name stores the objects, if not this one (events)."""
    is_internal: bool = False
    """Stored by the server for itself and never served."""
    to_hub: Callable[[Any], Any] | None = None
    """Convert an object to the newest version; None if it has the same type."""
    from_hub: Callable[[Any], Any] | None = None
    """Convert an object from the newest version."""
    custom: "CustomKindInfo | None" = None
    """The properties from a CustomResourceDefinition, for custom kinds."""
    group_version: GroupVersion = field(init=False)
    api_version: str = field(init=False)
    family: tuple[str, str] = field(init=False)
    """Identifies all versions of a kind that share the same objects."""
    has_status: bool = field(init=False)
    stored: bool = field(init=False)
    """Whether objects of the kind are stored; others are requests such as reviews."""
    subresource: Callable[[str], Subresource | None] = field(init=False, repr=False)
    """A function that returns the subresource with a name; None if there is none."""

    def __post_init__(self) -> None:
        worked_out = {  # computed once: every request reads these
            "group_version": GroupVersion(self.group, self.version),
            "api_version": GroupVersion(self.group, self.version).api_version,
            "family": (self.group if self.storage_group is None else self.storage_group, self.kind),
            "has_status": any(each.name == "status" for each in self.subresources),
            "stored": "list" in self.verbs,
            "subresource": {each.name: each for each in self.subresources}.get,
        }
        for name, value in worked_out.items():
            object.__setattr__(self, name, value)

    def has_shape_of(self, other: "Kind") -> bool:
        """Whether objects of both versions differ only in apiVersion."""
        return self.type is other.type and self.to_hub is other.to_hub

    @property
    def singular(self) -> str:
        return self.custom.singular if self.custom else self.kind.lower()

    @property
    def list_kind(self) -> str:
        return self.custom.list_kind if self.custom else f"{self.kind}List"

    @property
    def list_type(self) -> ListType | None:
        """The type of its lists; None for custom kinds and for kinds that are not stored."""
        return list_of(self.type) if self.stored and not self.custom else None

    @property
    def stability(self) -> int:
        """The stability of the version: `ALPHA`, `BETA` or `STABLE`."""
        return rank(self.version).stability


STATUS = Subresource("status")
SCALE = Subresource("scale", kind="Scale", group_version=GroupVersion("autoscaling", "v1"))
_CONNECT = ("create", "get")
_PROXIED = ("create", "delete", "get", "patch", "update")
_SUBRESOURCES = {
    each.name: each
    for each in (
        SCALE,
        STATUS,
        Subresource("approval"),
        Subresource("attach", _CONNECT, "PodAttachOptions", streams=True),
        Subresource("binding", _CREATE, "Binding"),
        Subresource("ephemeralcontainers"),
        Subresource("eviction", _CREATE, "Eviction", GroupVersion("policy", "v1")),
        Subresource("exec", _CONNECT, "PodExecOptions", streams=True),
        Subresource("finalize", ("update",)),
        Subresource("log", ("get",), streams=True),
        Subresource("portforward", _CONNECT, "PodPortForwardOptions", streams=True),
        Subresource("resize"),
        Subresource("token", _CREATE, "TokenRequest", GroupVersion("authentication.k8s.io", "v1")),
    )
}
_SHORT_NAMES = {
    "certificatesigningrequests": ("csr",),
    "configmaps": ("cm",),
    "cronjobs": ("cj",),
    "customresourcedefinitions": ("crd", "crds"),
    "daemonsets": ("ds",),
    "deployments": ("deploy",),
    "endpoints": ("ep",),
    "events": ("ev",),
    "horizontalpodautoscalers": ("hpa",),
    "ingresses": ("ing",),
    "ipaddresses": ("ip",),
    "limitranges": ("limits",),
    "namespaces": ("ns",),
    "networkpolicies": ("netpol",),
    "nodes": ("no",),
    "persistentvolumeclaims": ("pvc",),
    "persistentvolumes": ("pv",),
    "poddisruptionbudgets": ("pdb",),
    "pods": ("po",),
    "priorityclasses": ("pc",),
    "replicasets": ("rs",),
    "replicationcontrollers": ("rc",),
    "resourcequotas": ("quota",),
    "serviceaccounts": ("sa",),
    "services": ("svc",),
    "statefulsets": ("sts",),
    "storageclasses": ("sc",),
    "volumeattributesclasses": ("vac",),
}
_IN_ALL = {"cronjobs", "daemonsets", "deployments", "horizontalpodautoscalers", "jobs", "pods", "replicasets"}
_IN_ALL |= {"replicationcontrollers", "services", "statefulsets"}
"""The resources of kubectl's category `all`."""
_EXTENSION_GROUPS = {"admissionregistration.k8s.io", "apiextensions.k8s.io", "apiregistration.k8s.io"}
"""The groups whose resources are in the category `api-extensions`."""
_TYPES: dict[str, ModuleType] = {
    "v1": core_v1,
    "apps/v1": apps_v1,
    "autoscaling/v2": autoscaling_v2,
    "autoscaling/v1": autoscaling_v1,
    "batch/v1": batch_v1,
    "policy/v1": policy_v1,
    "authentication.k8s.io/v1": authentication_v1,
    "authorization.k8s.io/v1": authorization_v1,
    "rbac.authorization.k8s.io/v1": rbac_v1,
    "admissionregistration.k8s.io/v1": admissionregistration_v1,
    "admissionregistration.k8s.io/v1beta1": admissionregistration_v1,
    "apiextensions.k8s.io/v1": apiextensions_v1,
    "apiregistration.k8s.io/v1": apiregistration_v1,
    "certificates.k8s.io/v1": certificates_v1,
    "certificates.k8s.io/v1beta1": certificates_v1,
    "coordination.k8s.io/v1": coordination_v1,
    "discovery.k8s.io/v1": discovery_v1,
    "events.k8s.io/v1": events_v1,
    "flowcontrol.apiserver.k8s.io/v1": flowcontrol_v1,
    "flowcontrol.apiserver.k8s.io/v1beta3": flowcontrol_v1,
    "networking.k8s.io/v1": networking_v1,
    "networking.k8s.io/v1beta1": networking_v1,
    "node.k8s.io/v1": node_v1,
    "resource.k8s.io/v1": resource_v1,
    "resource.k8s.io/v1beta2": resource_v1,
    "resource.k8s.io/v1beta1": resource_v1beta1,
    "scheduling.k8s.io/v1": scheduling_v1,
    "storage.k8s.io/v1": storage_v1,
    "storage.k8s.io/v1beta1": storage_v1,
    "storagemigration.k8s.io/v1": storagemigration_v1,
    "storagemigration.k8s.io/v1beta1": storagemigration_v1,
}
"""The module with the types of each group and version. Kinds without a type there are not served."""
_MORE_TYPES: dict[tuple[str, str], ResourceType] = {
    ("admissionregistration.k8s.io/v1alpha1", "MutatingAdmissionPolicy"): (
        admissionregistration_v1.MutatingAdmissionPolicy
    ),
    ("admissionregistration.k8s.io/v1alpha1", "MutatingAdmissionPolicyBinding"): (
        admissionregistration_v1.MutatingAdmissionPolicyBinding
    ),
    ("resource.k8s.io/v1alpha3", "DeviceTaintRule"): resource_v1.DeviceTaintRule,
    ("resource.k8s.io/v1beta1", "DeviceClass"): resource_v1.DeviceClass,
}
"""The types of single kinds of other versions."""
_Convert = Callable[[Any], Any]
_CONVERSIONS: dict[tuple[str, str], tuple[_Convert, _Convert]] = {
    ("autoscaling/v1", "HorizontalPodAutoscaler"): (
        autoscaler_conversion.autoscaler_from_v1,
        autoscaler_conversion.autoscaler_to_v1,
    ),
    ("events.k8s.io/v1", "Event"): (conversion.event_to_core, conversion.event_from_core),
    ("flowcontrol.apiserver.k8s.io/v1beta3", "PriorityLevelConfiguration"): (
        conversion.priority_level_from_v1beta3,
        conversion.priority_level_to_v1beta3,
    ),
    ("resource.k8s.io/v1beta1", "ResourceClaim"): (conversion.claim_from_v1beta1, conversion.claim_to_v1beta1),
    ("resource.k8s.io/v1beta1", "ResourceClaimTemplate"): (
        conversion.template_from_v1beta1,
        conversion.template_to_v1beta1,
    ),
    ("resource.k8s.io/v1beta1", "ResourceSlice"): (conversion.slice_from_v1beta1, conversion.slice_to_v1beta1),
}
"""The functions that convert objects to the newest version and from it, where they differ."""


def _served_kind(served: Served, object_type: ResourceType) -> Kind:
    to_hub, from_hub = _CONVERSIONS.get((served.api_version, served.kind), (None, None))
    categories = (("all",) if served.plural in _IN_ALL else ()) + (
        ("api-extensions",) if served.group in _EXTENSION_GROUPS else ()
    )
    return Kind(
        served.group,
        served.version,
        served.kind,
        object_type,
        served.plural,
        namespaced=served.namespaced,
        short_names=_SHORT_NAMES.get(served.plural, ()),
        categories=categories,
        verbs=tuple(verb for verb in ALL_VERBS if verb in served.verbs),
        subresources=tuple(
            _SUBRESOURCES.get(name) or Subresource(name, _PROXIED, f"{served.kind}ProxyOptions", streams=True)
            for name, releases in served.subresources.items()
            if releases.until in (None, served.releases.until)  # not one that was removed
        ),
        lifecycle=lifecycle_of(served.group, served.version, served.kind),
        # kubectl shows the events of core/v1, which the scheduler writes, also as those of events.k8s.io
        storage_group="" if served.group == "events.k8s.io" else None,
        to_hub=to_hub,
        from_hub=from_hub,
    )


def _build_kinds() -> Iterator[Kind]:
    for served in sorted(served_resources(), key=lambda each: rank(each.version), reverse=True):
        module = _TYPES.get(served.api_version)
        object_type = _MORE_TYPES.get((served.api_version, served.kind)) or getattr(module, served.kind, None)
        if object_type is not None:
            yield _served_kind(served, object_type)
    yield Kind("", "v1", "RangeAllocation", core_v1.RangeAllocation, "rangeallocations", False, is_internal=True)
    for group, only_in_subresources in (
        ("autoscaling", autoscaling_v1.Scale),
        ("policy", policy_v1.Eviction),
        ("authentication.k8s.io", authentication_v1.TokenRequest),
    ):
        yield Kind(group, "v1", only_in_subresources.__name__, only_in_subresources, verbs=())


KINDS = tuple(_build_kinds())
