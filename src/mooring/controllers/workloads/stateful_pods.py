"""Build the pods and volume claims of a StatefulSet, and choose the pods that an update replaces. Pure functions.

Pod `web-2` has ordinal 2 of the StatefulSet `web`, however often it is recreated; its claim of the template `data` is
`data-web-2`.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

from msgspec import structs

from mooring.api.apps_v1 import StatefulSet
from mooring.api.core_v1 import PersistentVolumeClaim, PersistentVolumeClaimVolumeSource, Pod, PodTemplateSpec, Volume
from mooring.api.int_or_string import scaled_value
from mooring.api.meta_v1 import ObjectMeta, OwnerReference
from mooring.controllers.workloads.revisions import POD_LABEL

POD_NAME_LABEL = "statefulset.kubernetes.io/pod-name"
POD_INDEX_LABEL = "apps.kubernetes.io/pod-index"
P = TypeVar("P")
Predicate = Callable[[P], bool]


def start_ordinal(owner: StatefulSet) -> int:
    return owner.spec.ordinals.start if owner.spec.ordinals is not None else 0


def ordinals(owner: StatefulSet) -> range:
    """Return the ordinals of the pods that a StatefulSet should have."""
    start = start_ordinal(owner)
    return range(start, start + (1 if owner.spec.replicas is None else owner.spec.replicas))


def parse_ordinal(pod: Pod) -> int:
    """Return the ordinal in a pod's name, -1 if there is none."""
    number = pod.metadata.name.rpartition("-")[2]
    return int(number) if number.isascii() and number.isdigit() and len(number) <= 10 else -1


def pod_name(owner: StatefulSet, ordinal: int) -> str:
    return f"{owner.metadata.name}-{ordinal}"


def is_member(owner: StatefulSet, pod: Pod) -> bool:
    """Return whether a pod's name is the StatefulSet's with an ordinal: only such pods are adopted."""
    ordinal = parse_ordinal(pod)
    return ordinal >= 0 and pod.metadata.name == pod_name(owner, ordinal)


def identity_labels(owner: StatefulSet, ordinal: int) -> dict[str, str]:
    """Return the labels that hold the name and the ordinal of a StatefulSet's pod."""
    return {POD_NAME_LABEL: pod_name(owner, ordinal), POD_INDEX_LABEL: str(ordinal)}


def revision_of(pod: Pod) -> str:
    return pod.metadata.labels.get(POD_LABEL, "")


def build_pod(owner: StatefulSet, ordinal: int, template: PodTemplateSpec, revision: str, ref: OwnerReference) -> Pod:
    """Build a StatefulSet's pod with an ordinal from the template of `revision`; its claims become volumes."""
    name = pod_name(owner, ordinal)
    labels = {**template.metadata.labels, **identity_labels(owner, ordinal), POD_LABEL: revision}
    claims = {claim.metadata.name: claim_name(owner, claim, ordinal) for claim in owner.spec.volume_claim_templates}
    volumes = [
        Volume(name=volume, persistent_volume_claim=PersistentVolumeClaimVolumeSource(claim_name=claim))
        for volume, claim in claims.items()
    ]
    volumes += [volume for volume in template.spec.volumes if volume.name not in claims]
    spec = structs.replace(template.spec, hostname=name, subdomain=owner.spec.service_name, volumes=volumes)
    meta = ObjectMeta(
        name=name,
        namespace=owner.metadata.namespace,
        labels=labels,
        annotations=template.metadata.annotations,
        finalizers=template.metadata.finalizers,
        owner_references=[ref],
    )
    return Pod(metadata=meta, spec=spec)


def claim_name(owner: StatefulSet, template: PersistentVolumeClaim, ordinal: int) -> str:
    return f"{template.metadata.name}-{pod_name(owner, ordinal)}"


def build_claims(owner: StatefulSet, ordinal: int, ref: OwnerReference) -> list[PersistentVolumeClaim]:
    """Build the volume claims of the pod with an ordinal."""
    selected = owner.spec.selector.match_labels if owner.spec.selector is not None else {}
    refs = [structs.replace(ref, controller=None, block_owner_deletion=None)] if owns_claims(owner) else []
    made = []
    for template in owner.spec.volume_claim_templates:
        meta = ObjectMeta(
            name=claim_name(owner, template, ordinal),
            namespace=owner.metadata.namespace,
            labels={**template.metadata.labels, **selected},
            annotations=template.metadata.annotations,
            finalizers=template.metadata.finalizers,
            owner_references=refs,
        )
        made.append(PersistentVolumeClaim(metadata=meta, spec=template.spec))
    return made


def owns_claims(owner: StatefulSet) -> bool:
    """Return whether claims are deleted with the StatefulSet."""
    policy = owner.spec.persistent_volume_claim_retention_policy
    return policy is not None and policy.when_deleted == "Delete"


def find_claim_owners(
    owner: StatefulSet, ref: OwnerReference, pod: Pod, claim: PersistentVolumeClaim, *, condemned: bool
) -> list[OwnerReference]:
    """Return a claim's owners by the retention policy: the pod while scaling removes it, else the StatefulSet."""
    mine = {owner.metadata.uid, pod.metadata.uid}
    others = [each for each in claim.metadata.owner_references if each.uid not in mine]
    policy = owner.spec.persistent_volume_claim_retention_policy
    if condemned and policy is not None and policy.when_scaled == "Delete":
        own = OwnerReference(api_version="v1", kind="Pod", name=pod.metadata.name, uid=pod.metadata.uid)
        return [*others, own]
    if owns_claims(owner):
        return [*others, structs.replace(ref, controller=None, block_owner_deletion=None)]
    return others


# -- rolling updates, also for simulations: the caller says which pods are old and which work


def is_ordered(owner: StatefulSet) -> bool:
    """Return whether the policy is OrderedReady: pods are created and deleted one at a time."""
    return owner.spec.pod_management_policy != "Parallel"


def first_updated_ordinal(owner: StatefulSet) -> int:
    """Return the lowest ordinal that a rolling update replaces: the start ordinal plus the partition."""
    strategy = owner.spec.update_strategy
    partition = strategy.rolling_update.partition if strategy.rolling_update is not None else 0
    rolling = strategy.type == "RollingUpdate"
    return start_ordinal(owner) + ((partition or 0) if rolling else 0)


def find_pods_to_replace(
    owner: StatefulSet, pods: Mapping[int, P], *, is_outdated: Predicate[P], is_available: Predicate[P], at_once: bool
) -> list[P]:
    """Return outdated pods that a rolling update deletes now: one, or with `at_once` up to `maxUnavailable`."""
    reached = range(first_updated_ordinal(owner), ordinals(owner).stop)
    if not at_once:
        return _find_next_outdated((pods.get(number) for number in reversed(reached)), is_outdated, is_available)
    old = [pods[number] for number in sorted(pods, reverse=True) if number in reached and is_outdated(pods[number])]
    if not old:
        return old
    # Unavailable pods are replaced first: waiting for them could take for ever.
    idle = [pod for pod in old if not is_available(pod)]
    missing = len(ordinals(owner)) - sum(map(is_available, pods.values()))
    room = max(0, _max_unavailable(owner) - missing)
    return idle + [pod for pod in old if is_available(pod)][:room]


def _max_unavailable(owner: StatefulSet) -> int:
    pace = owner.spec.update_strategy.rolling_update
    most = pace.max_unavailable if pace is not None and pace.max_unavailable is not None else 1
    return max(1, scaled_value(most, len(ordinals(owner)), round_up=False))


def _find_next_outdated(
    downwards: Iterable[P | None], is_outdated: Predicate[P], is_available: Predicate[P]
) -> list[P]:
    """Return the highest-ordinal outdated pod if all above it are healthy, as Kubernetes before 1.37 chooses."""
    for pod in downwards:
        if pod is not None and is_outdated(pod):
            return [pod]
        if pod is None or not is_available(pod):
            break
    return []
