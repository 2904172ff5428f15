"""Remedies for claims that get no volume from their StorageClass, and for claims that another pod uses."""

from collections.abc import Iterator
from typing import Any

from mooring.advisor.explain import patches
from mooring.advisor.explain.causes.running import holders_of_claims
from mooring.advisor.explain.remedies.context import Context
from mooring.advisor.explain.remedies.remedy import BOUND, LARGE, MODEST, SMALL
from mooring.advisor.explain.search import Candidate, pod_change
from mooring.advisor.explain.storage import ephemeral_volume, is_numbered, without_binding, working_provisioners
from mooring.advisor.explain.subject import setting
from mooring.advisor.node_facts import nearest
from mooring.api.apps_v1 import Deployment, DeploymentStrategy, StatefulSet
from mooring.api.base import copy_of
from mooring.api.core_v1 import Affinity, PersistentVolumeClaim, Pod, PodAffinity, PodAffinityTerm, PodSpec
from mooring.api.meta_v1 import LabelSelector, ObjectMeta
from mooring.api.storage_v1 import StorageClass
from mooring.scheduler.facade import NO_PROVISIONER, claim_names, class_of

_HOSTNAME = "kubernetes.io/hostname"
_OWN_LABELS = ("pod-template-hash", "controller-revision-hash", "statefulset.kubernetes.io/pod-name")
_RECREATED = "a claim cannot be changed: it is deleted and created again"


def provisioning(context: Context) -> Iterator[Candidate]:
    """Suggest the provisioner that a StorageClass means, or a class whose provisioner makes volumes."""
    working = context.snapshot.derived(working_provisioners)
    for name in claim_names(context.pod):
        claim = context.snapshot.find(PersistentVolumeClaim, context.namespace, name)
        found = context.snapshot.find(StorageClass, "", class_of(claim)) if claim is not None else None
        if claim is None or found is None or claim.spec.volume_name or found.provisioner in working:
            continue
        if meant := nearest(found.provisioner, working):
            after = copy_of(found)
            after.provisioner = meant
            summary = f"correct provisioner {found.provisioner} of StorageClass {found.metadata.name} to {meant}"
            yield context.candidate(summary, BOUND, [patches.recreation(found, after)], put=(after,))
        for other in context.snapshot.all(StorageClass):
            if other.provisioner in working and other.provisioner != NO_PROVISIONER:
                yield from _use_class(context, claim, found, other)


def _has_template(context: Context, claim: str) -> bool:
    return is_numbered(context.subject.source, claim) or ephemeral_volume(context.pod, claim) is not None


def _use_class(
    context: Context, claim: PersistentVolumeClaim, old: StorageClass, new: StorageClass
) -> Iterator[Candidate]:
    """Suggest another class for a claim, or for all claims of the class if a workload makes the claims itself."""
    name = claim.metadata.name
    if _has_template(context, name):
        after = copy_of(new)
        after.metadata = copy_of(old.metadata)
        summary = f"let StorageClass {old.metadata.name} make volumes as {new.metadata.name} does ({new.provisioner})"
        caveat = "claims of that class that have no volume yet get one, too"
        yield context.candidate(summary, BOUND, [patches.recreation(old, after)], put=(after,), caveat=caveat)
        return
    replaced = without_binding(claim)
    replaced.spec.storage_class_name = new.metadata.name
    summary = f"give claim {context.namespace}/{name} the StorageClass {new.metadata.name}, whose provisioner works"
    change = patches.recreation(claim, replaced)
    yield context.candidate(summary, BOUND, [change], put=(replaced,), caveat=_RECREATED)


def in_use(context: Context) -> Iterator[Candidate]:
    """Suggest that old pods go first, that pods share the node, or a claim of its own, for a claim in use."""
    for name, holders in holders_of_claims(context.snapshot, context.pod).items():
        claim = context.snapshot.find(PersistentVolumeClaim, context.namespace, name)
        if not holders or claim is None:
            continue
        siblings = {each.metadata.name for each in context.subject.siblings}
        is_own = siblings.issuperset(each.metadata.name for each in holders)
        if is_own:
            yield from _replace_at_once(context)
        if "ReadWriteOncePod" not in claim.spec.access_modes:
            yield from _same_node(context, holders[0])
        if is_own:
            yield from _scale_to_holders(context, len(holders))
        else:
            yield from _own_claim(context, claim)


def _replace_at_once(context: Context) -> Iterator[Candidate]:
    source = context.subject.source
    if isinstance(source, Deployment) and source.spec.replicas in (None, 1) and source.spec.strategy.type != "Recreate":
        summary = f"let deployment {source.metadata.name} replace its pods at once (strategy: Recreate)"
        edit = setting(strategy=DeploymentStrategy(type="Recreate"))
        yield from context.workload(summary, SMALL, edit, caveat="no pod runs while they are replaced")


def _scale_to_holders(context: Context, number: int) -> Iterator[Candidate]:
    source: Any = context.subject.source
    if number < (getattr(source.spec, "replicas", None) or 1):
        yield from context.scale(number)


def _same_node(context: Context, holder: Pod) -> Iterator[Candidate]:
    labels = {key: value for key, value in holder.metadata.labels.items() if key not in _OWN_LABELS}
    term = PodAffinityTerm(label_selector=LabelSelector(match_labels=labels), topology_key=_HOSTNAME)

    def edit(spec: PodSpec) -> bool:
        affinity = spec.affinity or Affinity()
        pods = affinity.pod_affinity or PodAffinity()
        pods.required_during_scheduling_ignored_during_execution.append(term)
        affinity.pod_affinity, spec.affinity = pods, affinity
        return bool(labels)

    name = f"{holder.metadata.namespace}/{holder.metadata.name}"
    yield from context.edit(f"put the pod on the node of {name}, which uses the claim (pod affinity)", MODEST, edit)


def _own_claim(context: Context, claim: PersistentVolumeClaim) -> Iterator[Candidate]:
    """Suggest a new, empty claim like the one in use, for a workload that names the claim itself."""
    source, old = context.subject.source, claim.metadata.name
    if _has_template(context, old) or isinstance(source, StatefulSet):
        return
    made = without_binding(claim)
    made.metadata = ObjectMeta(name=f"{old}-{source.metadata.name}", namespace=context.namespace)
    if context.snapshot.find(PersistentVolumeClaim, context.namespace, made.metadata.name) is not None:
        return

    def edit(spec: PodSpec) -> bool:
        found = [each.persistent_volume_claim for each in spec.volumes if each.persistent_volume_claim is not None]
        for each in found:
            each.claim_name = made.metadata.name if each.claim_name == old else each.claim_name
        return bool(found)

    after = context.subject.edited(edit)
    if after is not None:
        changes = [patches.creation(made), pod_change(context.subject, after)]
        summary, caveat = f"give it a claim of its own, {made.metadata.name}", "the new volume is empty"
        yield context.candidate(summary, LARGE, changes, after, put=(made,), caveat=caveat)
