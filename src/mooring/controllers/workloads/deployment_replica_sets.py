"""The ReplicaSets of a Deployment: find the one of a template, build a new one, number revisions.

A ReplicaSet's name and the label `pod-template-hash` come from a hash of the template. Revisions number templates in
the order of their last rollout, for `kubectl rollout history` and `undo`.
"""

from collections.abc import Sequence

import msgspec
from msgspec import structs

from mooring.api import codec
from mooring.api.apps_v1 import Deployment, ReplicaSet, ReplicaSetSpec
from mooring.api.core_v1 import PodTemplateSpec
from mooring.api.meta_v1 import LabelSelector, ObjectMeta, OwnerReference
from mooring.controllers.workloads import deployment_pace as pace

HASH_LABEL = "pod-template-hash"
REVISION = "deployment.kubernetes.io/revision"
REVISION_HISTORY = "deployment.kubernetes.io/revision-history"
_NOT_COPIED = frozenset(
    {
        "kubectl.kubernetes.io/last-applied-configuration",
        REVISION,
        REVISION_HISTORY,
        pace.DESIRED,
        pace.MAXIMUM,
        "deprecated.deployment.rollback.to",
    }
)
_HISTORY_LENGTH = 2000
_SAFE = "bcdfghjklmnpqrstvwxz2456789"
"""The characters of name suffixes: letters that form no words, and digits that resemble no letters."""


def template_hash(template: PodTemplateSpec, collisions: int | None) -> str:
    """Return a short hash of a template and a collision count; kube-controller-manager would return another one."""
    text = msgspec.json.encode(codec.to_tree(template), order="deterministic")
    return safe_encode(str(fnv1a(text + collision_suffix(collisions))))


def collision_suffix(collisions: int | None) -> bytes:
    """Encode the low 32 bits of a collision count, which users may have written; nothing if there is none."""
    return b"" if collisions is None else (collisions & 0xFFFFFFFF).to_bytes(4, "little")


def safe_encode(text: str) -> str:
    """Encode a text in Kubernetes' safe alphabet.

    >>> safe_encode("2467")
    '68bc'
    """
    return "".join(_SAFE[ord(letter) % len(_SAFE)] for letter in text)


def fnv1a(data: bytes) -> int:
    """Return the 32-bit FNV-1a hash of bytes."""
    value = 0x811C9DC5
    for byte in data:
        value = ((value ^ byte) * 0x01000193) & 0xFFFFFFFF
    return value


def is_same_template(left: PodTemplateSpec, right: PodTemplateSpec) -> bool:
    """Return whether two templates are equal except for the hash label."""
    if left.spec != right.spec:
        return False
    return _metadata_without_hash(left) == _metadata_without_hash(right)


def _metadata_without_hash(template: PodTemplateSpec) -> ObjectMeta:
    labels = {key: value for key, value in template.metadata.labels.items() if key != HASH_LABEL}
    return structs.replace(template.metadata, labels=labels)


def find_current_replica_set(deployment: Deployment, sets: Sequence[ReplicaSet]) -> ReplicaSet | None:
    """Return the ReplicaSet of the current template; of several, the oldest."""
    for each in pace.sort_by_age(sets):
        if is_same_template(each.spec.template, deployment.spec.template):
            return each
    return None


def revision_of(obj: Deployment | ReplicaSet) -> int:
    """Return the number in an object's revision annotation; 0 if it is missing or invalid."""
    text = obj.metadata.annotations.get(REVISION, "")
    number = int(text) if text.isascii() and text.isdigit() and len(text) < 20 else 0
    return number if number < 2**63 else 0


def find_max_revision(sets: Sequence[ReplicaSet]) -> int:
    return max(map(revision_of, sets), default=0)


def build_replica_set(
    deployment: Deployment, old: Sequence[ReplicaSet], owner: OwnerReference, collisions: int | None
) -> ReplicaSet:
    """Build the ReplicaSet of the current template."""
    template = deployment.spec.template
    hashed = template_hash(template, collisions)
    labels = {**template.metadata.labels, HASH_LABEL: hashed}
    selector = deployment.spec.selector or LabelSelector()
    made = ReplicaSet(
        metadata=ObjectMeta(
            name=f"{deployment.metadata.name}-{hashed}",
            namespace=deployment.metadata.namespace,
            labels=labels,
            owner_references=[owner],
        ),
        spec=ReplicaSetSpec(
            replicas=pace.compute_new_size(deployment, old, 0),
            min_ready_seconds=deployment.spec.min_ready_seconds,
            selector=structs.replace(selector, match_labels={**selector.match_labels, HASH_LABEL: hashed}),
            template=structs.replace(template, metadata=structs.replace(template.metadata, labels=labels)),
        ),
    )
    made.metadata.annotations = compute_annotations(deployment, made, find_max_revision(old) + 1)
    return made


def compute_annotations(deployment: Deployment, each: ReplicaSet, revision: int) -> dict[str, str]:
    """Return the annotations for the current ReplicaSet `each`: the Deployment's, the revision and the wanted size."""
    before = each.metadata.annotations
    copied = {name: value for name, value in deployment.metadata.annotations.items() if name not in _NOT_COPIED}
    found = {**before, **copied, **compute_size_annotations(deployment)}
    old_revision = revision_of(each)
    if old_revision < revision:
        found[REVISION] = str(revision)
        if REVISION in before:
            history = [*filter(None, before.get(REVISION_HISTORY, "").split(",")), before[REVISION]]
            while len(",".join(history)) > _HISTORY_LENGTH:
                history.pop(0)
            found[REVISION_HISTORY] = ",".join(history)
    return found


def compute_size_annotations(deployment: Deployment) -> dict[str, str]:
    wanted = pace.wanted_replicas(deployment)
    return {pace.DESIRED: str(wanted), pace.MAXIMUM: str(wanted + pace.max_surge(deployment))}


def find_sets_to_delete(deployment: Deployment, old: Sequence[ReplicaSet]) -> list[ReplicaSet]:
    """Return the ReplicaSets beyond the revision history limit: the oldest, if they have no pods."""
    limit = deployment.spec.revision_history_limit
    if limit is None:
        return []
    alive = sorted((each for each in old if each.metadata.deletion_timestamp is None), key=revision_of)
    surplus = alive[: max(0, len(alive) - limit)]
    return [
        each
        for each in surplus
        if not each.status.replicas
        and not pace.wanted_replicas(each)
        and each.metadata.generation <= each.status.observed_generation
    ]
