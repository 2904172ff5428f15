"""Find pods, tolerations and node selector terms in the objects that contain them.

Paths are strings in the format of the API server's errors. Called by ``advice.py``.
"""

from collections.abc import Callable, Iterator, Mapping
from operator import attrgetter
from typing import Any, NamedTuple

from mooring.api import apps_v1, batch_v1, core_v1
from mooring.api.base import copy_of
from mooring.api.meta_v1 import Resource


class PodSpecAt(NamedTuple):
    """The spec of a pod or of a workload's pod template, and its path in the object."""

    spec: core_v1.PodSpec
    path: str
    annotations: Mapping[str, str]

    @property
    def annotations_path(self) -> str:
        return f"{self.path.removesuffix('spec')}metadata.annotations"


class TermAt(NamedTuple):
    """A node selector term and its path; a required one excludes nodes, a preferred one scores them."""

    term: core_v1.NodeSelectorTerm
    path: str
    required: bool


_TEMPLATE = ("spec.template.spec", attrgetter("spec.template"))
_WHERE: dict[type, tuple[str, Callable[[Any], core_v1.Pod | core_v1.PodTemplateSpec | None]]] = {
    core_v1.Pod: ("spec", lambda obj: obj),
    core_v1.PodTemplate: ("template.spec", attrgetter("template")),
    batch_v1.CronJob: ("spec.jobTemplate.spec.template.spec", attrgetter("spec.job_template.spec.template")),
    **dict.fromkeys((apps_v1.DaemonSet, apps_v1.Deployment, apps_v1.ReplicaSet, apps_v1.StatefulSet), _TEMPLATE),
    **dict.fromkeys((core_v1.ReplicationController, batch_v1.Job), _TEMPLATE),
}


def find_pod_spec(obj: Resource) -> PodSpecAt | None:
    """Return the pod spec in an object, and its path: a pod's own, or a workload's template; None for other kinds."""
    path, read = _WHERE.get(type(obj), ("", None))
    found = read(obj) if read is not None else None
    return PodSpecAt(found.spec, path, found.metadata.annotations) if found is not None else None


def pod_from_template(obj: Resource) -> core_v1.Pod | None:
    """Return the pod that a workload's template would create; None for pods and for kinds without a template."""
    _, read = _WHERE.get(type(obj), ("", None))
    found = read(obj) if read is not None and not isinstance(obj, core_v1.Pod) else None
    if found is None:
        return None
    metadata = copy_of(found.metadata)
    metadata.namespace, metadata.generate_name = obj.metadata.namespace, f"{obj.metadata.name}-"
    return core_v1.Pod(api_version="v1", kind="Pod", metadata=metadata, spec=found.spec)


def node_affinity_terms(pod: PodSpecAt) -> Iterator[TermAt]:
    """Yield the terms of a pod's node affinity."""
    affinity = pod.spec.affinity and pod.spec.affinity.node_affinity
    if not affinity:
        return
    required = affinity.required_during_scheduling_ignored_during_execution
    base = f"{pod.path}.affinity.nodeAffinity"
    if required:
        path = f"{base}.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms"
        for index, term in enumerate(required.node_selector_terms):
            yield TermAt(term, f"{path}[{index}]", required=True)
    path = f"{base}.preferredDuringSchedulingIgnoredDuringExecution"
    for index, preferred in enumerate(affinity.preferred_during_scheduling_ignored_during_execution):
        yield TermAt(preferred.preference, f"{path}[{index}].preference", required=False)


def volume_affinity_terms(obj: Resource) -> Iterator[TermAt]:
    """Yield the terms of a PersistentVolume's node affinity."""
    affinity = obj.spec.node_affinity if isinstance(obj, core_v1.PersistentVolume) else None
    if affinity and affinity.required:
        for index, term in enumerate(affinity.required.node_selector_terms):
            yield TermAt(term, f"spec.nodeAffinity.required.nodeSelectorTerms[{index}]", required=True)
