"""The ReplicaSets of a Deployment: which one has its template, how a new one is made, revisions and their history.

A ReplicaSet's name and its pods' label `pod-template-hash` come from a hash of the template. Revisions number the
templates in the order in which they were last rolled out; `kubectl rollout history` and `undo` read them.
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
"""Annotations of a Deployment that its ReplicaSets do not get."""
_HISTORY_LENGTH = 2000
_SAFE = "bcdfghjklmnpqrstvwxz2456789"
"""Letters of which no words are made, and no digits that look like letters."""


def template_hash(template: PodTemplateSpec, collisions: int | None) -> str:
    """A short name for a template; another one for each collision.

    The numbers are not those of Kubernetes, which hashes Go's own printout; nothing depends on them.
    """
    text = msgspec.json.encode(codec.to_tree(template), order="deterministic")
    return safe_encoded(str(fnv1a(text + collision_suffix(collisions))))


def collision_suffix(collisions: int | None) -> bytes:
    """Encode the low 32 bits of a collision count, which a user may have written; nothing where there is none."""
    return b"" if collisions is None else (collisions & 0xFFFFFFFF).to_bytes(4, "little")


def safe_encoded(text: str) -> str:
    """A text in letters that make no words, as Kubernetes does it.

    >>> safe_encoded("2467")
    '4685'
    """
    return "".join(_SAFE[ord(letter) % len(_SAFE)] for letter in text)


def fnv1a(data: bytes) -> int:
    """The FNV-1a hash of 32 bits."""
    value = 0x811C9DC5
    for byte in data:
        value = ((value ^ byte) * 0x01000193) & 0xFFFFFFFF
    return value


def same_template(left: PodTemplateSpec, right: PodTemplateSpec) -> bool:
    """Whether two templates make the same pods, the hash in their labels aside."""
    if left.spec != right.spec:
        return False
    return _plain(left) == _plain(right)


def _plain(template: PodTemplateSpec) -> ObjectMeta:
    labels = {key: value for key, value in template.metadata.labels.items() if key != HASH_LABEL}
    return structs.replace(template.metadata, labels=labels)


def find_new(deployment: Deployment, sets: Sequence[ReplicaSet]) -> ReplicaSet | None:
    """The ReplicaSet of the current template; the oldest, should there be several."""
    for each in pace.by_age(sets):
        if same_template(each.spec.template, deployment.spec.template):
            return each
    return None


def revision_of(obj: Deployment | ReplicaSet) -> int:
    """The number of the revision, of 64 bits; 0 where there is none that can be read."""
    text = obj.metadata.annotations.get(REVISION, "")
    number = int(text) if text.isascii() and text.isdigit() and len(text) < 20 else 0
    return number if number < 2**63 else 0


def max_revision(sets: Sequence[ReplicaSet]) -> int:
    return max(map(revision_of, sets), default=0)


def new_replica_set(
    deployment: Deployment, old: Sequence[ReplicaSet], owner: OwnerReference, collisions: int | None
) -> ReplicaSet:
    """The ReplicaSet that the current template needs."""
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
            replicas=pace.new_size(deployment, old, 0),
            min_ready_seconds=deployment.spec.min_ready_seconds,
            selector=structs.replace(selector, match_labels={**selector.match_labels, HASH_LABEL: hashed}),
            template=structs.replace(template, metadata=structs.replace(template.metadata, labels=labels)),
        ),
    )
    made.metadata.annotations = annotations(deployment, made, max_revision(old) + 1)
    return made


def annotations(deployment: Deployment, each: ReplicaSet, revision: int) -> dict[str, str]:
    """What stands on the ReplicaSet of the current template: the Deployment's annotations, its revision, its size."""
    before = each.metadata.annotations
    copied = {name: value for name, value in deployment.metadata.annotations.items() if name not in _NOT_COPIED}
    found = {**before, **copied, **size_annotations(deployment)}
    old_revision = revision_of(each)
    if old_revision < revision:
        found[REVISION] = str(revision)
        if REVISION in before:
            history = [*filter(None, before.get(REVISION_HISTORY, "").split(",")), before[REVISION]]
            while len(",".join(history)) > _HISTORY_LENGTH:
                history.pop(0)
            found[REVISION_HISTORY] = ",".join(history)
    return found


def size_annotations(deployment: Deployment) -> dict[str, str]:
    wanted = pace.replicas(deployment)
    return {pace.DESIRED: str(wanted), pace.MAXIMUM: str(wanted + pace.max_surge(deployment))}


def to_clean_up(deployment: Deployment, old: Sequence[ReplicaSet]) -> list[ReplicaSet]:
    """The ReplicaSets that the revision history has no room for: the oldest revisions, if nothing of them is left."""
    limit = deployment.spec.revision_history_limit
    if limit is None:
        return []
    alive = sorted((each for each in old if each.metadata.deletion_timestamp is None), key=revision_of)
    surplus = alive[: max(0, len(alive) - limit)]
    return [
        each
        for each in surplus
        if not each.status.replicas
        and not pace.replicas(each)
        and each.metadata.generation <= each.status.observed_generation
    ]
