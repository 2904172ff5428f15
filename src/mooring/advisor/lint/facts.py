"""The facts of a cluster that manifests refer to: served API versions, nodes, and the names of some objects.

`mooring lint --cluster` reads a live cluster, `--from` a dump. Unknown facts are None, and nothing is reported about
them. Called by ``linter.py`` (`ClusterFacts.advise_on_object`) and the command line.
"""

import asyncio
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import msgspec
from msgspec import structs

from mooring.advisor.lint import rules, specs
from mooring.advisor.lint.rules import Problem
from mooring.api import core_v1, errors
from mooring.api.base import copy_of
from mooring.api.meta_v1 import APIGroupList, APIResourceList, ObjectMeta, Resource
from mooring.api.quoting import go_quote
from mooring.api.resource_v1 import DeviceClass, ResourceClaim, ResourceClaimTemplate
from mooring.api.scheduling_v1 import PriorityClass
from mooring.api.storage_v1 import StorageClass

if TYPE_CHECKING:  # lint without a cluster should not wait for them
    from mooring.advisor.policies import PolicyEvaluator, Verdict
    from mooring.advisor.snapshot import Snapshot
    from mooring.advisor.snapshot.namespace_rules import NamespaceRules
    from mooring.client import Client

REFERRED: Mapping[str, type[Resource]] = {
    kind.__name__: kind for kind in (core_v1.Namespace, PriorityClass, DeviceClass, StorageClass)
}
"""The kinds to which manifests refer by name."""
_SYSTEM_PRIORITIES = frozenset({"system-cluster-critical", "system-node-critical"})


@dataclass(frozen=True, slots=True)
class ClusterFacts:
    """The facts of a cluster to lint manifests against: API versions, nodes, names of objects, policies, quotas."""

    served: frozenset[tuple[str, str]] | None = None
    """apiVersion and kind of everything that can be created."""
    nodes: tuple[core_v1.Node, ...] = ()
    names: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """The names of the objects of each kind; kinds whose names are unknown are missing."""
    policies: "PolicyEvaluator | None" = None
    """The admission policies of the cluster."""
    rules: "NamespaceRules | None" = None
    """The quotas, LimitRanges and Pod Security levels of its namespaces."""

    def with_names(self, created: Iterable[tuple[str, str]]) -> "ClusterFacts":
        """Return the facts extended by objects, given as kind and name, that the linted files create."""
        names = {kind: set(known) for kind, known in self.names.items()}
        for kind, name in created:
            if kind in names:
                names[kind].add(name)
        return replace(self, names={kind: frozenset(found) for kind, found in names.items()})

    def absence(self, api_version: str, kind: str) -> str | None:
        """Return why the cluster does not serve an API version and kind; None if it does, or if that is unknown."""
        if self.served is None or (api_version, kind) in self.served:
            return None
        others = sorted(version for version, name in self.served if name == kind)
        instead = f"; it has {' and '.join(others)}" if others else ""
        return f"the cluster does not serve {api_version} {kind}{instead}"

    def advise_on_object(self, obj: Resource) -> Iterator[Problem]:
        """Yield problems of an object in this cluster: missing referenced objects, refusals by quotas and policies."""
        namespace = obj.metadata.namespace
        if namespace:
            yield from self._check_name("Namespace", namespace, "metadata.namespace")
        pod = specs.find_pod_spec(obj)
        if pod is not None:
            name = pod.spec.priority_class_name
            if name not in _SYSTEM_PRIORITIES:
                yield from self._check_name("PriorityClass", name, f"{pod.path}.priorityClassName")
        if isinstance(obj, core_v1.PersistentVolumeClaim):
            name = obj.spec.storage_class_name or ""
            yield from self._check_name("StorageClass", name, "spec.storageClassName")
        yield from self._check_device_classes(obj)
        if self.policies is not None:
            yield from _problems_of_verdict(self.policies.verdict(obj), "")
            created = specs.pod_from_template(obj)
            if created is not None:
                yield from _problems_of_verdict(self.policies.verdict(created), "its pods: ")
        if self.rules is not None:
            yield from _quota_problems(obj, self.rules)

    def _check_name(self, kind: str, name: str, path: str) -> Iterator[Problem]:
        if name and kind in self.names and name not in self.names[kind]:
            what = "namespace" if kind == "Namespace" else kind
            yield Problem(rules.NOT_IN_CLUSTER, path, f"the cluster has no {what} {go_quote(name)}")

    def _check_device_classes(self, obj: Resource) -> Iterator[Problem]:
        if isinstance(obj, ResourceClaim):
            devices, path = obj.spec.devices, "spec.devices"
        elif isinstance(obj, ResourceClaimTemplate):
            devices, path = obj.spec.spec.devices, "spec.spec.devices"
        else:
            return
        for index, request in enumerate(devices.requests):
            here = f"{path}.requests[{index}]"
            if request.exactly is not None:
                place = f"{here}.exactly.deviceClassName"
                yield from self._check_name("DeviceClass", request.exactly.device_class_name, place)
            for number, each in enumerate(request.first_available):
                place = f"{here}.firstAvailable[{number}].deviceClassName"
                yield from self._check_name("DeviceClass", each.device_class_name, place)


def _quota_problems(obj: Resource, namespace_rules: "NamespaceRules") -> Iterator[Problem]:
    """Yield a problem for each quota or limit of the namespace that would refuse the object or pods created from it."""
    from mooring.advisor.snapshot.admitting import ClusterLookups, admit_object  # noqa: PLC0415 - lint without a cluster spares them

    where = obj.metadata.namespace or "default"
    metadata = structs.replace(obj.metadata, namespace=where)
    found, why = namespace_rules.count_room_for(structs.replace(obj, metadata=metadata), 1)
    if why and not isinstance(obj, core_v1.Pod):
        yield Problem(rules.NO_ROOM, "", why)
    at = specs.find_pod_spec(obj)
    if at is None:
        return
    meta = ObjectMeta(name=metadata.name or metadata.generate_name, namespace=where, annotations={**at.annotations})
    pod = core_v1.Pod(api_version="v1", kind="Pod", metadata=meta, spec=copy_of(at.spec))
    pod.spec.priority_class_name = ""  # whether the class exists is another rule
    refusal = admit_object(pod, ClusterLookups({}, {}, namespace_rules)).refusal
    if "is forbidden: " in refusal:
        yield Problem(rules.NO_ROOM, at.path, refusal)
        return
    wanted = getattr(obj.spec, "replicas", None) if hasattr(obj, "spec") else None
    found, why = namespace_rules.count_room_for(pod, wanted or 1)
    if why:
        yield Problem(rules.NO_ROOM, at.path, f"there is room for {found} of {wanted} pods: {why}")


def _problems_of_verdict(verdict: "Verdict", about: str) -> Iterator[Problem]:
    if verdict.refused:
        yield Problem(rules.REFUSED, "", f"{about}{verdict.refused}")
    for text in verdict.warning_texts:
        yield Problem(rules.SERVER_WARNING, "", f"{about}{text}")
    for text in verdict.webhooks:
        yield Problem(rules.ASKS_WEBHOOK, "", f"{about}the server would ask the {text}")


def facts_of(snapshot: "Snapshot", served: frozenset[tuple[str, str]] | None = None) -> ClusterFacts:
    """Return the facts of a snapshot; the names of kinds without objects, which a dump may lack, count as unknown."""
    from mooring.advisor.policies import policies_of  # noqa: PLC0415 - lint without a cluster should not wait for it
    from mooring.advisor.snapshot.namespace_rules import NamespaceRules  # noqa: PLC0415 - as above

    policies = policies_of(snapshot)
    nodes = tuple(snapshot.all(core_v1.Node))
    names = {}
    for name, kind in REFERRED.items():
        found = frozenset(each.metadata.name for each in snapshot.all(kind))
        plural = f"{name.lower()}{'es' if name.endswith('s') else 's'}"
        if found or (served is not None and plural not in snapshot.missing):
            names[name] = found
    return ClusterFacts(
        served, nodes, names, None if policies.is_idle else policies, NamespaceRules.from_snapshot(snapshot)
    )


# -- discovery


async def read_served_kinds(client: "Client") -> frozenset[tuple[str, str]]:
    """Return the pairs of apiVersion and kind that a server serves. Raise `ClientError` and `StatusError`."""
    groups = msgspec.json.decode((await client.raw("GET", "/apis")).body, type=APIGroupList)
    versions = ["v1", *(version.group_version for group in groups.groups for version in group.versions)]
    found = await asyncio.gather(*(_kinds_of_version(client, version) for version in versions))
    return frozenset((version, kind) for version, kinds in zip(versions, found, strict=True) for kind in kinds)


async def _kinds_of_version(client: "Client", version: str) -> set[str]:
    path = f"/apis/{version}" if "/" in version else f"/api/{version}"
    try:
        answer = await client.raw("GET", path)
    except errors.StatusError:
        return set()  # an aggregated API whose server is away; what it has is not known
    resources = msgspec.json.decode(answer.body, type=APIResourceList).resources
    return {each.kind for each in resources if "/" not in each.name}
