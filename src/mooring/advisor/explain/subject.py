"""The subject of an explanation: a pod of the cluster or of a file, or a workload and the pod that it would create.

A change of a pod that comes from a template is made in the template: `Subject.source` is the object to change, and
`path` leads to the pod's spec in it.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from difflib import get_close_matches
from functools import cache, reduce
from pathlib import Path
from typing import Any

from msgspec import structs

from mooring.admission.options import AdmissionOptions
from mooring.advisor.simulate.pod_creation import reference_to
from mooring.advisor.snapshot.admitting import ClusterLookups, admit_object, index_by_name
from mooring.advisor.snapshot.engines import needs_node
from mooring.advisor.snapshot.from_files import dump
from mooring.advisor.snapshot.objects import Snapshot, full_scheme, newest_kind_of, to_newest
from mooring.advisor.snapshot.owners import WORKLOADS as _KINDS
from mooring.advisor.snapshot.owners import owners_of
from mooring.api import codec
from mooring.api.apps_v1 import DaemonSet, Deployment, ReplicaSet, StatefulSet
from mooring.api.base import copy_of
from mooring.api.batch_v1 import CronJob, Job
from mooring.api.core_v1 import (
    PersistentVolumeClaim,
    Pod,
    PodResourceClaimStatus,
    PodSpec,
    PodTemplateSpec,
    ReplicationController,
)
from mooring.api.meta_v1 import ObjectMeta, OwnerReference, Resource
from mooring.api.quoting import go_quote
from mooring.api.resource_v1 import ResourceClaim, ResourceClaimTemplate
from mooring.api.scheduling_v1 import PriorityClass
from mooring.api.states import controller_of
from mooring.api.storage_v1 import StorageClass
from mooring.constraints.annotations import without_bridge
from mooring.controllers.resource_claim import POD_CLAIM_NAME
from mooring.controllers.workloads.daemon_nodes import daemon_tolerations
from mooring.controllers.workloads.stateful_pods import build_claims, build_pod, ordinals, parse_ordinal

_PATHS: Mapping[type[Resource], tuple[str, ...]] = {
    **dict.fromkeys((Deployment, ReplicaSet, StatefulSet, DaemonSet, Job, ReplicationController), ("spec", "template")),
    CronJob: ("spec", "job_template", "spec", "template"),
}
WORKLOADS = tuple(_PATHS)
_NOTES = 5
_UID = "00000000-0000-4000-8000-000000000000"
"""The uid of pods that are not created yet."""


class NotThereError(LookupError):
    """The pod or workload to explain does not exist; the message names similar ones."""


@dataclass(frozen=True, slots=True)
class Subject:
    """The pod to explain, and the object (the pod or its workload) in which a user would change it."""

    pod: Pod
    source: Resource
    """The object to change: the pod itself, or the stored workload whose template it comes from."""
    path: tuple[str, ...] = ()
    """The path in the source to the object with the pod's spec: a template, or empty for a pod."""
    file: str = ""
    """The file from which the pod or workload was read; empty if it is in the cluster."""
    facts: tuple[str, ...] = ()
    exists: bool = True
    """Whether the pod exists, as opposed to being derived from a template."""
    is_bridged: bool = False
    """Whether scheduling constraints from Mooring's annotations were merged into the pod's spec; these ignore gates."""
    siblings: tuple[Pod, ...] = ()
    """All pods of the same workload, including this one."""
    given: Pod | None = None
    """The pod as written, without constraints from annotations; None if `pod` has none merged."""
    asked: Resource | None = None
    """The workload that the user named; None if the user named a pod."""

    @property
    def stored_pod(self) -> Pod:
        """Return the pod without the constraints that `pod` has merged from its annotations."""
        return self.given or self.pod

    def with_edited_pod(self, edit: Callable[[PodSpec], bool]) -> "Subject | None":
        """Return a copy with the spec edited in `pod` and in `source`; None if the edit finds nothing to change."""
        pod, source = copy_of(self.pod), copy_of(self.source)
        holder: Any = reduce(getattr, self.path, source)
        return replace(self, pod=pod, source=source) if edit(pod.spec) and edit(holder.spec) else None

    def with_edited_source(self, edit: Callable[[Any], bool]) -> "Subject | None":
        """Return a copy with the manifest or workload edited, but not the pod; None if nothing is to change."""
        source = copy_of(self.source)
        return replace(self, source=source) if edit(source) else None


def set_fields(**fields: Any) -> Callable[[Any], bool]:
    """Return an edit: a function that sets fields of its argument, and returns True because it changes something."""

    def edit(spec: Any) -> bool:
        for name, value in fields.items():
            setattr(spec, name, value)
        return True

    return edit


def set_fields_in(find: Callable[[PodSpec], Iterable[Any]], **fields: Any) -> Callable[[PodSpec], bool]:
    """Return a function that sets fields of each object that `find` finds in a pod's spec; it returns False if none."""

    def edit(spec: PodSpec) -> bool:
        found = list(find(spec))
        return bool(found) and all(map(set_fields(**fields), found))

    return edit


# -- finding


def find_subject(
    snapshot: Snapshot, kind: str, namespace: str, name: str, options: AdmissionOptions | None = None
) -> Subject:
    """Return the subject for the pod or workload with a name; raise `NotThereError`."""
    cls = _kind_named(kind)
    found = snapshot.find(cls, namespace, name)
    if found is None:
        raise NotThereError(_not_there_text(snapshot, cls, namespace, name))
    return subject_of(snapshot, found, options)


def subject_of(
    snapshot: Snapshot, obj: Resource, options: AdmissionOptions | None = None, *, file: str = ""
) -> Subject:
    """Return the subject for a pod or workload, with constraints from annotations. Raise `NotThereError`."""
    subject = _build_subject(snapshot, obj if obj.kind else to_newest(obj), options, file)
    siblings = () if isinstance(subject.source, Pod) else tuple(owners_of(snapshot).pods_of(subject.source))
    subject = replace(subject, siblings=siblings, asked=None if isinstance(obj, Pod) else obj)
    pod = without_bridge(subject.pod)
    return subject if pod is subject.pod else replace(subject, pod=pod, is_bridged=True, given=subject.pod)


def _build_subject(snapshot: Snapshot, obj: Resource, options: AdmissionOptions | None, file: str) -> Subject:
    if isinstance(obj, Pod):
        return _subject_of_pod(snapshot, obj, options, file)
    path = _PATHS.get(type(obj))
    if path is None:
        raise NotThereError(f"a {obj.kind or type(obj).__name__} makes no pods: name a pod or a workload")
    if not file:
        waiting = _waiting_pod(snapshot, obj)
        if waiting is not None:
            source = owners_of(snapshot).top_owner_of(obj) if isinstance(obj, ReplicaSet) else None
            return (
                _subject_of_pod(snapshot, waiting, options, file) if source is not None else Subject(waiting, obj, path)
            )
    return _subject_of_template(snapshot, obj, path, options, file)


def read_subject(
    snapshot: Snapshot, file: Path, namespace: str, options: AdmissionOptions | None = None
) -> tuple[Snapshot, Subject]:
    """Return the one pod or workload of a file (`-`: standard input), and the snapshot with the file's other objects
    added.

    Raise `NotThereError`, or `SnapshotError` for a file that cannot be read.
    """
    found = dump([file], options=options, namespace=namespace)
    wanted: list[Resource] = []
    for raw in found.raw():
        kind = full_scheme().kind(raw.api_version, raw.kind)
        if kind is not None and full_scheme().hub(kind).type in (Pod, *WORKLOADS):
            with suppress(codec.DecodeError):  # there is a note about it
                wanted.append(to_newest(codec.decode_tree(raw.tree, kind.type, codec.FieldValidation.IGNORE).object))
    if len(wanted) != 1:
        number = f"{len(wanted)} pods and workloads" if wanted else "no pod or workload that can be read"
        why = f" ({found.notes[0]})" if found.notes and not wanted else ""
        raise NotThereError(f"{file} has {number}: give one at a time{why}")
    own = wanted[0]
    own.metadata.namespace = own.metadata.namespace or namespace
    others = [obj for kind in found.kinds() for obj in found.all(kind) if type(obj) is not type(own)]
    cluster = snapshot.replace(put=others)
    subject = subject_of(cluster, own, options, file=str(file))
    return cluster, replace(subject, facts=(*subject.facts, *map(str, found.notes[:_NOTES])))


def is_explainable_kind(text: str) -> bool:
    """Return whether a word names a kind that can be explained: `pod`, `deployments`, `sts`."""
    return text.lower() in _kinds_by_name()


@cache
def _kinds_by_name() -> Mapping[str, type[Resource]]:
    kinds = [kind for kind in full_scheme().known if kind.type in (Pod, *WORKLOADS)]
    return {name: kind.type for kind in kinds for name in (kind.kind.lower(), kind.plural, *kind.short_names)}


def _kind_named(text: str) -> type[Resource]:
    found = _kinds_by_name().get(text.lower())
    if found is None:
        known = ", ".join(["pod", *(name.lower() for name in _KINDS)])
        raise NotThereError(f"{go_quote(text)} is no kind that makes pods: write {known}")
    return found


def _not_there_text(snapshot: Snapshot, cls: type[Resource], namespace: str, name: str) -> str:
    word = cls.__name__.lower()
    if why := snapshot.why_unread(newest_kind_of(cls).plural):
        return f"{word}s of {snapshot.origin} could not be read ({why})"
    all_of = [(obj.metadata.namespace, obj.metadata.name) for obj in snapshot.all(cls)]
    elsewhere = sorted(space for space, each in all_of if each == name)
    text = f"there is no {word} {go_quote(name)} in the namespace {namespace} of {snapshot.origin}"
    if elsewhere:
        return f"{text}; there is one in {', '.join(elsewhere)}"
    if cls is Pod and (owner := next((each for each in WORKLOADS if snapshot.find(each, namespace, name)), None)):
        return f"{text}; there is a {owner.__name__.lower()} of that name: {owner.__name__.lower()}/{name}"
    near = get_close_matches(name, [each for space, each in all_of if space == namespace], 3, 0.5)
    if near:
        return f"{text}; did you mean {' or '.join(near)}?"
    others = sum(space == namespace for space, _ in all_of)
    return f"{text}, which has {others or 'no'} {word}s"


# -- pods


def _subject_of_pod(snapshot: Snapshot, pod: Pod, options: AdmissionOptions | None, file: str) -> Subject:
    is_stored = bool(pod.metadata.uid) or snapshot.find(Pod, pod.metadata.namespace, pod.metadata.name) is not None
    if is_stored and not file:
        source = owners_of(snapshot).top_owner_of(pod)
        if source is not None and (source_path := _PATHS.get(type(source))) is not None:
            return Subject(pod, source, source_path)
        return Subject(pod, pod)
    made = copy_of(pod)
    warnings = _admit_pod(snapshot, made, options)
    made.metadata.uid = made.metadata.uid or _UID
    return Subject(made, pod, file=file, facts=warnings, exists=not file)


def _admit_pod(snapshot: Snapshot, pod: Pod, options: AdmissionOptions | None) -> tuple[str, ...]:
    """Change a pod as the API server's admission does; return its warnings as sentences."""
    warnings = admit_object(pod, snapshot.derive(ClusterLookups.from_snapshot), options).warnings
    return tuple(f"the API server would warn: {text}" for text in warnings)


# -- templates


def _waiting_pod(snapshot: Snapshot, owner: Resource) -> Pod | None:
    """Return a pod of a workload's current template that has no node yet; None if there is none."""
    current = owners_of(snapshot).current_replica_set(owner)
    for pod in owners_of(snapshot).pods_of(owner):
        maker = controller_of(pod.metadata)
        if needs_node(pod) and (current is None or maker is None or maker.name == current.metadata.name):
            return pod
    return None


def _subject_of_template(
    snapshot: Snapshot, owner: Resource, path: tuple[str, ...], options: AdmissionOptions | None, file: str
) -> Subject:
    template: Any = reduce(getattr, path, owner)
    pod = _pod_of_template(snapshot, owner, copy_of(template))
    warnings = _admit_pod(snapshot, pod, options)
    pod.metadata.uid = _UID
    fact = f"this is about the next pod that {owner.kind.lower()} {owner.metadata.name} would create"
    return Subject(pod, owner, path, file=file, facts=(fact, *warnings), exists=False)


def _pod_of_template(snapshot: Snapshot, owner: Resource, template: PodTemplateSpec) -> Pod:
    parent = owners_of(snapshot).current_replica_set(owner) or owner
    reference = reference_to(parent)
    if isinstance(owner, StatefulSet):
        taken = {pod.metadata.name for pod in snapshot.all(Pod) if pod.metadata.namespace == owner.metadata.namespace}
        free = (each for each in ordinals(owner) if f"{owner.metadata.name}-{each}" not in taken)
        pod = build_pod(owner, next(free, len(ordinals(owner))), template, "", reference)
        return structs.replace(pod, api_version="v1", kind="Pod")
    if isinstance(owner, DaemonSet):
        template.spec.tolerations = daemon_tolerations(template.spec)
    labels = dict(template.metadata.labels)
    if parent is not owner and (value := parent.metadata.labels.get("pod-template-hash")):
        labels["pod-template-hash"] = value
    meta = ObjectMeta(
        name=f"{parent.metadata.name}-new",
        namespace=owner.metadata.namespace,
        labels=labels,
        annotations=template.metadata.annotations,
        owner_references=[reference],
    )
    return Pod(api_version="v1", kind="Pod", metadata=meta, spec=template.spec)


# -- objects that controllers create along with a pod


def companion_objects(snapshot: Snapshot, subject: Subject) -> list[Resource]:
    """Return the claims that controllers create along with a new pod; also write device claims to the pod's status."""
    if subject.exists:
        return []
    pod = subject.pod
    facts = ClusterLookups(index_by_name(snapshot.all(PriorityClass)), index_by_name(snapshot.all(StorageClass)))
    claims, made = list(_ephemeral_claims(pod)), list[Resource]()
    if isinstance(subject.source, StatefulSet):
        numbered = build_claims(subject.source, parse_ordinal(pod), pod.metadata.owner_references[0])
        claims += [copy_of(each) for each in numbered]
    for claim in claims:
        if snapshot.find(PersistentVolumeClaim, claim.metadata.namespace, claim.metadata.name) is None:
            admit_object(claim, facts)
            made.append(claim)
    return [*made, *_device_claims(snapshot, pod)]


def _owned_metadata(pod: Pod, suffix: str, **fields: Any) -> ObjectMeta:
    """Return the metadata of an object that the pod owns, with the name `POD-suffix`."""
    meta = pod.metadata
    owner = OwnerReference(api_version="v1", kind="Pod", name=meta.name, uid=meta.uid, controller=True)
    return ObjectMeta(name=f"{meta.name}-{suffix}", namespace=meta.namespace, owner_references=[owner], **fields)


def _ephemeral_claims(pod: Pod) -> Iterator[PersistentVolumeClaim]:
    for volume in pod.spec.volumes:
        template = volume.ephemeral.volume_claim_template if volume.ephemeral is not None else None
        if template is not None:
            meta = _owned_metadata(pod, volume.name, labels=template.metadata.labels)
            yield PersistentVolumeClaim(metadata=meta, spec=copy_of(template.spec))


def _device_claims(snapshot: Snapshot, pod: Pod) -> Iterator[ResourceClaim]:
    for entry in pod.spec.resource_claims:
        wanted = entry.resource_claim_template_name
        template = snapshot.find(ResourceClaimTemplate, pod.metadata.namespace, wanted) if wanted else None
        if template is None:
            continue
        uid, annotations = f"{pod.metadata.uid}-{entry.name}", {POD_CLAIM_NAME: entry.name}
        meta = _owned_metadata(pod, entry.name, uid=uid, annotations=annotations)
        made = PodResourceClaimStatus(name=entry.name, resource_claim_name=meta.name)
        pod.status.resource_claim_statuses.append(made)
        yield ResourceClaim(metadata=meta, spec=copy_of(template.spec.spec))
