"""Requests that ResourceQuotas decide, for ``tools/record_requests.py``.

    PYTHONPATH=tests python -m conformance.recording.quotas > requests.jsonl
    python tools/record_requests.py requests.jsonl --server https://127.0.0.1:6443 --token T > …/data/api/quotas.jsonl

The server is a fresh kube-apiserver (shared/real/control-plane.sh starts one) beside a kube-controller-manager with
`--controllers=resourcequota-controller`. Recorded from v1.37. Requests are made in order; those for a quota are
repeated until the controller has counted. It does so for some changes only with its next full count (a pod that is
resized to less); these are not among the requests.
"""

import json
import sys
from collections.abc import Iterator
from typing import Any

from conformance.recording.namespace_rules import Tree, container, namespace, one, post

MERGE = "application/merge-patch+json"
SETTLED = 3.0
UNTIL_THE_CONTROLLER_LOOKS_FOR_KINDS = 40.0


def request(name: str, method: str, path: str, body: Tree | None = None, **more: Any) -> Tree:
    return {"id": name, "method": method, "path": path, "body": body, **more}


def at(space: str, resource: str, name: str = "") -> str:
    group = GROUPS.get(resource, "")
    root = f"/apis/{group}" if group else "/api/v1"
    return f"{root}/namespaces/{space}/{resource}" + (f"/{name}" if name else "")


GROUPS = {
    "deployments": "apps/v1",
    "resourceclaims": "resource.k8s.io/v1",
    "widgets": "example.com/v1",
    "leases": "coordination.k8s.io/v1",
}


def quota(space: str, name: str, hard: Tree, **spec: Any) -> Iterator[Tree]:
    body = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": name}, "spec": {"hard": hard, **spec}}
    yield post(f"{space}-quota-{name}", at(space, "resourcequotas"), body)


def used(space: str, *names: str, after: str) -> Iterator[Tree]:
    """Yield what is used of quotas once the controller has counted."""
    for name in names:
        yield request(f"{space}-{name}-{after}", "GET", at(space, "resourcequotas", name), settles=SETTLED)


def create(space: str, resource: str, kind: str, name: str, spec: Tree | None = None, **more: Any) -> Tree:
    group = GROUPS.get(resource, "v1")
    body = {"apiVersion": group, "kind": kind, "metadata": {"name": name}, **more}
    if spec is not None:
        body["spec"] = spec
    return post(f"{space}-{resource}-{name}", at(space, resource), body)


def pod(space: str, name: str, spec: Tree) -> Tree:
    return create(space, "pods", "Pod", name, spec)


def patch(name: str, path: str, body: Tree) -> Tree:
    return request(name, "PATCH", path, body, content_type=MERGE)


def delete(space: str, resource: str, name: str) -> Tree:
    options = {"apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": 0}
    return request(f"{space}-delete-{name}", "DELETE", at(space, resource, name), options)


def compute() -> Iterator[Tree]:
    space = "compute"
    yield from namespace(space)
    hard = {"requests.cpu": "1", "requests.memory": "1Gi", "limits.cpu": "2", "limits.memory": "2Gi", "pods": "3"}
    yield from quota(space, "all", hard | {"requests.example.com/gpu": "2", "count/pods": "4"})
    yield from used(space, "all", after="first")
    yield pod(space, "says-nothing", {"containers": [{"name": "b", "image": "i"}, {"name": "a", "image": "i"}]})
    some = container({"cpu": "1m", "memory": "1Mi"}, {"cpu": "1", "memory": "1Gi"}, "full")
    spec = {"containers": [some, container({"cpu": "1m"}, {}, "half")], "initContainers": [container(name="before")]}
    yield pod(space, "says-half", spec)
    small = one({"cpu": "100m", "memory": "100Mi"}, {"cpu": "200m", "memory": "200Mi"})
    yield pod(space, "small", small)
    yield from used(space, "all", after="small")
    yield pod(space, "too-much-cpu", one({"cpu": "950m", "memory": "1Mi"}, {"cpu": "1", "memory": "1Mi"}))
    yield pod(space, "too-much-of-all", one({"cpu": "2", "memory": "3Gi"}, {"cpu": "3", "memory": "4Gi"}))
    gpu = {"cpu": "1m", "memory": "1Mi", "example.com/gpu": "3"}
    yield pod(space, "too-many-devices", one(gpu, gpu))
    gpu = {**gpu, "example.com/gpu": "2"}
    yield pod(space, "devices", one(gpu, gpu))
    yield from used(space, "all", after="devices")
    made_up = {"apiVersion": "v1", "kind": "Pod", "metadata": {"generateName": "x-"}, "spec": one({"cpu": "5"})}
    yield post(f"{space}-generated", at(space, "pods"), made_up)
    yield request(f"{space}-dry-run", "POST", at(space, "pods"), pod(space, "dry", small)["body"], query="dryRun=All")
    big = pod(space, "dry-big", one({"cpu": "2", "memory": "1Mi"}, {"cpu": "2", "memory": "1Mi"}))["body"]
    yield request(f"{space}-dry-run-too-much", "POST", at(space, "pods"), big, query="dryRun=All")
    yield from used(space, "all", after="dry-run")
    for name, cpu in (("up", "300m"), ("too-far", "1")):
        body = pod(space, "small", one({"cpu": cpu, "memory": "100Mi"}, {"cpu": "1", "memory": "200Mi"}))["body"]
        yield request(f"{space}-resize-{name}", "PUT", at(space, "pods", "small/resize"), body)
    yield from used(space, "all", after="resized")
    yield pod(space, "third", small)
    yield pod(space, "fourth", small)
    yield patch(f"{space}-ended", at(space, "pods", "third/status"), {"status": {"phase": "Succeeded"}})
    yield from used(space, "all", after="ended")
    yield pod(space, "fourth-now", small)
    yield pod(space, "fifth", small)
    yield delete(space, "pods", "devices")
    yield from used(space, "all", after="deleted")
    yield patch(f"{space}-lowered", at(space, "resourcequotas", "all"), {"spec": {"hard": {"pods": "1"}}})
    yield from used(space, "all", after="lowered")
    yield pod(space, "beyond", small)
    more = {"pods": "9", "count/pods": "9", "count/leases.coordination.k8s.io": "1", "limits.cpu": None}
    yield patch(f"{space}-raised", at(space, "resourcequotas", "all"), {"spec": {"hard": more}})
    yield from used(space, "all", after="raised")
    yield pod(space, "within", one({"cpu": "10m", "memory": "1Mi"}, {"memory": "1Mi"}))
    sidecar = container({"cpu": "100m", "memory": "1Mi"}, {"memory": "1Mi"}, "side", restartPolicy="Always")
    before = container({"cpu": "200m", "memory": "1Mi"}, {"memory": "1Mi"}, "before")
    spec = {"containers": [container({"cpu": "50m", "memory": "1Mi"}, {"memory": "1Mi"})]}
    yield pod(space, "with-sidecar", {**spec, "initContainers": [sidecar, before]})
    whole = {"requests": {"cpu": "123m", "memory": "7Mi"}, "limits": {"cpu": "1", "memory": "8Mi"}}
    yield pod(space, "as-a-whole", {"containers": [{"name": "c", "image": "i"}], "resources": whole})
    yield from used(space, "all", after="sums")


def scopes() -> Iterator[Tree]:
    space = "scopes"
    yield from namespace(space)
    priority = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "high"}}
    yield post("priority-high", "/apis/scheduling.k8s.io/v1/priorityclasses", {**priority, "value": 1000})

    def selector(operator: str, *values: str) -> Tree:
        one = {"scopeName": "PriorityClass", "operator": operator}
        return {"matchExpressions": [one | ({"values": [*values]} if values else {})]}

    yield from quota(space, "terminating", {"pods": "1"}, scopes=["Terminating"])
    yield from quota(space, "not-terminating", {"pods": "7"}, scopes=["NotTerminating"])
    yield from quota(space, "best-effort", {"pods": "2"}, scopes=["BestEffort"])
    yield from quota(space, "not-best-effort", {"pods": "9", "requests.cpu": "1"}, scopes=["NotBestEffort"])
    yield from quota(space, "high", {"pods": "1"}, scopeSelector=selector("In", "high"))
    yield from quota(space, "not-high", {"pods": "50"}, scopeSelector=selector("NotIn", "high"))
    yield from quota(space, "no-class", {"pods": "50"}, scopeSelector=selector("DoesNotExist"))
    yield from quota(space, "any-class", {"pods": "50"}, scopeSelector=selector("Exists"))
    yield from quota(space, "across", {"pods": "0"}, scopes=["CrossNamespacePodAffinity"])
    quotas = ["terminating", "not-terminating", "best-effort", "not-best-effort", "high", "not-high", "no-class"]
    quotas += ["any-class", "across"]
    yield from used(space, *quotas, after="first")
    best_effort = {"containers": [{"name": "c", "image": "i"}]}
    yield pod(space, "best-effort", best_effort)
    yield pod(space, "with-deadline", {**best_effort, "activeDeadlineSeconds": 60})
    yield pod(space, "another-best-effort", best_effort)
    yield pod(space, "burstable-without-cpu", one({"memory": "1Mi"}))
    yield pod(space, "burstable", one({"cpu": "100m"}))
    yield pod(space, "another-deadline", {**one({"cpu": "100m"}), "activeDeadlineSeconds": 60})
    yield pod(space, "high", {**one({"cpu": "100m"}), "priorityClassName": "high"})
    yield pod(space, "another-high", {**one({"cpu": "100m"}), "priorityClassName": "high"})
    term = {"labelSelector": {}, "topologyKey": "zone", "namespaces": ["default"]}
    affinity = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    yield pod(space, "across", {**one({"cpu": "100m"}), "affinity": affinity})
    yield from used(space, *quotas, after="pods")
    deadline = {"spec": {"activeDeadlineSeconds": 50}}
    yield patch(f"{space}-deadline-beyond", at(space, "pods", "burstable"), deadline)
    yield delete(space, "pods", "with-deadline")
    yield from used(space, "terminating", after="deleted")
    yield patch(f"{space}-deadline", at(space, "pods", "burstable"), deadline)
    yield from used(space, *quotas, after="deadline")


def counts() -> Iterator[Tree]:
    space = "counts"
    yield from namespace(space)
    names = {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"}
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    version = {"name": "v1", "served": True, "storage": True, "schema": schema}
    spec = {"group": "example.com", "scope": "Namespaced", "names": names, "versions": [version]}
    crd = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition"}
    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    yield post("widgets", path, {**crd, "metadata": {"name": "widgets.example.com"}, "spec": spec})
    yield request("widgets-served", "GET", at(space, "widgets"), settles=UNTIL_THE_CONTROLLER_LOOKS_FOR_KINDS)
    hard = {"count/configmaps": "2", "configmaps": "3", "secrets": "1", "replicationcontrollers": "1"}
    hard |= {"services": "3", "services.nodeports": "2", "services.loadbalancers": "1", "resourcequotas": "2"}
    hard |= {"count/deployments.apps": "1", "count/leases.coordination.k8s.io": "1", "count/widgets.example.com": "1"}
    yield from quota(space, "objects", hard | {"count/nonsense.example.org": "1", "count/services": "9"})
    yield from used(space, "objects", after="first")
    for name in ("a", "b", "c"):
        yield create(space, "configmaps", "ConfigMap", f"map-{name}")
    for name in ("a", "b"):
        yield create(space, "secrets", "Secret", f"secret-{name}")
        yield create(space, "leases", "Lease", f"lease-{name}")
        yield create(space, "widgets", "Widget", f"widget-{name}")
        template = {"metadata": {"labels": {"app": name}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
        yield create(space, "replicationcontrollers", "ReplicationController", f"rc-{name}", {"template": template})
        spec = {"selector": {"matchLabels": {"app": name}}, "template": template}
        yield create(space, "deployments", "Deployment", f"deployment-{name}", spec)
        yield from quota(space, f"more-{name}", {"count/secrets": "5"})
    yield from used(space, "objects", after="created")
    ports = [{"name": "a", "port": 80}, {"name": "b", "port": 81}]
    yield create(space, "services", "Service", "plain", {"ports": ports})
    yield create(space, "services", "Service", "node-ports", {"type": "NodePort", "ports": ports})
    yield create(space, "services", "Service", "one-port-more", {"type": "NodePort", "ports": ports[:1]})
    body = {"spec": {"type": "NodePort"}}
    yield patch(f"{space}-plain-to-node-ports", at(space, "services", "plain"), body)
    yield from used(space, "objects", after="services")
    yield delete(space, "services", "node-ports")
    yield from used(space, "objects", after="service-deleted")
    yield patch(f"{space}-plain-to-node-ports-now", at(space, "services", "plain"), body)
    balanced = {"type": "LoadBalancer", "ports": ports}
    yield create(space, "services", "Service", "balanced-with-ports", balanced)
    yield create(space, "services", "Service", "balanced", {**balanced, "allocateLoadBalancerNodePorts": False})
    yield create(space, "services", "Service", "balanced-too", {**balanced, "allocateLoadBalancerNodePorts": False})
    yield from used(space, "objects", after="balanced")
    yield patch(f"{space}-plain-again", at(space, "services", "plain"), {"spec": {"type": "ClusterIP"}})
    yield from used(space, "objects", after="plain-again")
    yield delete(space, "configmaps", "map-a")
    yield delete(space, "widgets", "widget-a")
    yield from used(space, "objects", after="deleted")
    yield create(space, "widgets", "Widget", "widget-c")


def claims() -> Iterator[Tree]:
    space = "claims"
    yield from namespace(space)
    storage_class = {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "provisioner": "example.com/x"}
    yield post(
        "class-gold",
        "/apis/storage.k8s.io/v1/storageclasses",
        {**storage_class, "metadata": {"name": "gold"}, "allowVolumeExpansion": True},
    )
    gold = "gold.storageclass.storage.k8s.io/"
    hard = {"requests.storage": "10Gi", "persistentvolumeclaims": "3", f"{gold}requests.storage": "5Gi"}
    yield from quota(
        space, "storage", hard | {f"{gold}persistentvolumeclaims": "2", "count/persistentvolumeclaims": "9"}
    )
    vac = {"scopeName": "VolumeAttributesClass", "operator": "In", "values": ["fast"]}
    hard = {"persistentvolumeclaims": "0", "requests.storage": "1Gi"}
    yield from quota(space, "fast", hard, scopeSelector={"matchExpressions": [vac]})
    yield from used(space, "storage", "fast", after="first")

    def claim(name: str, size: str, **more: Any) -> Tree:
        spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}, **more}
        return create(space, "persistentvolumeclaims", "PersistentVolumeClaim", name, spec)

    yield claim("too-large", "11Gi", storageClassName="")
    yield claim("plain", "1Gi", storageClassName="")
    yield claim("gold", "2Gi", storageClassName="gold")
    yield claim("fast", "1Gi", storageClassName="", volumeAttributesClassName="fast")
    yield claim("gold-too-large", "4Gi", storageClassName="gold")
    yield claim("fractions", "1500m", storageClassName="gold")
    yield claim("one-too-many", "1Gi", storageClassName="")
    yield from used(space, "storage", "fast", after="created")
    bound = {"status": {"phase": "Bound", "capacity": {"storage": "2Gi"}}}
    yield patch(f"{space}-bound", at(space, "persistentvolumeclaims", "gold/status"), bound)
    for name, size in (("grown", "3Gi"), ("grown-too-far", "6Gi")):
        body = {"spec": {"resources": {"requests": {"storage": size}}}}
        yield patch(f"{space}-{name}", at(space, "persistentvolumeclaims", "gold"), body)
    yield from used(space, "storage", after="grown")
    allocated = {"status": {"allocatedResources": {"storage": "4Gi"}}}
    yield patch(f"{space}-allocated", at(space, "persistentvolumeclaims", "gold/status"), allocated)
    yield from used(space, "storage", after="allocated")


def devices() -> Iterator[Tree]:
    space = "devices"
    yield from namespace(space)
    path = "/apis/resource.k8s.io/v1/deviceclasses"
    for name, spec in (("gold", {"extendedResourceName": "example.com/chip"}), ("tin", {})):
        body = {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": name}, "spec": spec}
        yield post(f"device-class-{name}", path, body)
    hard = {"gold.deviceclass.resource.k8s.io/devices": "3", "count/resourceclaims.resource.k8s.io": "4"}
    hard |= {"tin.deviceclass.resource.k8s.io/devices": "40", "requests.example.com/chip": "2"}
    hard |= {"requests.deviceclass.resource.kubernetes.io/gold": "9"}
    yield from quota(space, "devices", hard)
    yield from used(space, "devices", after="first")

    def claim(name: str, *requests: Tree) -> Tree:
        return create(space, "resourceclaims", "ResourceClaim", name, {"devices": {"requests": [*requests]}})

    def exactly(name: str, device_class: str, **more: Any) -> Tree:
        return {"name": name, "exactly": {"deviceClassName": device_class, **more}}

    yield claim("four", exactly("r", "gold", count=4))
    yield claim("all", exactly("r", "tin", allocationMode="All"))
    yield claim("two", exactly("r", "gold", count=2), exactly("s", "tin"))
    ways = [{"name": f"w{count}", "deviceClassName": "gold", "count": count} for count in (1, 2)]
    yield claim("first-available", {"name": "r", "firstAvailable": ways})
    yield claim("other-class", exactly("r", "tin", count=2))
    yield from used(space, "devices", after="claims")
    chips = {"cpu": "1", "example.com/chip": "1"}
    yield pod(space, "with-chip", one(chips, chips))
    yield delete(space, "resourceclaims", "two")
    yield from used(space, "devices", after="deleted")
    yield pod(space, "with-chip-now", one(chips, chips))
    yield from used(space, "devices", after="pod")


def main() -> None:
    for part in (compute, scopes, counts, claims, devices):
        for case in part():
            sys.stdout.write(json.dumps(case) + "\n")


if __name__ == "__main__":
    main()
