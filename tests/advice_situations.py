"""Builders for situations in which pods do not run: a cluster, the question, and the cause an expert would name."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from mooring.advisor.simulate import Settings
from mooring.api.apps_v1 import Deployment, ReplicaSet
from mooring.api.core_v1 import PersistentVolume, PersistentVolumeClaim, Pod
from mooring.api.meta_v1 import Resource
from mooring.api.storage_v1 import StorageClass
from mooring.testing.builders import made, node, pod

Tree = Mapping[str, Any]
NOW = "2026-11-18T12:00:00Z"
LONG_AGO = "2026-11-18T11:55:00Z"


@dataclass(frozen=True, eq=False)
class Situation:
    """One row of the table; equal only to itself, so that its answer can be cached."""

    name: str
    objects: Sequence[Resource]
    question: tuple[str, str]
    """Kind and name; in the namespace default."""
    code: str
    words: Sequence[str]
    """All of them are in the first line of the answer."""
    has_remedy: bool = True
    settings: Settings = field(default_factory=Settings)
    missing: Mapping[str, str] = field(default_factory=dict)
    words_of_remedy: str = ""
    words_to_check: str = ""
    """In one of the steps to check by hand."""


def container(**more: Any) -> dict[str, Any]:
    return {"name": "c", "image": "app:1", **more}


def asking(**requests: str) -> dict[str, Any]:
    return container(resources={"requests": {name.replace("_", "/"): amount for name, amount in requests.items()}})


def app(
    name: str,
    replicas: int,
    spec: Tree | None = None,
    *,
    on: Sequence[str] = (),
    old_on: Sequence[str] = (),
    **more: Any,
) -> list[Resource]:
    """Return a Deployment with its ReplicaSet and pods: the first ones on nodes, and old pods of a rollout."""
    labels = {"app": name}
    body = {"containers": [container()], **(spec or {})}
    template = {"metadata": {"labels": labels}, "spec": body}
    exists = more.pop("exists", replicas)
    deployment = made(
        Deployment,
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": name, "namespace": "default", "uid": f"d-{name}"},
            "spec": {
                "replicas": replicas,
                "selector": {"matchLabels": labels},
                "template": template,
                **more.pop("deployment", {}),
            },
        },
    )
    found: list[Resource] = [deployment]
    for revision, (nodes, count, image) in enumerate(((old_on, len(old_on), "app:0"), (on, exists, "app:1")), 1):
        if not count and revision == 1:
            continue
        spec_of = {**body, "containers": [{**body["containers"][0], "image": image}]} if revision == 1 else body
        found += _replica_set(name, f"h{revision}", spec_of, nodes=nodes, count=count, replicas=replicas, more=more)
    return found


def _replica_set(
    name: str, value: str, body: Tree, *, nodes: Sequence[str], count: int, replicas: int, more: Mapping[str, Any]
) -> list[Resource]:
    labels = {"app": name, "pod-template-hash": value}
    owner = {"apiVersion": "apps/v1", "kind": "Deployment", "name": name, "uid": f"d-{name}", "controller": True}
    replica_set = made(
        ReplicaSet,
        {
            "apiVersion": "apps/v1",
            "kind": "ReplicaSet",
            "metadata": {
                "name": f"{name}-{value}", "namespace": "default", "uid": f"r-{name}-{value}", "labels": labels,
                "ownerReferences": [owner], "annotations": {"deployment.kubernetes.io/revision": value[1:]},
            },
            "spec": {
                "replicas": count if value == "h1" else replicas,
                "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels}, "spec": body},
            },
            "status": {"replicas": count, "availableReplicas": len(nodes), **more.get("status", {})},
        },
    )  # fmt: skip
    status = more.get("old_status" if value == "h1" else "pod_status")
    reference = {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "name": f"{name}-{value}",
        "uid": f"r-{name}-{value}",
        "controller": True,
    }
    pods = [
        made(
            Pod,
            {
                "metadata": {
                    "name": f"{name}-{value}-{number}", "namespace": "default", "uid": f"p-{name}-{value}-{number}",
                    "labels": labels, "ownerReferences": [reference], "creationTimestamp": LONG_AGO,
                },
                "spec": {**body, "nodeName": nodes[number] if number < len(nodes) else "",
                    "schedulerName": body.get("schedulerName", "default-scheduler")},
                "status": status or {"phase": "Running" if number < len(nodes) else "Pending"},
            },
        )
        for number in range(count)
    ]  # fmt: skip
    return [replica_set, *pods]


def selecting(**labels: str) -> Tree:
    return {"nodeSelector": {key.replace("_", "-"): value for key, value in labels.items()}}


def required(*expressions: Tree) -> Tree:
    terms = {"nodeSelectorTerms": [{"matchExpressions": list(expressions)}]}
    return {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}}


def apart(key: str, **labels: str) -> Tree:
    term = {"topologyKey": key, "labelSelector": {"matchLabels": labels}}
    return {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}


def spread(key: str, app_name: str, **more: Any) -> Tree:
    constraint = {
        "topologyKey": key, "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": app_name}}, **more,
    }  # fmt: skip
    return {"topologySpreadConstraints": [constraint]}


def claiming(name: str) -> Tree:
    return {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": name}}]}


def claim(
    name: str, storage_class: str | None = "", *, annotations: Mapping[str, str] | None = None, **spec: Any
) -> Resource:
    body = {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}},
        "storageClassName": storage_class,
        **spec,
    }
    bound = {"pv.kubernetes.io/bind-completed": "yes"} if spec.get("volumeName") else {}
    meta = {"name": name, "namespace": "default", "uid": f"c-{name}", "annotations": {**bound, **(annotations or {})}}
    return made(PersistentVolumeClaim, {"metadata": meta, "spec": body})


def volume(name: str, zone: str = "", storage_class: str = "") -> Resource:
    body: dict[str, Any] = {
        "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/v"},
        "storageClassName": storage_class,
    }  # fmt: skip
    labels = {"topology.kubernetes.io/zone": zone} if zone else {}
    return made(PersistentVolume, {"metadata": {"name": name, "labels": labels}, "spec": body})


def storage_class(name: str, provisioner: str = "csi.example.com", mode: str = "WaitForFirstConsumer") -> Resource:
    return made(StorageClass, {"metadata": {"name": name}, "provisioner": provisioner, "volumeBindingMode": mode})


def unready(name: str, status: str = "Unknown", message: str = "", **more: Any) -> Resource:
    found = node(
        name,
        taints=["node.kubernetes.io/unreachable:NoSchedule"]
        if status == "Unknown"
        else ["node.kubernetes.io/not-ready:NoSchedule"],
        **more,
    )
    condition = {"type": "Ready", "status": status, "message": message, "lastHeartbeatTime": LONG_AGO}
    return made(
        type(found),
        {
            "metadata": {"name": name, "labels": found.metadata.labels},
            "spec": {"taints": [{"key": each.key, "effect": each.effect} for each in found.spec.taints]},
            "status": {
                "allocatable": {"cpu": "4", "memory": "16Gi", "pods": "110"},
                "capacity": {"cpu": "4"},
                "conditions": [condition],
            },
        },
    )


def clock() -> Resource:
    """Set the moment of the snapshot: its latest timestamp."""
    return pod("clock", on="", metadata={"creationTimestamp": NOW}, status={"phase": "Succeeded"})


def container_status(**state: Any) -> dict[str, Any]:
    return {"name": "c", "image": "app:1", "imageID": "", "ready": False, "restartCount": 5, **state}


def waiting(reason: str, message: str = "") -> dict[str, Any]:
    return {
        "phase": "Pending",
        "containerStatuses": [container_status(state={"waiting": {"reason": reason, "message": message}})],
    }


WORKERS = [
    node(f"n{number}", zone=f"z{number % 3}", labels={"disktype": "ssd" if number < 4 else "hdd"})
    for number in range(6)
]
CONTROL = node("control", taints=["node-role.kubernetes.io/control-plane:NoSchedule"], cpu="64")
SMALL = [node(f"s{number}", cpu="4") for number in range(3)]
FULL = [pod(f"busy{number}", cpu="3", on=f"s{number}") for number in range(3)]


def workload(
    kind: type[Resource], name: str, spec: Tree | None = None, *, on: Sequence[str] = (), exists: int = 0, **more: Any
) -> list[Resource]:
    """Return a StatefulSet, DaemonSet or Job with its pods: the first ones on nodes."""
    labels = {"app": name}
    body = {"containers": [container()], **(spec or {})}
    if kind.__name__ == "Job":
        body = {"restartPolicy": "Never", **body}
    selector = {} if kind.__name__ == "Job" else {"selector": {"matchLabels": labels}}
    owner = made(
        kind,
        {
            "metadata": {"name": name, "namespace": "default", "uid": f"w-{name}"},
            "spec": {"template": {"metadata": {"labels": labels}, "spec": body}, **selector, **more},
        },
    )
    reference = {"apiVersion": owner.api_version, "kind": kind.__name__, "name": name, "uid": f"w-{name}"}
    pods = [
        pod(
            f"{name}-{number}",
            on=on[number] if number < len(on) else "",
            labels=labels,
            spec={**body, **(_claims_of(more, name, number))},
            metadata={"ownerReferences": [{**reference, "controller": True}], "creationTimestamp": LONG_AGO},
        )
        for number in range(exists)
    ]
    return [owner, *pods]


def _claims_of(more: Tree, name: str, number: int) -> Tree:
    names = [each["metadata"]["name"] for each in more.get("volumeClaimTemplates", ())]
    volumes = [{"name": each, "persistentVolumeClaim": {"claimName": f"{each}-{name}-{number}"}} for each in names]
    return {"volumes": volumes} if volumes else {}


def near(key: str, **labels: str) -> Tree:
    """Return a required pod affinity."""
    term = {"topologyKey": key, "labelSelector": {"matchLabels": labels}}
    return {"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}


def port(number: int) -> Tree:
    return {"containers": [container(ports=[{"containerPort": number, "hostPort": number, "protocol": "TCP"}])]}
