"""Steps to check by hand, for causes that no change of objects in the cluster is known to remove: nothing was tried."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence

import msgspec

from mooring.advisor.explain.causes.running import IMAGE_CAUSES
from mooring.advisor.explain.images import PulledImages, registry_of
from mooring.advisor.explain.patches import kubectl_command
from mooring.advisor.explain.remedies.waiting import failing_images, is_pull_refused
from mooring.advisor.explain.results import Cause
from mooring.advisor.explain.subject import Subject
from mooring.advisor.explain.wording import join_names
from mooring.advisor.node_facts import find_similar
from mooring.advisor.snapshot import Snapshot
from mooring.api import codec
from mooring.api.apps_v1 import DaemonSet, Deployment, StatefulSet
from mooring.api.core_v1 import Node, PersistentVolumeClaim
from mooring.api.resource_v1 import DeviceClass, ResourceSlice
from mooring.api.storage_v1 import StorageClass
from mooring.constraints import node_selector
from mooring.constraints.options import ConstraintOptions
from mooring.scheduler.facade import claim_names, class_of

_DRIVER = re.compile(r"of driver (\S+) exists")
_INSTALLERS: tuple[type[DaemonSet | Deployment | StatefulSet], ...] = (DaemonSet, Deployment, StatefulSet)


def steps_to_check(snapshot: Snapshot, subject: Subject, cause: Cause) -> list[str]:
    """Return what a user should check for a cause, as sentences; none for causes that need no check by hand."""
    found = _BY_CAUSE.get(cause.code)
    return list(found(snapshot, subject, cause)) if found is not None else []


def _image_checks(snapshot: Snapshot, subject: Subject, cause: Cause) -> Iterator[str]:
    known, space = snapshot.derive(PulledImages.from_snapshot), subject.pod.metadata.namespace
    for image in failing_images(subject.pod):
        yield f"does the registry have the image? `docker pull {image}` on a machine outside of the cluster says so"
        registry = registry_of(image)
        own = [each.name for each in subject.pod.spec.image_pull_secrets]
        secrets = known.secrets.get(registry, {})
        others = [(name, where) for where, named in secrets.items() for name in named if name not in own]
        if others and space not in secrets:
            name, where = others[0]
            copy = f"kubectl get secret -n {where} {name} -o yaml | sed '/namespace:/d; /resourceVersion:/d; /uid:/d'"
            yield (
                f"pods of namespace {where} pull from {registry} with the Secret {name}, which pods of {space} cannot"
                f" use: `{copy} | kubectl create -n {space} -f -` copies it; then name it in imagePullSecrets"
            )
        elif own:
            yield f"does Secret {join_names(own)} of namespace {space} exist, and is it for {registry}?"
        elif is_pull_refused(cause.text):
            secret = f"kubectl create secret docker-registry regcred -n {space} --docker-server={registry}"
            yield f"the pod names no imagePullSecrets: `{secret} …` creates one for {registry}"
        else:
            yield f"can node {subject.pod.spec.node_name} reach {registry}? Other pods that pull from it say so"


def _driver_checks(snapshot: Snapshot, _subject: Subject, cause: Cause) -> Iterator[str]:
    named = _DRIVER.search(cause.text)
    drivers = sorted({each.spec.driver for each in snapshot.all(ResourceSlice)})
    yield from _installer_checks(snapshot, named[1] if named is not None else "", "the DRA driver")
    if drivers:
        classes = [each.metadata.name for each in snapshot.all(DeviceClass)]
        yield f"drivers with devices here are {join_names(drivers)}, and DeviceClasses are {join_names(classes)}"


def _provisioner_checks(snapshot: Snapshot, subject: Subject, _cause: Cause) -> Iterator[str]:
    for name in claim_names(subject.pod):
        claim = snapshot.find(PersistentVolumeClaim, subject.pod.metadata.namespace, name)
        found = snapshot.find(StorageClass, "", class_of(claim)) if claim is not None else None
        if claim is not None and found is not None and not claim.spec.volume_name:
            yield from _installer_checks(snapshot, found.provisioner, "the provisioner")
            describe = kubectl_command("describe", "pvc", name, namespace=claim.metadata.namespace)
            yield f"`{describe}` shows what the provisioner reports about the claim"
            return


def _installer_checks(snapshot: Snapshot, name: str, what: str) -> Iterator[str]:
    """Yield what to check about the workload that seems to run the driver `name`: is it installed, placed, ready?"""
    found = _find_workload_of_driver(snapshot, name)
    if found is None:
        yield f"is {what} {name} installed? No workload of the cluster names it" if name else f"is {what} installed?"
        return
    kind, space = found.kind.lower(), found.metadata.namespace
    text = f"{kind} {space}/{found.metadata.name} seems to run {what}"
    explain = f"`mooring explain {kind} {space}/{found.metadata.name}`"
    selector = found.spec.template.spec.node_selector
    required = node_selector.required_affinity(found.spec.template.spec, ConstraintOptions())
    nodes = [each for each in snapshot.all(Node) if required.matches(each.metadata.labels, each.metadata.name)]
    ready = found.status.number_ready if isinstance(found, DaemonSet) else found.status.ready_replicas
    if isinstance(found, DaemonSet) and not nodes:
        words = " ".join(f"{key}={value}" for key, value in selector.items())
        label = f"; `kubectl label node NODE {words}` brings it to a node that has the devices" if words else ""
        yield f"{text}, and its node selector or affinity matches no node{label}"
    elif not ready:
        yield f"{text}, and no pod of it is ready: {explain} says why"
    else:
        yield f"{text}, and {ready} of its pods are ready: `kubectl logs -n {space} {kind}/{found.metadata.name}`"


def _find_workload_of_driver(snapshot: Snapshot, name: str) -> DaemonSet | Deployment | StatefulSet | None:
    """Return the workload whose template mentions a driver's name, or whose own name is like it; None if none does."""
    every = snapshot.derive(_workloads_with_templates)
    meant = find_similar(name.replace(".", "-"), [each.metadata.name for each, _ in every])
    mentioned = (each for each, text in every if name and name in text)
    return next(mentioned, None) or next((each for each, _ in every if each.metadata.name == meant), None)


def _workloads_with_templates(snapshot: Snapshot) -> Sequence[tuple[DaemonSet | Deployment | StatefulSet, str]]:
    """Return the workloads that may run a driver, each with its pod template as text."""
    every = [each for kind in _INSTALLERS for each in snapshot.all(kind)]
    return [(each, msgspec.json.encode(codec.to_tree(each.spec.template)).decode()) for each in every]


_BY_CAUSE: Mapping[str, Callable[[Snapshot, Subject, Cause], Iterator[str]]] = {
    **dict.fromkeys(IMAGE_CAUSES, _image_checks),
    "NoResourceSlice": _driver_checks,
    "NotProvisioned": _provisioner_checks,
}
