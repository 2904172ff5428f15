"""Load a snapshot into the scheduler's engine, with all objects that plugins read."""

from collections.abc import Iterable, Sequence

from mooring.advisor.snapshot.objects import Snapshot
from mooring.api.core_v1 import Namespace, Node, Pod
from mooring.api.meta_v1 import ObjectMeta
from mooring.api.states import has_ended
from mooring.scheduler.facade import OTHER_KINDS, Engine, ProfileSpec
from mooring.scheduler.framework import Registry, SchedulerFeatures

_NAME_LABEL = "kubernetes.io/metadata.name"


def engine(
    snapshot: Snapshot,
    *,
    profiles: Sequence[ProfileSpec] = (ProfileSpec(),),
    features: SchedulerFeatures | None = None,
    registry: Registry | None = None,
    seed: int = 0,
    workload: Iterable[Pod] = (),
) -> Engine:
    """Return a scheduler's engine with the nodes, pods and other objects of a snapshot, except pods without a node."""
    made = Engine(profiles, features=features, registry=registry, seed=seed, workload=workload)
    load_snapshot(made, snapshot)
    return made


def load_snapshot(made: Engine, snapshot: Snapshot) -> None:
    """Add all objects of a snapshot that scheduler plugins read to an engine."""
    for kind in OTHER_KINDS:
        for obj in snapshot.all(kind):
            made.put(obj)
    for namespace in _implied_namespaces(snapshot):
        made.put(namespace)
    for node in snapshot.all(Node):
        made.put(node)
    for pod in snapshot.all(Pod):
        if pod.spec.node_name:
            made.put(pod)
        elif pod.status.nominated_node_name and needs_node(pod):
            made.nominations.put(pod, pod.status.nominated_node_name)


def needs_node(pod: Pod) -> bool:
    """Return whether a pod still needs a node: it has none, is not terminating and has not ended."""
    return not pod.spec.node_name and pod.metadata.deletion_timestamp is None and not has_ended(pod)


def _implied_namespaces(snapshot: Snapshot) -> list[Namespace]:
    """Return the namespaces of pods that are missing in the snapshot, such as a dump of pods and nodes alone."""
    names = {pod.metadata.namespace for pod in snapshot.all(Pod)}
    names -= {namespace.metadata.name for namespace in snapshot.all(Namespace)}
    return [Namespace(metadata=ObjectMeta(name=name, labels={_NAME_LABEL: name})) for name in sorted(names)]
