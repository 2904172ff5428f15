"""Causes for pods that have a node and do not run: waiting containers, volumes, and the state of the node."""

from collections.abc import Iterator
from datetime import datetime

from mooring.advisor.explain.images import PulledImages, containers_of
from mooring.advisor.explain.results import Cause
from mooring.advisor.explain.wording import did_you_mean, join_pod_names
from mooring.advisor.snapshot import Snapshot
from mooring.api import times
from mooring.api.core_v1 import ContainerStatus, Node, PersistentVolumeClaim, Pod
from mooring.api.states import has_ended
from mooring.api.storage_v1 import VolumeAttachment
from mooring.controllers.conditions import find_condition
from mooring.scheduler.facade import claim_names

_STARTING = ("", "ContainerCreating", "PodInitializing")
"""Waiting reasons of containers that are no problem for a while, such as ContainerCreating."""
_PATIENCE_SECONDS = 120.0
"""The number of seconds for which a pod may start before it counts as not running."""
IMAGE_CAUSES = ("ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "RegistryUnavailable")
"""The waiting reasons of containers whose image is not there."""
_PRESSURES = {
    "MemoryPressure": "has too little memory left",
    "DiskPressure": "has too little disk left",
    "PIDPressure": "has too few process ids left",
    "NetworkUnavailable": "has no network yet",
}


def not_running_cause(snapshot: Snapshot, pod: Pod, now: datetime) -> Cause | None:
    """Return the cause why a pod with a node does not run; None if it runs, has succeeded, or has only just started."""
    if pod.status.phase == "Failed":
        why = pod.status.message or failure_text(pod) or pod.status.reason or "its containers failed"
        head = f"{pod.status.reason}: " if pod.status.reason and pod.status.reason not in why else ""
        return Cause(pod.status.reason or "Failed", f"the pod failed: {head}{why}")
    node = snapshot.find(Node, "", pod.spec.node_name)
    if node is None and not snapshot.why_unread("nodes") and snapshot.all(Node):
        return node_gone_cause(pod.spec.node_name)
    if pod.status.phase == "Succeeded":
        return None
    if node is not None and (why := why_not_ready(node, now)):
        return Cause("NodeNotReady", why)
    if pod.metadata.deletion_timestamp is not None:
        return _deletion_cause(pod, now)
    waiting = next(_container_causes(snapshot, pod), None)
    if waiting is not None:
        return waiting
    if pod.status.phase == "Running":
        return _readiness_cause(pod, now)
    return _start_cause(snapshot, pod, now)


def node_gone_cause(name: str) -> Cause:
    """Return the cause for a pod whose node was deleted or never existed."""
    return Cause("NodeGone", f"node {name} does not exist (any more), and no scheduler tries the pod again")


def why_not_ready(node: Node, now: datetime) -> str:
    """Return a text saying why a node is not ready; empty if it is ready or reports no conditions."""
    name = node.metadata.name
    ready = find_condition(node.status.conditions, "Ready")
    if ready is None or ready.status == "True":
        return ""
    if ready.status == "Unknown":
        since = format_age(ready.last_heartbeat_time or ready.last_transition_time, now)
        return f"node {name} is not ready: its kubelet has not reported{f' for {since}' if since else ''}"
    return f"node {name} is not ready: {ready.message or ready.reason or 'its kubelet says so'}"


def pressure_texts(node: Node) -> list[str]:
    """Return a text for each pressure condition that is true on a node, such as memory pressure."""
    return [
        f"node {node.metadata.name} {_PRESSURES[each.type]}"
        for each in node.status.conditions
        if each.type in _PRESSURES and each.status == "True"
    ]


def format_age(text: str | None, now: datetime) -> str:
    """Format how long ago a timestamp was: `5 min`; empty if there is none."""
    seconds = seconds_since(text, now)
    if seconds is None:
        return ""
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= size:
            return f"{int(seconds // size)} {unit}"
    return f"{int(seconds)} s"


def seconds_since(text: str | None, now: datetime) -> float | None:
    try:
        return max((now - times.parse(text)).total_seconds(), 0.0) if text else None
    except times.TimeError:
        return None


def _container_causes(snapshot: Snapshot, pod: Pod) -> Iterator[Cause]:
    sidecars = {each.name for each in pod.spec.init_containers if each.restart_policy == "Always"}
    for status, is_init in _container_statuses(pod):
        word = "init container" if is_init else "container"
        waiting, ended = status.state.waiting, status.state.terminated
        if waiting is not None and waiting.reason not in _STARTING:
            yield _waiting_container_cause(snapshot, pod, word, status)
        elif is_init and ended is not None and ended.exit_code:
            yield Cause("InitContainerFailed", f"init container {status.name} failed: {_exit_text(status)}")
        elif is_init and status.state.running is not None and not status.started and status.name not in sidecars:
            yield Cause("InitContainerRuns", f"init container {status.name} still runs; the others wait for it")


def _waiting_container_cause(snapshot: Snapshot, pod: Pod, word: str, status: ContainerStatus) -> Cause:
    waiting = status.state.waiting
    assert waiting is not None  # noqa: S101 - the caller has looked
    why = f": {waiting.message}" if waiting.message else ""
    if waiting.reason in IMAGE_CAUSES:
        image = next((each.image for each in containers_of(pod.spec) if each.name == status.name), status.image)
        known = snapshot.derive(PulledImages.from_snapshot)
        meant = known.find_meant_image(image)
        hint = did_you_mean(meant.name) if meant is not None and meant.is_misspelling else ""
        if place := known.place_of(image):
            hint = f"; {place} has it, so that its name is right"
        text = f"the image {image} of {word} {status.name} cannot be pulled ({waiting.reason})"
        return Cause(waiting.reason, f"{text}{why.rstrip('.')}{hint}")
    if waiting.reason == "CrashLoopBackOff":
        restarts = f"restarted {status.restart_count} times"
        return Cause(waiting.reason, f"{word} {status.name} crashes again and again, {restarts}: {_exit_text(status)}")
    if waiting.reason == "CreateContainerConfigError":
        text = f"{word} {status.name} cannot be created: {waiting.message or 'a reference is missing'}"
        return Cause(waiting.reason, text)
    return Cause(waiting.reason, f"{word} {status.name} waits: {waiting.reason}{why}")


def _container_statuses(pod: Pod) -> Iterator[tuple[ContainerStatus, bool]]:
    yield from ((each, True) for each in pod.status.init_container_statuses)
    yield from ((each, False) for each in pod.status.container_statuses)


def _exit_text(status: ContainerStatus) -> str:
    ended = status.state.terminated or status.last_state.terminated
    if ended is None:
        return "how it ended is not known"
    if ended.reason == "OOMKilled":
        return "it was killed for using more memory than its limit (OOMKilled)"
    why = f": {ended.message.strip()}" if ended.message.strip() else ""
    return f"exit code {ended.exit_code}{f' ({ended.reason})' if ended.reason not in ('', 'Error') else ''}{why}"


def failure_text(pod: Pod) -> str:
    """Return the first failed container of a pod and its exit code as text; empty if none has failed."""
    for status, is_init in _container_statuses(pod):
        if status.state.terminated is not None and status.state.terminated.exit_code:
            return f"{'init ' if is_init else ''}container {status.name}: {_exit_text(status)}"
    return ""


def _readiness_cause(pod: Pod, now: datetime) -> Cause | None:
    ready = find_condition(pod.status.conditions, "Ready")
    if ready is None or ready.status == "True":
        return None
    if (seconds_since(ready.last_transition_time, now) or 0.0) < _PATIENCE_SECONDS:
        return None
    met = {each.type for each in pod.status.conditions if each.status == "True"}
    held = [each.condition_type for each in pod.spec.readiness_gates if each.condition_type not in met]
    if held:
        text = f"the pod runs and is not ready: its readiness gate {', '.join(held)} is not true"
        return Cause("ReadinessGate", text)
    failing = [each.name for each in pod.status.container_statuses if not each.ready]
    if not failing:
        return None
    text = f"the pod runs and is not ready: the readiness probe of container {', '.join(failing)} fails"
    return Cause("NotReady", text)


def _deletion_cause(pod: Pod, now: datetime) -> Cause | None:
    late = (seconds_since(pod.metadata.deletion_timestamp, now) or 0.0) - _PATIENCE_SECONDS
    if late < 0:
        return None
    names = ", ".join(pod.metadata.finalizers)
    held = f"its finalizers {names} hold it" if names else "its node does not confirm it"
    since = format_age(pod.metadata.deletion_timestamp, now)
    return Cause("StuckTerminating", f"the pod should be gone since {since}: {held}")


def _claim_in_use_cause(snapshot: Snapshot, pod: Pod) -> Cause | None:
    """Return the cause if a pod on another node uses a ReadWriteOnce claim of the pod, else None."""
    for claim, holders in holders_of_claims(snapshot, pod).items():
        elsewhere = [each for each in holders if each.spec.node_name != pod.spec.node_name]
        if elsewhere:
            text = (
                f"claim {claim} may be used on one node only (ReadWriteOnce),"
                f" and {join_pod_names(elsewhere)} uses it on"
            )
            return Cause("ClaimInUse", f"{text} node {elsewhere[0].spec.node_name}")
    return None


def holders_of_claims(snapshot: Snapshot, pod: Pod) -> dict[str, list[Pod]]:
    """Return by claim name the other placed pods that use it, for claims of the pod that one node or pod may use."""
    space, found = pod.metadata.namespace, {}
    names = list(claim_names(pod))
    for name in names:
        claim = snapshot.find(PersistentVolumeClaim, space, name)
        if claim is not None and {"ReadWriteOnce", "ReadWriteOncePod"}.issuperset(claim.spec.access_modes):
            found[name] = [
                other
                for other in snapshot.all(Pod)
                if other.metadata.namespace == space
                and other.metadata.name != pod.metadata.name
                and other.spec.node_name
                and not has_ended(other)
                and name in claim_names(other)
            ]
    return found


def _start_cause(snapshot: Snapshot, pod: Pod, now: datetime) -> Cause | None:
    claims = {each.persistent_volume_claim.claim_name for each in pod.spec.volumes if each.persistent_volume_claim}
    for attachment in snapshot.all(VolumeAttachment) if claims else ():
        error = attachment.status.attach_error
        if attachment.spec.node_name == pod.spec.node_name and not attachment.status.attached and error is not None:
            name = attachment.spec.source.persistent_volume_name or "of the pod"
            text = f"volume {name} cannot be attached to node {pod.spec.node_name}: {error.message}"
            return Cause("VolumeNotAttached", text)
    bound = find_condition(pod.status.conditions, "PodScheduled")
    is_bound = bound is not None and bound.status == "True"
    since = bound.last_transition_time if bound is not None and is_bound else pod.metadata.creation_timestamp
    if (seconds_since(since, now) or 0.0) < _PATIENCE_SECONDS:
        return None
    if (held := _claim_in_use_cause(snapshot, pod)) is not None:
        return held
    waits = next(
        (each.state.waiting.reason for each, _ in _container_statuses(pod) if each.state.waiting is not None), ""
    )
    what = "its kubelet has not started it" if not waits else f"its containers are still being created ({waits})"
    return Cause("NotStarted", f"the pod has node {pod.spec.node_name} since {format_age(since, now)}, and {what}")
