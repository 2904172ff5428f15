"""Record a trace from a live cluster, Mooring or Kubernetes.

Informers deliver nodes and pods, and catch up after a broken connection. A stopped recording continues in the same
file: the file's state is compared with the cluster's. Only pods and nodes are read.
"""

import asyncio
import re
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from hashlib import blake2b
from pathlib import Path
from typing import IO, Any, cast

from msgspec import structs

from mooring.advisor.simulate.traces import own
from mooring.advisor.simulate.traces.events import (
    ClusterTracker,
    Complaints,
    Event,
    NodeArrival,
    NodeDeparture,
    PodArrival,
    PodBinding,
    PodDeparture,
    TraceError,
)
from mooring.api import codec, times
from mooring.api.core_v1 import Node, NodeSpec, NodeStatus, Pod, PodStatus
from mooring.api.meta_v1 import ObjectMeta
from mooring.api.states import has_ended
from mooring.client import Client, Informers

_PIECE = 65536


class Recorder:
    """Converts the changes that informers report to trace events, and writes the events."""

    def __init__(
        self, write: Callable[[Iterable[Event]], None], now: Callable[[], float], pseudonyms: "Pseudonyms | None" = None
    ) -> None:
        self._write, self._now, self._pseudonyms = write, now, pseudonyms
        self._tracker = ClusterTracker(lambda pod: pod)
        self.events = 0

    def restore_state(self, events: Iterable[Event]) -> None:
        """Restore the set of existing pods and nodes from the events that the file of a recording already has."""
        pods, nodes = self._tracker.pods, self._tracker.nodes
        for event in events:
            match event:
                case PodArrival():
                    pods[event.name] = event.pod.spec.node_name
                case PodBinding(name=name, node=node):
                    pods[name] = node
                case PodDeparture(name=name):
                    pods.pop(name, None)
                case NodeArrival(node=found):
                    nodes[found.metadata.name] = None
                case NodeDeparture(name=name):
                    nodes.pop(name, None)

    def is_of_another_cluster(self, nodes: Iterable[Node]) -> bool:
        """Return whether the recording continues an earlier one that has none of the given nodes."""
        known = self._tracker.nodes
        return bool(known) and all(self._name(node.metadata.name, "node") not in known for node in nodes)

    def remove_missing(self, nodes: Iterable[Node], pods: Iterable[Pod]) -> None:
        """Write removals of the pods and nodes that the file contains and the fully listed cluster does not."""
        there = {self._name(node.metadata.name, "node") for node in nodes}
        for name in [name for name in self._tracker.nodes if name not in there]:
            self._record(self._tracker.remove_node(self._now(), name))
        living = {self._pod_name(pod) for pod in pods if not has_ended(pod)}
        for name in [name for name in self._tracker.pods if name not in living]:
            self._record(self._tracker.remove_pod(self._now(), name))

    def record_node(self, node: Node) -> None:
        """Write an event for a node that was added or changed; none if scheduling reads nothing of the change."""
        self._record(self._tracker.put(self._now(), self._recorded_node(node)))

    def record_node_gone(self, node: Node) -> None:
        self._record(self._tracker.remove_node(self._now(), self._name(node.metadata.name, "node")))

    def record_pod(self, pod: Pod) -> None:
        """Write events if the pod was created, bound or has ended; none for other changes."""
        if has_ended(pod):
            self.record_pod_gone(pod)
        else:
            self._record(self._tracker.put(self._now(), self._recorded_pod(pod)))

    def record_pod_gone(self, pod: Pod) -> None:
        self._record(self._tracker.remove_pod(self._now(), self._pod_name(pod)))

    def _record(self, events: Iterable[Event]) -> None:
        found = tuple(events)
        self.events += len(found)
        if found:
            self._write(found)

    def _name(self, name: str, what: str) -> str:
        return name if self._pseudonyms is None else self._pseudonyms.name(name, what)

    def _pod_name(self, pod: Pod) -> str:
        meta = pod.metadata
        return f"{self._name(meta.namespace, 'namespace')}/{self._name(meta.name, 'pod')}"

    def _recorded_pod(self, pod: Pod) -> Pod:
        meta = pod.metadata
        kept = ObjectMeta(
            name=meta.name,
            namespace=meta.namespace,
            labels=meta.labels,
            annotations=meta.annotations,
            owner_references=meta.owner_references,
        )
        plain = structs.replace(pod, metadata=kept, status=PodStatus(phase="Pending"))
        return plain if self._pseudonyms is None else self._pseudonyms.pod(plain)

    def _recorded_node(self, node: Node) -> Node:
        meta, status = node.metadata, node.status
        plain = structs.replace(
            node,
            metadata=ObjectMeta(name=meta.name, labels=meta.labels, annotations={}),
            status=NodeStatus(capacity=status.capacity, allocatable=status.allocatable),
        )
        return plain if self._pseudonyms is None else self._pseudonyms.node(plain)


async def record_cluster(client: Client, recorder: Recorder, stop: asyncio.Event) -> None:
    """Record the pods and nodes of a live cluster until `stop` is set. Raise TraceError for another cluster's file."""
    if recorder.is_of_another_cluster((await client.list(Node)).items):
        raise TraceError(
            "none of its nodes is there: it is of another cluster, or was anonymised with another --secret"
        )
    informers = Informers(client)
    nodes, pods = informers.of(Node), informers.of(Pod)
    nodes.add_handler(
        added=recorder.record_node, updated=lambda _, new: recorder.record_node(new), deleted=recorder.record_node_gone
    )
    async with informers:  # nodes first, so that no pod is on a node that has not come
        await nodes.wait_for_sync()
        pods.add_handler(
            added=recorder.record_pod, updated=lambda _, new: recorder.record_pod(new), deleted=recorder.record_pod_gone
        )
        await pods.wait_for_sync()
        recorder.remove_missing(nodes.objects(), pods.objects())
        await stop.wait()


class TraceFile:
    """The CSV file of a recording; an existing file is appended to, after removing an incomplete last line."""

    def __init__(self, path: Path, now: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self._path, self._clock = path, now
        self.earlier: list[Event] = []
        """The events that the file already has."""
        self._start = now()
        is_new = not path.exists() or not path.stat().st_size
        if not is_new:
            self._start = _read_start(path)
            _cut_last_line(path)
            self.earlier = list(own.read_events(path, Complaints(skips=True)))
        self._stream: IO[str] = path.open("a", encoding="utf-8", newline="")
        self._writer = own.TraceWriter(self._stream, header=is_new)
        if is_new:
            self._writer.begin(times.to_microseconds(self._start))

    def now(self) -> float:
        """Return the seconds since the start of the recording."""
        return max((self._clock() - self._start).total_seconds(), 0.0)

    def write(self, events: Iterable[Event]) -> None:
        self._writer.write(events)
        self._stream.flush()

    def close(self) -> None:
        self._stream.close()


def _read_start(path: Path) -> datetime:
    with path.open(encoding="utf-8", newline="") as stream:
        found = own.read_start_time(stream)
    if found is None:
        raise TraceError(f"{path}: not a recording of Mooring's: name a new file")
    return found


def _cut_last_line(path: Path) -> None:
    with path.open("rb+") as stream:
        end = stream.seek(0, 2)
        while end:
            start = max(0, end - _PIECE)
            stream.seek(start)
            found = stream.read(end - start).rfind(b"\n")
            if found >= 0:
                stream.truncate(start + found + 1)
                return
            end = start


_KUBERNETES = re.compile(r"([a-z0-9.-]+\.)?(kubernetes|k8s)\.io/.*")
_NUMBER = re.compile(r"v?[0-9]+(\.[0-9]+)*")
_OPEN = frozenset({"true", "false", ""})
_POD_SPEC = (
    "nodeSelector",
    "affinity",
    "tolerations",
    "topologySpreadConstraints",
    "priority",
    "preemptionPolicy",
    "overhead",
    "nodeName",
    "resources",
)


class Pseudonyms:
    """Replaces names, labels and images of recorded objects by keyed hashes."""

    def __init__(self, secret: bytes) -> None:
        self._secret = secret

    def name(self, text: str, what: str) -> str:
        """Return a pseudonym such as `pod-3f2a9c1b0d4e`."""
        if not text or text == "default":
            return text
        return f"{what}-{blake2b(text.encode(), key=self._secret, digest_size=6).hexdigest()}"

    def pod(self, pod: Pod) -> Pod:
        tree = cast("dict[str, Any]", codec.to_tree(pod))
        spec, meta = tree.get("spec", {}), tree.get("metadata", {})
        kept = {name: self._anonymize(spec[name], name) for name in _POD_SPEC if name in spec}
        for group in ("containers", "initContainers"):
            kept[group] = [self._anonymize_container(each, index) for index, each in enumerate(spec.get(group, []))]
        kept["schedulerName"] = spec.get("schedulerName", "")
        owners = [
            {**each, "name": self.name(each["name"], "owner"), "uid": self.name(each.get("uid", ""), "uid")}
            for each in meta.get("ownerReferences", [])
        ]
        metadata = {
            "name": self.name(meta["name"], "pod"),
            "namespace": self.name(meta["namespace"], "namespace"),
            "labels": self._anonymize_labels(meta.get("labels", {})),
            "ownerReferences": owners,
        }
        whole = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": kept, "status": {"phase": "Pending"}}
        return codec.decode_tree(whole, Pod).object

    def node(self, node: Node) -> Node:
        tree = cast("dict[str, Any]", codec.to_tree(node.spec))
        spec = {
            "unschedulable": tree.get("unschedulable", False),
            "taints": self._anonymize(tree.get("taints", []), ""),
        }
        labels = self._anonymize_labels(node.metadata.labels)
        name = self.name(node.metadata.name, "node")
        if "kubernetes.io/hostname" in labels:
            labels["kubernetes.io/hostname"] = self._pseudonym_of_word(node.metadata.labels["kubernetes.io/hostname"])
        return Node(
            api_version="v1",
            kind="Node",
            metadata=ObjectMeta(name=name, labels=labels),
            spec=codec.decode_tree(spec, NodeSpec).object,
            status=node.status,
        )

    def _anonymize_container(self, tree: Mapping[str, Any], index: int) -> dict[str, Any]:
        kept = {name: tree[name] for name in ("resources", "restartPolicy") if name in tree}
        ports = [{key: value for key, value in port.items() if key != "name"} for port in tree.get("ports", [])]
        return kept | {"name": f"c{index}", "image": self._pseudonym_of_word(tree.get("image", "")), "ports": ports}

    def _anonymize(self, tree: Any, key: str) -> Any:
        if isinstance(tree, dict):
            if key in ("nodeSelector", "matchLabels"):
                return self._anonymize_labels(tree)
            return {name: self._anonymize(value, name) for name, value in tree.items()}
        if isinstance(tree, list):
            return [self._anonymize(each, key) for each in tree]
        if not isinstance(tree, str):
            return tree
        if key in ("key", "topologyKey", "matchLabelKeys", "mismatchLabelKeys"):
            return self._anonymize_key(tree)
        if key == "nodeName":
            return self.name(tree, "node")
        if key == "namespaces":
            return self.name(tree, "namespace")
        return self._pseudonym_of_word(tree) if key in ("value", "values") else tree

    def _anonymize_labels(self, labels: Mapping[str, str]) -> dict[str, str]:
        return {self._anonymize_key(key): self._pseudonym_of_word(value) for key, value in labels.items()}

    def _anonymize_key(self, key: str) -> str:
        return key if _KUBERNETES.fullmatch(key) else self.name(key, "key")

    def _pseudonym_of_word(self, text: str) -> str:
        return text if text in _OPEN or _NUMBER.fullmatch(text) else self.name(text, "word")
