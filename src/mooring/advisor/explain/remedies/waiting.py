"""Remedies for pods that wait for an image or for a claim: another image, Secret, revision, class or claim."""

import re
from collections.abc import Iterator, Mapping

from mooring.advisor.explain import patches, storage
from mooring.advisor.explain.causes.running import IMAGE_CAUSES, holders_of_claims
from mooring.advisor.explain.images import PulledImage, PulledImages, containers_of, registry_of
from mooring.advisor.explain.remedies.context import Context
from mooring.advisor.explain.remedies.remedy import BOUND, CLAIM_CAVEAT, LARGE, MODEST, SMALL
from mooring.advisor.explain.search import Candidate, build_pod_change
from mooring.advisor.explain.subject import set_fields, set_fields_in
from mooring.advisor.node_facts import find_nearest, find_similar
from mooring.advisor.snapshot.owners import owners_of
from mooring.api import core_v1
from mooring.api.apps_v1 import Deployment, DeploymentStrategy, ReplicaSet, StatefulSet
from mooring.api.base import copy_of
from mooring.api.meta_v1 import LabelSelector, ObjectMeta
from mooring.api.storage_v1 import StorageClass
from mooring.scheduler.facade import NO_PROVISIONER, claim_names, class_of

_HOSTNAME = "kubernetes.io/hostname"
_OWN_LABELS = ("pod-template-hash", "controller-revision-hash", "statefulset.kubernetes.io/pod-name")
_REFUSED = re.compile(r"denied|unauthori[sz]ed|authenticat|authori[sz]ation|forbidden|\b40[13]\b", re.IGNORECASE)
"""What registries and kubelets say if the pull lacks credentials."""


def image_remedies(context: Context) -> Iterator[Candidate]:
    """Suggest, for an image that cannot be pulled, the image meant, a pull Secret, or the Deployment's old revision."""
    known = context.snapshot.derive(PulledImages.from_snapshot)
    found = {image: known.find_meant_image(image) for image in failing_images(context.pod)}
    meant = {image: each for image, each in found.items() if each is not None}
    are_misspellings = all(each.is_misspelling for each in meant.values())
    if are_misspellings:
        yield from _run_images(context, meant, BOUND)
    if "ErrImageNeverPull" in context.cause.text:
        caveat = "the registry must have the image"
        edit = set_fields_in(_containers_never_pulled, image_pull_policy="IfNotPresent")
        yield from context.edit_pod("pull the image where it is missing (imagePullPolicy)", MODEST, edit, caveat)
    yield from _add_pull_secret(context, known)
    yield from undo_rollout(context)
    if not are_misspellings:
        yield from _run_images(context, meant, MODEST)


def failing_images(pod: core_v1.Pod) -> list[str]:
    """Return the images of a pod's containers that wait because their image cannot be pulled."""
    statuses = (*pod.status.init_container_statuses, *pod.status.container_statuses)
    waiting = {
        each.name for each in statuses if each.state.waiting is not None and "Image" in each.state.waiting.reason
    }
    return list(dict.fromkeys(each.image for each in containers_of(pod.spec) if each.name in waiting))


def _run_images(context: Context, meant: Mapping[str, PulledImage], size: int) -> Iterator[Candidate]:
    """Suggest to replace the images that cannot be pulled by `meant`, which nodes have already pulled."""
    words = [
        f"correct image {image} to {each.name}"
        if each.is_misspelling
        else f"run image {each.name}, which {each.place} has, instead of {image}"
        for image, each in meant.items()
    ]

    def edit(spec: core_v1.PodSpec) -> bool:
        found = [each for each in containers_of(spec) if each.image in meant]
        for each in found:
            each.image = meant[each.image].name
        return bool(found)

    yield from context.edit_pod(" and ".join(words), size, edit)


def _containers_never_pulled(spec: core_v1.PodSpec) -> list[core_v1.Container]:
    return [each for each in containers_of(spec) if each.image_pull_policy == "Never"]


def _add_pull_secret(context: Context, known: PulledImages) -> Iterator[Candidate]:
    """Suggest the Secret with which pods of the same namespace have pulled from the same registry."""
    if not is_pull_refused(context.cause.text):
        return
    own = [each.name for each in context.pod.spec.image_pull_secrets]
    for image in failing_images(context.pod):
        there = known.secrets.get(registry_of(image), {}).get(context.namespace, {})
        for name, user in there.items():
            if name in own:
                continue
            old = next((each for each in own if find_similar(each, [name])), "")
            kept = [core_v1.LocalObjectReference(name=each) for each in own if each != old]
            edit = set_fields(image_pull_secrets=[*kept, core_v1.LocalObjectReference(name=name)])
            if old:
                yield from context.edit_pod(f"correct the imagePullSecret {old} to {name}", BOUND, edit)
            else:
                summary = f"pull with the Secret {name} (imagePullSecrets), as pod {user.metadata.name} does"
                yield from context.edit_pod(summary, SMALL, edit)


def is_pull_refused(text: str) -> bool:
    """Return whether a message says that a registry refuses the pull for want of rights."""
    return bool(_REFUSED.search(text))


def undo_rollout(context: Context) -> Iterator[Candidate]:
    """Suggest `kubectl rollout undo` of a Deployment whose revision before runs or has run."""
    source = context.subject.source
    older = _working_revision(context, source) if isinstance(source, Deployment) else None
    if older is None:
        return
    template = copy_of(older.spec.template)
    template.metadata.labels.pop("pod-template-hash", None)
    meta = source.metadata
    command = patches.kubectl_command("rollout", "undo", f"deployment/{meta.name}", namespace=meta.namespace)
    summary = f"roll deployment {meta.name} back to the revision before"
    yield from context.edit_workload(summary, MODEST, set_fields(template=template), command)


def _working_revision(context: Context, source: Deployment) -> ReplicaSet | None:
    """Return the revision before the current one if it has available pods, or images that were all pulled before."""
    mine = owners_of(context.snapshot).replica_sets_of(source)
    ranked = sorted(mine, key=lambda each: int(each.metadata.annotations.get("deployment.kubernetes.io/revision", "0")))
    if len(ranked) < 2:
        return None
    older, newer = ({each.image for each in containers_of(found.spec.template.spec)} for found in ranked[-2:])
    known = context.snapshot.derive(PulledImages.from_snapshot)
    is_pulled = context.cause.code in IMAGE_CAUSES and older != newer and all(map(known.place_of, older))
    return ranked[-2] if ranked[-2].status.available_replicas or is_pulled else None


# -- claims


def provisioning_remedies(context: Context) -> Iterator[Candidate]:
    """Suggest, for a claim that gets no volume, the class's correct provisioner, or a class whose provisioner works."""
    working = context.snapshot.derive(storage.working_provisioners)
    for name in claim_names(context.pod):
        claim = context.snapshot.find(core_v1.PersistentVolumeClaim, context.namespace, name)
        found = context.snapshot.find(StorageClass, "", class_of(claim)) if claim is not None else None
        if claim is None or found is None or claim.spec.volume_name or found.provisioner in working:
            continue
        if meant := find_nearest(found.provisioner, working):
            after = copy_of(found)
            after.provisioner = meant
            summary = f"correct provisioner {found.provisioner} of StorageClass {found.metadata.name} to {meant}"
            yield context.build_candidate(summary, BOUND, [patches.recreate_change(found, after)], put=(after,))
        for other in context.snapshot.all(StorageClass):
            if other.provisioner in working and other.provisioner != NO_PROVISIONER:
                yield from _use_class(context, claim, found, other)


def _has_template(context: Context, claim: str) -> bool:
    return (
        storage.is_from_claim_template(context.subject.source, claim)
        or storage.ephemeral_volume_of(context.pod, claim) is not None
    )


def _use_class(
    context: Context, claim: core_v1.PersistentVolumeClaim, old: StorageClass, new: StorageClass
) -> Iterator[Candidate]:
    """Suggest another StorageClass for a claim; for a claim made from a template, to change the class itself."""
    name = claim.metadata.name
    if _has_template(context, name):
        after = copy_of(new)
        after.metadata = copy_of(old.metadata)
        summary = f"let StorageClass {old.metadata.name} make volumes as {new.metadata.name} does ({new.provisioner})"
        caveat = "claims of that class that have no volume yet get one, too"
        yield context.build_candidate(
            summary, BOUND, [patches.recreate_change(old, after)], put=(after,), caveat=caveat
        )
        return
    replaced = storage.without_binding(claim)
    replaced.spec.storage_class_name = new.metadata.name
    summary = f"give claim {context.namespace}/{name} the StorageClass {new.metadata.name}, whose provisioner works"
    change = patches.recreate_change(claim, replaced)
    yield context.build_candidate(summary, BOUND, [change], put=(replaced,), caveat=CLAIM_CAVEAT)


def claim_in_use_remedies(context: Context) -> Iterator[Candidate]:
    """Suggest, for a claim in use by other pods: to delete old pods first, to share their node, or a new claim."""
    for name, holders in holders_of_claims(context.snapshot, context.pod).items():
        claim = context.snapshot.find(core_v1.PersistentVolumeClaim, context.namespace, name)
        if not holders or claim is None:
            continue
        siblings = {each.metadata.name for each in context.subject.siblings}
        is_own = siblings.issuperset(each.metadata.name for each in holders)
        if is_own:
            yield from _replace_at_once(context)
        if "ReadWriteOncePod" not in claim.spec.access_modes:
            yield from _share_node(context, holders[0])
        if is_own:
            yield from context.scale_down(len(holders))
        else:
            yield from _use_own_claim(context, claim)


def _replace_at_once(context: Context) -> Iterator[Candidate]:
    source = context.subject.source
    if isinstance(source, Deployment) and source.spec.replicas in (None, 1) and source.spec.strategy.type != "Recreate":
        summary = f"let deployment {source.metadata.name} replace its pods at once (strategy: Recreate)"
        edit = set_fields(strategy=DeploymentStrategy(type="Recreate"))
        yield from context.edit_workload(summary, SMALL, edit, caveat="no pod runs while they are replaced")


def _share_node(context: Context, holder: core_v1.Pod) -> Iterator[Candidate]:
    labels = {key: value for key, value in holder.metadata.labels.items() if key not in _OWN_LABELS}
    term = core_v1.PodAffinityTerm(label_selector=LabelSelector(match_labels=labels), topology_key=_HOSTNAME)

    def edit(spec: core_v1.PodSpec) -> bool:
        affinity = spec.affinity or core_v1.Affinity()
        pods = affinity.pod_affinity or core_v1.PodAffinity()
        pods.required_during_scheduling_ignored_during_execution.append(term)
        affinity.pod_affinity, spec.affinity = pods, affinity
        return bool(labels)

    name = f"{holder.metadata.namespace}/{holder.metadata.name}"
    yield from context.edit_pod(f"put the pod on the node of {name}, which uses the claim (pod affinity)", MODEST, edit)


def _use_own_claim(context: Context, claim: core_v1.PersistentVolumeClaim) -> Iterator[Candidate]:
    """Suggest a new, empty claim like the one in use, for a workload that names the claim itself."""
    source, old = context.subject.source, claim.metadata.name
    if _has_template(context, old) or isinstance(source, StatefulSet):
        return
    made = storage.without_binding(claim)
    made.metadata = ObjectMeta(name=f"{old}-{source.metadata.name}", namespace=context.namespace)
    if context.snapshot.find(core_v1.PersistentVolumeClaim, context.namespace, made.metadata.name) is not None:
        return

    def claims_to_replace(spec: core_v1.PodSpec) -> list[core_v1.PersistentVolumeClaimVolumeSource]:
        return [each for each in storage.claim_sources(spec) if each.claim_name == old]

    after = context.subject.with_edited_pod(set_fields_in(claims_to_replace, claim_name=made.metadata.name))
    if after is not None:
        changes = [patches.create_change(made), build_pod_change(context.subject, after)]
        summary, caveat = f"give it a claim of its own, {made.metadata.name}", "the new volume is empty"
        yield context.build_candidate(summary, LARGE, changes, after, put=(made,), caveat=caveat)
