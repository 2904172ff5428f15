"""Remedies for images that cannot be pulled: an image or a Secret that works elsewhere, or the revision before."""

import re
from collections.abc import Iterator, Mapping

from mooring.advisor.explain.causes.running import IMAGE_CAUSES
from mooring.advisor.explain.images import PulledImage, PulledImages, containers_of, registry_of
from mooring.advisor.explain.patches import kubectl
from mooring.advisor.explain.remedies.context import Context
from mooring.advisor.explain.remedies.remedy import BOUND, MODEST, SMALL
from mooring.advisor.explain.search import Candidate
from mooring.advisor.explain.subject import setting
from mooring.advisor.node_facts import similar
from mooring.advisor.snapshot.owners import owners_of
from mooring.api.apps_v1 import Deployment, ReplicaSet
from mooring.api.base import copy_of
from mooring.api.core_v1 import LocalObjectReference, Pod, PodSpec

_REFUSED = re.compile(r"denied|unauthori[sz]ed|authenticat|authori[sz]ation|forbidden|\b40[13]\b", re.IGNORECASE)
"""What registries and kubelets say if the pull lacks credentials."""


def pulls(context: Context) -> Iterator[Candidate]:
    """Suggest a pulled image that was probably meant, the Secret that other pods pull with, or the revision before."""
    known = context.snapshot.derived(PulledImages.of)
    found = {image: known.meant_by(image) for image in failing_images(context.pod)}
    meant = {image: each for image, each in found.items() if each is not None}
    are_misspellings = all(each.is_misspelling for each in meant.values())
    if are_misspellings:
        yield from _run_images(context, meant, BOUND)
    if "ErrImageNeverPull" in context.cause.text:
        caveat = "the registry must have the image"
        yield from context.edit("pull the image where it is missing (imagePullPolicy)", MODEST, _pull, caveat)
    yield from _secrets(context, known)
    yield from undo(context)
    if not are_misspellings:
        yield from _run_images(context, meant, MODEST)


def failing_images(pod: Pod) -> list[str]:
    """Return the images of containers that wait for an image."""
    statuses = (*pod.status.init_container_statuses, *pod.status.container_statuses)
    waiting = {
        each.name for each in statuses if each.state.waiting is not None and "Image" in each.state.waiting.reason
    }
    return list(dict.fromkeys(each.image for each in containers_of(pod.spec) if each.name in waiting))


def _run_images(context: Context, meant: Mapping[str, PulledImage], size: int) -> Iterator[Candidate]:
    """Suggest pulled images in place of all those that cannot be pulled."""
    words = [
        f"correct image {image} to {each.name}"
        if each.is_misspelling
        else f"run image {each.name}, which {each.place} has, instead of {image}"
        for image, each in meant.items()
    ]

    def edit(spec: PodSpec) -> bool:
        found = [each for each in containers_of(spec) if each.image in meant]
        for each in found:
            each.image = meant[each.image].name
        return bool(found)

    yield from context.edit(" and ".join(words), size, edit)


def _pull(spec: PodSpec) -> bool:
    found = [each for each in containers_of(spec) if each.image_pull_policy == "Never"]
    for each in found:
        each.image_pull_policy = "IfNotPresent"
    return bool(found)


def _secrets(context: Context, known: PulledImages) -> Iterator[Candidate]:
    """Suggest the Secret with which pods of the same namespace have pulled from the same registry."""
    if not is_refused(context.cause.text):
        return
    own = [each.name for each in context.pod.spec.image_pull_secrets]
    for image in failing_images(context.pod):
        there = known.secrets.get(registry_of(image), {}).get(context.namespace, {})
        for name, user in there.items():
            if name in own:
                continue
            old = next((each for each in own if similar(each, [name])), "")
            kept = [LocalObjectReference(name=each) for each in own if each != old]
            edit = setting(image_pull_secrets=[*kept, LocalObjectReference(name=name)])
            if old:
                yield from context.edit(f"correct the imagePullSecret {old} to {name}", BOUND, edit)
            else:
                summary = f"pull with the Secret {name} (imagePullSecrets), as pod {user.metadata.name} does"
                yield from context.edit(summary, SMALL, edit)


def is_refused(text: str) -> bool:
    """Return whether a message says that a registry refuses the pull for want of rights."""
    return bool(_REFUSED.search(text))


def undo(context: Context) -> Iterator[Candidate]:
    """Suggest `kubectl rollout undo` of a Deployment whose revision before runs or has run."""
    source = context.subject.source
    older = _working_revision(context, source) if isinstance(source, Deployment) else None
    if older is None:
        return
    template = copy_of(older.spec.template)
    template.metadata.labels.pop("pod-template-hash", None)
    meta = source.metadata
    command = kubectl("rollout", "undo", f"deployment/{meta.name}", namespace=meta.namespace)
    summary = f"roll deployment {meta.name} back to the revision before"
    yield from context.workload(summary, MODEST, setting(template=template), command)


def _working_revision(context: Context, source: Deployment) -> ReplicaSet | None:
    """Return the revision before the current one if it has available pods, or images that were all pulled before."""
    mine = owners_of(context.snapshot).replica_sets_of(source)
    ranked = sorted(mine, key=lambda each: int(each.metadata.annotations.get("deployment.kubernetes.io/revision", "0")))
    if len(ranked) < 2:
        return None
    older, newer = ({each.image for each in containers_of(found.spec.template.spec)} for found in ranked[-2:])
    known = context.snapshot.derived(PulledImages.of)
    is_pulled = context.cause.code in IMAGE_CAUSES and older != newer and all(map(known.place_of, older))
    return ranked[-2] if ranked[-2].status.available_replicas or is_pulled else None
