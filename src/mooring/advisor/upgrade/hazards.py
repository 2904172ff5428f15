"""Find what a drain meets besides budgets: pods that are lost, local data, and kubelets of unsupported versions."""

from collections.abc import Iterable, Iterator

from mooring.advisor.releases import Crossing
from mooring.advisor.snapshot import Snapshot
from mooring.advisor.upgrade.results import LocalData, Skew
from mooring.api.core_v1 import Node, PersistentVolume, PersistentVolumeClaim, Pod
from mooring.api.states import controller_of, has_ended

_MIRROR = "kubernetes.io/config.mirror"
_HOSTNAME = "kubernetes.io/hostname"


def local_data(snapshot: Snapshot) -> Iterator[LocalData]:
    """Find pods that a drain refuses without a flag, loses for good, or can only return to their node."""
    for pod in snapshot.all(Pod):
        if not pod.spec.node_name or has_ended(pod) or _MIRROR in pod.metadata.annotations:
            continue
        owner = controller_of(pod.metadata)
        if owner is not None and owner.kind == "DaemonSet":
            continue
        name = f"{pod.metadata.namespace}/{pod.metadata.name}"
        node = pod.spec.node_name
        if owner is None:
            yield LocalData(
                name, pod.spec.node_name, "no controller makes it again: it is lost", "kubectl drain --force"
            )
        for volume in pod.spec.volumes:
            if volume.empty_dir is not None and volume.empty_dir.medium != "Memory":
                problem = f"its emptyDir volume {volume.name} is deleted"
                yield LocalData(name, node, problem, "kubectl drain --delete-emptydir-data")
            elif volume.host_path is not None:
                problem = f"its hostPath volume {volume.name} ({volume.host_path.path}) stays on the node"
                yield LocalData(name, node, problem)
            elif volume.persistent_volume_claim is not None and (
                claim := snapshot.find(
                    PersistentVolumeClaim, pod.metadata.namespace, volume.persistent_volume_claim.claim_name
                )
            ):
                held = snapshot.find(PersistentVolume, "", claim.spec.volume_name)
                if held is not None and _is_local(held):
                    problem = f"its volume {held.metadata.name} is on this node only: the pod waits for its return"
                    yield LocalData(name, node, problem)


def _is_local(volume: PersistentVolume) -> bool:
    affinity = volume.spec.node_affinity
    terms = affinity.required.node_selector_terms if affinity is not None and affinity.required is not None else []
    return any(each.key == _HOSTNAME for term in terms for each in term.match_expressions)


def kubelet_skew(nodes: Iterable[Node], crossing: Crossing) -> Iterator[Skew]:
    """Find kubelets that an API server of a release on the way does not support."""
    by_version: dict[str, list[str]] = {}
    for node in nodes:
        by_version.setdefault(node.status.node_info.kubelet_version, []).append(node.metadata.name)
    for release in crossing.releases:
        step = Crossing.between(str(crossing.start), release)
        for version, names in sorted(by_version.items()):
            if problem := step.kubelet_skew(version):
                yield Skew(release=release, kubelet=version, problem=problem, nodes=tuple(names))
