"""The kinds that Mooring knows: their names, types and discovery information.

`KINDS` is the table, one entry for each version of each kind; the scheme decides which are served. Names, short names,
categories, verbs and subresources are those of Kubernetes' discovery. Read next: ``scheme.py``.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import lru_cache
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
    converter: "Callable[[Any, Kind], Any]"
    """Convert an object of this version to the version given as second argument."""
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

    def __post_init__(self) -> None:
        worked_out = {  # computed once: every request reads these
            "group_version": GroupVersion(self.group, self.version),
            "api_version": GroupVersion(self.group, self.version).api_version,
            "family": (self.group if self.storage_group is None else self.storage_group, self.kind),
            "has_status": self.subresource("status") is not None,
            "stored": "list" in self.verbs,
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

    def subresource(self, name: str) -> Subresource | None:
        for each in self.subresources:  # called several times per request: a generator would cost more
            if each.name == name:
                return each
        return None


STATUS = Subresource("status")
SCALE = Subresource("scale", kind="Scale", group_version=GroupVersion("autoscaling", "v1"))
_ALL = ("all",)
_CONNECT = ("create", "get")
_PROXIED = ("create", "delete", "get", "patch", "update")
_POD_SUBRESOURCES = (
    Subresource("attach", _CONNECT, "PodAttachOptions", streams=True),
    Subresource("binding", _CREATE, "Binding"),
    Subresource("ephemeralcontainers"),
    Subresource("eviction", _CREATE, "Eviction", GroupVersion("policy", "v1")),
    Subresource("exec", _CONNECT, "PodExecOptions", streams=True),
    Subresource("log", ("get",), streams=True),
    Subresource("portforward", _CONNECT, "PodPortForwardOptions", streams=True),
    Subresource("proxy", _PROXIED, "PodProxyOptions", streams=True),
    Subresource("resize"),
    STATUS,
)


class _Module(msgspec.Struct, frozen=True):
    """Find the types of one group-version by kind."""

    group: str
    version: str
    module: Any

    def kind(self, kind: str, plural: str = "", **facts: Any) -> Kind:
        return Kind(
            self.group,
            self.version,
            kind,
            getattr(self.module, kind),
            plural,
            lifecycle=lifecycle_of(self.group, self.version, kind),
            **facts,
        )

    def only_in_subresources(self, kind: str) -> Kind:
        return self.kind(kind, verbs=())

    def question(self, kind: str, plural: str, *, namespaced: bool = False) -> Kind:
        return self.kind(kind, plural, namespaced=namespaced, verbs=_CREATE)


def _core() -> tuple[Kind, ...]:
    v1 = _Module("", "v1", core_v1)
    token = Subresource("token", _CREATE, "TokenRequest", GroupVersion("authentication.k8s.io", "v1"))
    node_proxy = Subresource("proxy", _PROXIED, "NodeProxyOptions", streams=True)
    service_proxy = Subresource("proxy", _PROXIED, "ServiceProxyOptions", streams=True)
    without_deletecollection = tuple(verb for verb in ALL_VERBS if verb != "deletecollection")
    return (
        v1.kind("Binding", "bindings", verbs=_CREATE),
        v1.kind("ConfigMap", "configmaps", short_names=("cm",)),
        v1.kind("Endpoints", "endpoints", short_names=("ep",)),
        v1.kind("Event", "events", short_names=("ev",)),
        v1.kind("LimitRange", "limitranges", short_names=("limits",)),
        v1.kind(
            "Namespace",
            "namespaces",
            namespaced=False,
            short_names=("ns",),
            verbs=without_deletecollection,
            subresources=(Subresource("finalize", ("update",)), STATUS),
        ),
        v1.kind("Node", "nodes", namespaced=False, short_names=("no",), subresources=(node_proxy, STATUS)),
        v1.kind("PersistentVolumeClaim", "persistentvolumeclaims", short_names=("pvc",), subresources=(STATUS,)),
        v1.kind("PersistentVolume", "persistentvolumes", namespaced=False, short_names=("pv",), subresources=(STATUS,)),
        v1.kind("Pod", "pods", short_names=("po",), categories=_ALL, subresources=_POD_SUBRESOURCES),
        v1.kind("PodTemplate", "podtemplates"),
        v1.kind(
            "ReplicationController",
            "replicationcontrollers",
            short_names=("rc",),
            categories=_ALL,
            subresources=(SCALE, STATUS),
        ),
        v1.kind("RangeAllocation", "rangeallocations", namespaced=False, is_internal=True),
        v1.kind("ResourceQuota", "resourcequotas", short_names=("quota",), subresources=(STATUS,)),
        v1.kind("Secret", "secrets"),
        v1.kind("ServiceAccount", "serviceaccounts", short_names=("sa",), subresources=(token,)),
        v1.kind("Service", "services", short_names=("svc",), categories=_ALL, subresources=(service_proxy, STATUS)),
    )


def _workloads() -> tuple[Kind, ...]:
    apps = _Module("apps", "v1", apps_v1)
    batch = _Module("batch", "v1", batch_v1)
    policy = _Module("policy", "v1", policy_v1)
    scalable = (SCALE, STATUS)
    autoscaler: dict[str, Any] = {
        "plural": "horizontalpodautoscalers",
        "short_names": ("hpa",),
        "categories": _ALL,
        "subresources": (STATUS,),
    }
    return (
        apps.kind("ControllerRevision", "controllerrevisions"),
        apps.kind("DaemonSet", "daemonsets", short_names=("ds",), categories=_ALL, subresources=(STATUS,)),
        apps.kind("Deployment", "deployments", short_names=("deploy",), categories=_ALL, subresources=scalable),
        apps.kind("ReplicaSet", "replicasets", short_names=("rs",), categories=_ALL, subresources=scalable),
        apps.kind("StatefulSet", "statefulsets", short_names=("sts",), categories=_ALL, subresources=scalable),
        _Module("autoscaling", "v1", autoscaling_v1).only_in_subresources("Scale"),
        _Module("autoscaling", "v2", autoscaling_v2).kind("HorizontalPodAutoscaler", **autoscaler),
        _Module("autoscaling", "v1", autoscaling_v1).kind(
            "HorizontalPodAutoscaler",
            **autoscaler,
            to_hub=autoscaler_conversion.autoscaler_from_v1,
            from_hub=autoscaler_conversion.autoscaler_to_v1,
        ),
        batch.kind("CronJob", "cronjobs", short_names=("cj",), categories=_ALL, subresources=(STATUS,)),
        batch.kind("Job", "jobs", categories=_ALL, subresources=(STATUS,)),
        policy.only_in_subresources("Eviction"),
        policy.kind("PodDisruptionBudget", "poddisruptionbudgets", short_names=("pdb",), subresources=(STATUS,)),
    )


def _access() -> tuple[Kind, ...]:
    authentication = _Module("authentication.k8s.io", "v1", authentication_v1)
    authorization = _Module("authorization.k8s.io", "v1", authorization_v1)
    rbac = _Module("rbac.authorization.k8s.io", "v1", rbac_v1)
    return (
        authentication.question("SelfSubjectReview", "selfsubjectreviews"),
        authentication.only_in_subresources("TokenRequest"),
        authentication.question("TokenReview", "tokenreviews"),
        authorization.question("LocalSubjectAccessReview", "localsubjectaccessreviews", namespaced=True),
        authorization.question("SelfSubjectAccessReview", "selfsubjectaccessreviews"),
        authorization.question("SelfSubjectRulesReview", "selfsubjectrulesreviews"),
        authorization.question("SubjectAccessReview", "subjectaccessreviews"),
        rbac.kind("ClusterRoleBinding", "clusterrolebindings", namespaced=False),
        rbac.kind("ClusterRole", "clusterroles", namespaced=False),
        rbac.kind("RoleBinding", "rolebindings"),
        rbac.kind("Role", "roles"),
    )


def _policies() -> tuple[Kind, ...]:
    v1 = _Module("admissionregistration.k8s.io", "v1", admissionregistration_v1)
    extensions: dict[str, Any] = {"namespaced": False, "categories": ("api-extensions",)}
    validating = (
        v1.kind("ValidatingAdmissionPolicy", "validatingadmissionpolicies", **extensions, subresources=(STATUS,)),
        v1.kind("ValidatingAdmissionPolicyBinding", "validatingadmissionpolicybindings", **extensions),
    )
    mutating = (
        v1.kind("MutatingAdmissionPolicy", "mutatingadmissionpolicies", **extensions),
        v1.kind("MutatingAdmissionPolicyBinding", "mutatingadmissionpolicybindings", **extensions),
    )
    both = (*validating, *mutating)
    return (
        *both,
        v1.kind("MutatingWebhookConfiguration", "mutatingwebhookconfigurations", **extensions),
        v1.kind("ValidatingWebhookConfiguration", "validatingwebhookconfigurations", **extensions),
        *(_in_version(kind, "v1beta1") for kind in both),
        *(_in_version(kind, "v1alpha1") for kind in mutating),
    )


def _cluster() -> tuple[Kind, ...]:
    storage = _Module("storage.k8s.io", "v1", storage_v1)
    attributes_class = storage.kind(
        "VolumeAttributesClass", "volumeattributesclasses", namespaced=False, short_names=("vac",)
    )
    trust_bundle = _Module("certificates.k8s.io", "v1", certificates_v1).kind(
        "ClusterTrustBundle", "clustertrustbundles", namespaced=False
    )
    return (
        _Module("apiextensions.k8s.io", "v1", apiextensions_v1).kind(
            "CustomResourceDefinition",
            "customresourcedefinitions",
            namespaced=False,
            short_names=("crd", "crds"),
            categories=("api-extensions",),
            subresources=(STATUS,),
        ),
        _Module("apiregistration.k8s.io", "v1", apiregistration_v1).kind(
            "APIService",
            "apiservices",
            namespaced=False,
            categories=("api-extensions",),
            subresources=(STATUS,),
        ),
        _Module("certificates.k8s.io", "v1", certificates_v1).kind(
            "CertificateSigningRequest",
            "certificatesigningrequests",
            namespaced=False,
            short_names=("csr",),
            subresources=(Subresource("approval"), STATUS),
        ),
        trust_bundle,
        _in_version(trust_bundle, "v1beta1"),
        _Module("coordination.k8s.io", "v1", coordination_v1).kind("Lease", "leases"),
        _Module("discovery.k8s.io", "v1", discovery_v1).kind("EndpointSlice", "endpointslices"),
        _Module("events.k8s.io", "v1", events_v1).kind(
            "Event",
            "events",
            short_names=("ev",),
            storage_group="",  # the same events as in core/v1: kubectl shows what the scheduler wrote
            to_hub=conversion.event_to_core,
            from_hub=conversion.event_from_core,
        ),
        *_flow_control(),
        _Module("scheduling.k8s.io", "v1", scheduling_v1).kind(
            "PriorityClass", "priorityclasses", namespaced=False, short_names=("pc",)
        ),
        storage.kind("CSIDriver", "csidrivers", namespaced=False),
        storage.kind("CSINode", "csinodes", namespaced=False, subresources=(STATUS,)),
        storage.kind("CSIStorageCapacity", "csistoragecapacities"),
        storage.kind("StorageClass", "storageclasses", namespaced=False, short_names=("sc",)),
        storage.kind("VolumeAttachment", "volumeattachments", namespaced=False, subresources=(STATUS,)),
        attributes_class,
        _in_version(attributes_class, "v1beta1"),
    )


def _flow_control() -> tuple[Kind, ...]:
    v1 = _Module("flowcontrol.apiserver.k8s.io", "v1", flowcontrol_v1)
    schema = v1.kind("FlowSchema", "flowschemas", namespaced=False, subresources=(STATUS,))
    level = v1.kind(
        "PriorityLevelConfiguration", "prioritylevelconfigurations", namespaced=False, subresources=(STATUS,)
    )
    return (
        schema,
        level,
        _in_version(schema, "v1beta3"),
        replace(
            _in_version(level, "v1beta3"),
            to_hub=conversion.priority_level_from_v1beta3,
            from_hub=conversion.priority_level_to_v1beta3,
        ),
    )


def _networking() -> tuple[Kind, ...]:
    v1 = _Module("networking.k8s.io", "v1", networking_v1)
    address = v1.kind("IPAddress", "ipaddresses", namespaced=False, short_names=("ip",))
    cidr = v1.kind("ServiceCIDR", "servicecidrs", namespaced=False, subresources=(STATUS,))
    pod_certificate = _Module("certificates.k8s.io", "v1", certificates_v1).kind(
        "PodCertificateRequest", "podcertificaterequests", subresources=(STATUS,)
    )
    migration = _Module("storagemigration.k8s.io", "v1", storagemigration_v1).kind(
        "StorageVersionMigration", "storageversionmigrations", namespaced=False, subresources=(STATUS,)
    )
    return (
        v1.kind("IngressClass", "ingressclasses", namespaced=False),
        v1.kind("Ingress", "ingresses", short_names=("ing",), subresources=(STATUS,)),
        v1.kind("NetworkPolicy", "networkpolicies", short_names=("netpol",)),
        address,
        cidr,
        _in_version(address, "v1beta1"),
        _in_version(cidr, "v1beta1"),
        _Module("node.k8s.io", "v1", node_v1).kind("RuntimeClass", "runtimeclasses", namespaced=False),
        pod_certificate,
        _in_version(pod_certificate, "v1beta1"),
        migration,
        _in_version(migration, "v1beta1"),
    )


def _devices() -> tuple[Kind, ...]:
    v1 = _Module("resource.k8s.io", "v1", resource_v1)
    device_class = v1.kind("DeviceClass", "deviceclasses", namespaced=False)
    taint_rule = v1.kind("DeviceTaintRule", "devicetaintrules", namespaced=False, subresources=(STATUS,))
    claim = v1.kind("ResourceClaim", "resourceclaims", subresources=(STATUS,))
    template = v1.kind("ResourceClaimTemplate", "resourceclaimtemplates")
    slice_ = v1.kind("ResourceSlice", "resourceslices", namespaced=False)
    everywhere = (device_class, claim, template, slice_)
    return (
        *everywhere,
        taint_rule,
        *(_in_version(kind, "v1beta2") for kind in (*everywhere, taint_rule)),
        _in_version(taint_rule, "v1alpha3"),
        _in_version(device_class, "v1beta1"),
        replace(
            _in_version(claim, "v1beta1"),
            type=resource_v1beta1.ResourceClaim,
            to_hub=conversion.claim_from_v1beta1,
            from_hub=conversion.claim_to_v1beta1,
        ),
        replace(
            _in_version(template, "v1beta1"),
            type=resource_v1beta1.ResourceClaimTemplate,
            to_hub=conversion.template_from_v1beta1,
            from_hub=conversion.template_to_v1beta1,
        ),
        replace(
            _in_version(slice_, "v1beta1"),
            type=resource_v1beta1.ResourceSlice,
            to_hub=conversion.slice_from_v1beta1,
            from_hub=conversion.slice_to_v1beta1,
        ),
    )


def _in_version(kind: Kind, version: str) -> Kind:
    return replace(kind, version=version, lifecycle=lifecycle_of(kind.group, version, kind.kind))


KINDS = (*_core(), *_workloads(), *_access(), *_policies(), *_cluster(), *_networking(), *_devices())
