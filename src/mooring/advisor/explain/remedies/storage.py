"""Remedies for rejections because of volumes: other users of a volume, missing claims and volumes, zones, limits."""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from mooring.advisor.explain import patches, storage
from mooring.advisor.explain.labels import labels_to_satisfy
from mooring.advisor.explain.remedies import remedy
from mooring.advisor.explain.view import Unmet, View, full_name
from mooring.advisor.node_facts import find_similar
from mooring.api import core_v1
from mooring.api.apps_v1 import StatefulSet
from mooring.api.base import copy_of
from mooring.api.meta_v1 import ObjectMeta
from mooring.api.quantity import parse
from mooring.api.storage_v1 import StorageClass
from mooring.constraints import node_selector
from mooring.scheduler import facade
from mooring.scheduler.framework import Status

_CAVEAT = "hostPath stands for the real kind of storage"
_SIZE = "1Gi"


def restriction_remedies(view: View, info: facade.NodeInfo, _status: Status) -> Iterator[remedy.Remedy]:
    yield from _create_missing_claims(view)
    held = storage.one_pod_holders(view)
    why = ", which uses the claim" if held else f", which has the disk on node {info.name}"
    yield from remedy.delete_pods(view, held or storage.disk_holders(view, info), why)


# -- claims and volumes


def binding_remedies(view: View, info: facade.NodeInfo, _status: Status) -> Iterator[remedy.Remedy]:
    if storage.missing_claim_names(view):
        yield from _create_missing_claims(view)
        return
    lost = [
        claim
        for claim in storage.volume_claims_of(view)
        if claim.spec.volume_name and storage.volume_of(view, claim) is None
    ]
    if lost:
        yield _create_volumes(
            [(claim, _build_volume(view, claim, claim.spec.volume_name)) for claim in lost], bind=True
        )
        return
    immediate = [
        claim
        for claim in storage.volume_claims_of(view)
        if not facade.is_bound(claim) and not _waits_for_consumer(view, claim)
    ]
    for claim in immediate:
        yield from _correct_class(view, claim)
    if immediate:
        yield _create_volumes([(claim, _build_volume(view, claim)) for claim in immediate], bind=True)
        return
    labels = _labels_to_reach(view, info)
    yield from remedy.label_node(view, info.node, labels, caveat="if the volume really can be used there")
    waiting = [claim for claim in storage.volume_claims_of(view) if not facade.is_bound(claim)]
    if waiting:
        yield _create_volumes([(claim, _build_volume(view, claim)) for claim in waiting], bind=False)


def _correct_class(view: View, claim: core_v1.PersistentVolumeClaim) -> Iterator[remedy.Remedy]:
    """Suggest another StorageClass for a claim whose class does not exist, or to create that class."""
    name = facade.class_of(claim)
    if view.object(StorageClass, name) is not None or (not name and claim.spec.storage_class_name is not None):
        return
    known = sorted(view.objects(StorageClass).values(), key=lambda each: each.metadata.name)
    usable = [each for each in known if each.volume_binding_mode == facade.WAIT_FOR_FIRST_CONSUMER]
    if not name:
        for each in usable[:1]:
            summary = f"give claim {full_name(claim)} the StorageClass {each.metadata.name}"
            edit = partial(_set_storage_class, each.metadata.name)
            yield remedy.with_object_change(remedy.Remedy("correct class", remedy.BOUND, summary), claim, edit)
        return
    meant = find_similar(name, [each.metadata.name for each in usable])
    volume = storage.ephemeral_volume_of(view.pod, claim.metadata.name)
    if meant and volume is not None:
        summary = f"correct the StorageClass of volume {volume} from {name} to {meant}"
        idea = remedy.Remedy("correct class", remedy.BOUND, summary, partial(_set_volume_class, volume, meant))
        yield replace(remedy.with_object_change(idea, claim, partial(_set_storage_class, meant)), changes=())
    elif meant and not storage.is_from_claim_template(view.subject.source, claim.metadata.name):
        summary = f"correct the StorageClass of claim {full_name(claim)} from {name} to {meant}"
        idea = remedy.Remedy("correct class", remedy.BOUND, summary, caveat=remedy.CLAIM_CAVEAT)
        yield remedy.with_object_change(idea, claim, partial(_set_storage_class, meant), is_immutable=True)
    for model in [each for each in usable if each.provisioner != facade.NO_PROVISIONER][:1]:
        made = copy_of(model)
        made.metadata = ObjectMeta(name=name)
        change = patches.create_change(made)
        summary = f"create StorageClass {name} like {model.metadata.name}"
        yield remedy.Remedy("create class", remedy.LARGE - 1, summary, put=(made,), changes=(change,))


def _set_storage_class(wanted: str, claim: core_v1.PersistentVolumeClaim) -> None:
    claim.spec.storage_class_name = wanted


def _set_volume_class(volume: str, wanted: str, spec: core_v1.PodSpec) -> bool:
    for each in spec.volumes:
        template = each.ephemeral.volume_claim_template if each.ephemeral is not None else None
        if each.name == volume and template is not None:
            template.spec.storage_class_name = wanted
            return True
    return False


def _waits_for_consumer(view: View, claim: core_v1.PersistentVolumeClaim) -> bool:
    found = view.object(StorageClass, facade.class_of(claim))
    return found is not None and found.volume_binding_mode == facade.WAIT_FOR_FIRST_CONSUMER


def _build_volume(view: View, claim: core_v1.PersistentVolumeClaim, name: str = "") -> core_v1.PersistentVolume:
    known = {volume.metadata.name for volume in view.objects(core_v1.PersistentVolume).values()}
    base = f"for-{claim.metadata.namespace}-{claim.metadata.name}"
    free = next(each for each in (base, *(f"{base}-{number}" for number in range(2, 1000))) if each not in known)
    return core_v1.PersistentVolume(
        metadata=ObjectMeta(name=name or free),
        spec=core_v1.PersistentVolumeSpec(
            capacity={facade.STORAGE: claim.spec.resources.requests.get(facade.STORAGE) or parse(_SIZE)},
            access_modes=list(claim.spec.access_modes) or ["ReadWriteOnce"],
            storage_class_name=facade.class_of(claim),
            volume_mode=claim.spec.volume_mode or "Filesystem",
            host_path=core_v1.HostPathVolumeSource(path=f"/mnt/{name or free}"),
            claim_ref=core_v1.ObjectReference(
                kind="PersistentVolumeClaim",
                api_version="v1",
                namespace=claim.metadata.namespace,
                name=claim.metadata.name,
            ),
        ),
    )


def _create_volumes(
    pairs: list[tuple[core_v1.PersistentVolumeClaim, core_v1.PersistentVolume]], *, bind: bool
) -> remedy.Remedy:
    volumes = [volume for _, volume in pairs]
    words = [
        f"a PersistentVolume of {volume.spec.capacity[facade.STORAGE]} for claim {full_name(claim)}"
        for claim, volume in pairs
    ]
    return remedy.Remedy(
        "create volume",
        remedy.LARGE * len(pairs),
        f"create {' and '.join(words)}",
        put=(*volumes, *(_bind_claim(claim, volume) for claim, volume in pairs if bind)),
        changes=tuple(patches.create_change(volume) for volume in volumes),
        caveat=_CAVEAT,
    )


def _bind_claim(
    claim: core_v1.PersistentVolumeClaim, volume: core_v1.PersistentVolume
) -> core_v1.PersistentVolumeClaim:
    after = copy_of(claim)
    after.spec.volume_name = volume.metadata.name
    after.metadata.annotations[facade.BIND_COMPLETED] = "yes"
    after.status.phase = "Bound"
    return after


def _labels_to_reach(view: View, info: facade.NodeInfo) -> dict[str, str | None]:
    wanted: dict[str, str | None] = {}
    for claim in storage.volume_claims_of(view):
        volume = storage.volume_of(view, claim)
        terms = storage.volume_terms(volume) if volume is not None else []
        labels = info.node.metadata.labels
        if volume is None or not terms or node_selector.volume_matches(volume, labels, view.features.constraints):
            continue
        unmet = [
            Unmet(0, entry.key, entry)
            for entry in terms[0].match_expressions
            if (condition := node_selector.compile_requirement(entry, view.features.constraints)) is None
            or not condition.matches(labels)
        ]
        wanted |= labels_to_satisfy(view, info.node, unmet) or {}
    return wanted


def _create_missing_claims(view: View) -> Iterator[remedy.Remedy]:
    names = storage.missing_claim_names(view)
    if not names:
        return
    claims = [_build_claim(view, name) for name in names]
    pairs = [(claim, _build_volume(view, claim)) for claim in claims if not _waits_for_consumer(view, claim)]
    words = [f"the claim {full_name(claim)} of {claim.spec.resources.requests[facade.STORAGE]}" for claim in claims]
    words += [f"a PersistentVolume for {full_name(claim)}" for claim, _ in pairs]
    bound = {id(claim): _bind_claim(claim, volume) for claim, volume in pairs}
    volumes = [volume for _, volume in pairs]
    yield remedy.Remedy(
        "create claim",
        (remedy.LARGE - 1) * len(claims) + remedy.LARGE * len(pairs),
        f"create {' and '.join(words)}",
        put=(*volumes, *(bound.get(id(claim), claim) for claim in claims)),
        changes=tuple(patches.create_change(obj) for obj in (*claims, *volumes)),
        caveat=_CAVEAT if pairs else "",
    )


def _build_claim(view: View, name: str) -> core_v1.PersistentVolumeClaim:
    """Return a claim to create: from the StatefulSet's claim template, or of 1Gi in a class that provisions volumes."""
    meta = ObjectMeta(name=name, namespace=view.namespace)
    source = view.subject.source
    for template in source.spec.volume_claim_templates if isinstance(source, StatefulSet) else ():
        if name.startswith(template.metadata.name):
            return core_v1.PersistentVolumeClaim(metadata=meta, spec=copy_of(template.spec))
    classes = [
        each.metadata.name
        for each in view.objects(StorageClass).values()
        if each.volume_binding_mode == facade.WAIT_FOR_FIRST_CONSUMER
        and each.provisioner not in ("", facade.NO_PROVISIONER)
    ]
    spec = core_v1.PersistentVolumeClaimSpec(
        access_modes=["ReadWriteOnce"],
        resources=core_v1.VolumeResourceRequirements(requests={facade.STORAGE: parse(_SIZE)}),
        storage_class_name=min(classes, default=""),
        volume_mode="Filesystem",
    )
    return core_v1.PersistentVolumeClaim(metadata=meta, spec=spec)


# -- zones and limits


def zone_remedies(view: View, info: facade.NodeInfo, _status: Status) -> Iterator[remedy.Remedy]:
    yield from _create_missing_claims(view)
    labels = info.node.metadata.labels
    wrong = [entry for entry in storage.volume_zones(view) if labels.get(entry[1]) not in entry[2]]
    wanted: dict[str, str | None] = {key: values[0] for _, key, values in wrong}
    yield from remedy.label_node(view, info.node, wanted, caveat="only if the node really is there")
    for volume, key, _ in wrong:
        word = f"{key}={labels[key]}" if key in labels else f"{key}-"
        command = patches.kubectl_command("label", "pv", volume.metadata.name, word, "--overwrite")
        summary = f"label volume {volume.metadata.name} with {word}"
        idea = remedy.Remedy("label volume", remedy.LARGE + 1, summary, caveat="only if the volume really is there")
        yield remedy.with_object_change(idea, volume, partial(_set_label, key, labels.get(key)), command)


def _set_label(key: str, value: str | None, volume: core_v1.PersistentVolume) -> None:
    volume.metadata.labels.pop(key)
    if value is not None:
        volume.metadata.labels[key] = value


def limit_remedies(view: View, info: facade.NodeInfo, _status: Status) -> Iterator[remedy.Remedy]:
    yield from _create_missing_claims(view)
    cluster = view.engine.cluster
    wanted = {each.driver for each in facade.attachments(view.pod, cluster, [])}
    users = [
        pod
        for pod in info.pods
        if pod.spec.volumes and any(each.driver in wanted for each in facade.attachments(pod, cluster, []))
    ]
    for pod in users[:2]:
        yield from remedy.delete_pods(view, [pod], f", which has such a volume on node {info.name}")
