"""Random clusters and events, from a small vocabulary, so that constraints meet often.

A `Scenario` is a list of operations on the API, generated from a seed alone. Names are unique in a scenario; what it
creates is deleted after it.
"""

from collections.abc import Callable
from random import Random
from typing import Any, NamedTuple

Tree = dict[str, Any]
ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
_APPS = ("a", "b", "c")
_ZONES = ("z1", "z2", "z3")
_OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt")
_TAINTS = (("dedicated", "x"), ("dedicated", "y"), ("sla", "5"), ("sla", "50"), ("flaky", ""))
_EFFECTS = ("NoSchedule", "NoSchedule", "PreferNoSchedule")
_PRIORITIES = ("low", "middle", "high")
_DRIVER = "gpu.example.com"
GROUPS = {
    "Node": "/api/v1/nodes",
    "PersistentVolume": "/api/v1/persistentvolumes",
    "Namespace": "/api/v1/namespaces",
    "PriorityClass": "/apis/scheduling.k8s.io/v1/priorityclasses",
    "DeviceClass": "/apis/resource.k8s.io/v1/deviceclasses",
    "ResourceSlice": "/apis/resource.k8s.io/v1/resourceslices",
    "Pod": "/api/v1/namespaces/{}/pods",
    "Service": "/api/v1/namespaces/{}/services",
    "PersistentVolumeClaim": "/api/v1/namespaces/{}/persistentvolumeclaims",
    "PodDisruptionBudget": "/apis/policy/v1/namespaces/{}/poddisruptionbudgets",
    "ResourceClaim": "/apis/resource.k8s.io/v1/namespaces/{}/resourceclaims",
    "StorageClass": "/apis/storage.k8s.io/v1/storageclasses",
    "CSINode": "/apis/storage.k8s.io/v1/csinodes",
}
"""The collection of each kind that scenarios use; namespaced ones have a place for the namespace."""


class Operation(NamedTuple):
    """Create, replace the status of, patch or delete an object."""

    verb: str
    tree: Tree

    @property
    def path(self) -> str:
        metadata = self.tree["metadata"]
        collection = GROUPS[self.tree["kind"]].format(metadata.get("namespace", ""))
        return collection if self.verb == "create" else f"{collection}/{metadata['name']}"


class Scenario(NamedTuple):
    """Operations in order; the scheduler settles after each."""

    seed: int
    operations: tuple[Operation, ...]

    @property
    def first_pod(self) -> int:
        """The number of the operation that creates the first pod."""
        kinds = [operation.tree["kind"] for operation in self.operations]
        return kinds.index("Pod") if "Pod" in kinds else len(kinds)


def scenario(seed: int, size: int = 14) -> Scenario:
    """Generate the scenario of a seed."""
    made = _Generator(Random(seed))
    return Scenario(seed, tuple(made.generate(size)))


def shared_objects() -> list[Tree]:
    """Return what every scenario uses and none changes."""
    found: list[Tree] = [
        {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}, "value": value}
        for name, value in (("low", 10), ("middle", 100), ("high", 1000))
    ]
    found.append(
        {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": "polite"},
            "value": 500,
            "preemptionPolicy": "Never",
        }
    )
    found += [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": {"team": name}}}
        for name in ("ns1", "ns2")
    ]
    found.append(
        {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "DeviceClass",
            "metadata": {"name": "gpu"},
            "spec": {"selectors": [{"cel": {"expression": f"device.driver == '{_DRIVER}'"}}]},
        }
    )
    for name, mode in (("immediate", "Immediate"), ("late", "WaitForFirstConsumer")):
        found.append(
            {
                "apiVersion": "storage.k8s.io/v1",
                "kind": "StorageClass",
                "metadata": {"name": name},
                "provisioner": "kubernetes.io/no-provisioner",
                "volumeBindingMode": mode,
            }
        )
    return found


class _Generator:
    def __init__(self, rng: Random) -> None:
        self._rng = rng
        self._nodes: list[str] = []
        self._pods: list[tuple[str, str]] = []
        self._claims: list[tuple[str, str]] = []
        self._device_claims: list[tuple[str, str]] = []
        self._number = 0

    def generate(self, size: int) -> list[Operation]:
        rng = self._rng
        operations = [each for _ in range(rng.randint(2, 6)) for each in self._new_node()]
        for _ in range(rng.randint(0, 2)):
            operations += self._new_volume()
        makers: list[tuple[int, Callable[[], list[Operation]]]] = [
            (12, self._new_pod),
            (2, self._change_labels),
            (2, self._change_taints),
            (1, self._change_capacity),
            (1, self._delete_node),
            (1, self._new_node),
            (2, self._delete_pod),
            (1, self._relabel_pod),
            (1, self._new_service),
            (1, self._new_budget),
            (1, self._new_device_claim),
        ]
        choices = [make for weight, make in makers for _ in range(weight)]
        for _ in range(size):
            operations += rng.choice(choices)()
        return operations

    def _chance(self, probability: float) -> bool:
        return self._rng.random() < probability

    def _name(self, prefix: str) -> str:
        self._number += 1
        return f"{prefix}{self._number}"

    # -- nodes

    def _node_labels(self, name: str) -> dict[str, str]:
        rng, labels = self._rng, {HOST: name}
        if self._chance(0.85):
            labels[ZONE] = rng.choice(_ZONES)
        if self._chance(0.5):
            labels["disk"] = rng.choice(("ssd", "hdd"))
        if self._chance(0.4):
            labels["size"] = rng.choice(("1", "5", "10", "big"))
        return labels

    def _taints(self) -> list[Tree]:
        rng = self._rng
        chosen = rng.sample(_TAINTS, rng.choice((0, 0, 0, 1, 1, 2)))
        return [{"key": key, "value": value, "effect": rng.choice(_EFFECTS)} for key, value in chosen]

    def _amounts(self) -> dict[str, str]:
        rng = self._rng
        amounts = {"cpu": rng.choice(("1", "2", "4")), "memory": rng.choice(("1Gi", "2Gi", "8Gi"))}
        amounts["pods"] = rng.choice(("2", "4", "110"))
        if self._chance(0.3):
            amounts["example.com/fpga"] = rng.choice(("0", "1", "2"))
        return amounts

    def _new_node(self) -> list[Operation]:
        rng, name = self._rng, self._name("n")
        self._nodes.append(name)
        amounts = self._amounts()
        images = [{"names": [f"img{i}:1"], "sizeBytes": size << 20} for i, size in enumerate((10, 300, 1500))]
        tree = {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name, "labels": self._node_labels(name)},
            "spec": {"taints": self._taints(), "unschedulable": self._chance(0.06)},
            "status": {
                "capacity": amounts,
                "allocatable": amounts,
                "images": rng.sample(images, rng.randint(0, 2)),
                "conditions": [{"type": "Ready", "status": "True"}],
            },
        }
        operations = [Operation("create", tree)]
        if self._chance(0.3):
            operations.append(Operation("create", self._slice(name)))
        return operations

    def _slice(self, node: str) -> Tree:
        rng = self._rng
        devices = [
            {
                "name": f"d{i}",
                "attributes": {"model": {"string": rng.choice(("old", "new"))}},
                "capacity": {"memory": {"value": rng.choice(("10Gi", "40Gi"))}},
            }
            for i in range(rng.randint(1, 3))
        ]
        spec = {
            "driver": _DRIVER,
            "nodeName": node,
            "pool": {"name": node, "generation": 1, "resourceSliceCount": 1},
            "devices": devices,
        }
        return {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceSlice",
            "metadata": {"name": f"s-{node}"},
            "spec": spec,
        }

    def _patch(self, kind: str, name: str, body: Tree, namespace: str = "") -> Operation:
        metadata = {"name": name, **({"namespace": namespace} if namespace else {}), **body.pop("metadata", {})}
        return Operation("patch", {"kind": kind, "metadata": metadata, **body})

    def _change_labels(self) -> list[Operation]:
        if not self._nodes:
            return []
        name = self._rng.choice(self._nodes)
        labels: dict[str, str | None] = {ZONE: None, "disk": None, "size": None, **self._node_labels(name)}
        return [self._patch("Node", name, {"metadata": {"labels": labels}})]

    def _change_taints(self) -> list[Operation]:
        if not self._nodes:
            return []
        body = {"spec": {"taints": self._taints(), "unschedulable": self._chance(0.1)}}
        return [self._patch("Node", self._rng.choice(self._nodes), body)]

    def _change_capacity(self) -> list[Operation]:
        if not self._nodes:
            return []
        amounts = self._amounts()
        body = {"status": {"allocatable": amounts, "capacity": amounts}}
        return [self._patch("Node", self._rng.choice(self._nodes), body)._replace(verb="patch-status")]

    def _delete_node(self) -> list[Operation]:
        if len(self._nodes) < 3:
            return []
        name = self._nodes.pop(self._rng.randrange(len(self._nodes)))
        return [Operation("delete", {"kind": "Node", "metadata": {"name": name}})]

    # -- pods

    def _new_pod(self) -> list[Operation]:
        rng, name = self._rng, self._name("p")
        namespace = rng.choice(("ns1", "ns1", "ns2"))
        self._pods.append((namespace, name))
        container: Tree = {"name": "c", "image": rng.choice(("img0:1", "img1:1", "img2:1", "other"))}
        requests = {}
        if self._chance(0.7):
            requests["cpu"] = rng.choice(("100m", "500m", "1", "3"))
        if self._chance(0.5):
            requests["memory"] = rng.choice(("64Mi", "512Mi", "3Gi"))
        if self._chance(0.1):
            requests["example.com/fpga"] = "1"
        limits = {key: value for key, value in requests.items() if "/" in key}
        container["resources"] = {"requests": requests, "limits": limits}
        if self._chance(0.1):
            container["ports"] = [{"containerPort": 80, "hostPort": rng.choice((8080, 8081))}]
        spec: Tree = {"containers": [container], "terminationGracePeriodSeconds": 0}
        self._constrain(spec, namespace)
        metadata = {"name": name, "namespace": namespace, "labels": {"app": rng.choice(_APPS)}}
        return [Operation("create", {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})]

    def _constrain(self, spec: Tree, namespace: str) -> None:
        rng, affinity = self._rng, {}
        if self._chance(0.35):
            spec["tolerations"] = [self._toleration() for _ in range(rng.randint(1, 3))]
        if self._chance(0.15):
            spec["nodeSelector"] = {rng.choice(("disk", ZONE)): rng.choice(("ssd", "z1"))}
        if self._chance(0.3):
            affinity["nodeAffinity"] = self._node_affinity()
        if self._chance(0.25):
            affinity["podAffinity"] = self._pod_affinity()
        if self._chance(0.25):
            affinity["podAntiAffinity"] = self._pod_affinity()
        if affinity:
            spec["affinity"] = affinity
        if self._chance(0.3):
            spec["topologySpreadConstraints"] = self._spread()
        if self._chance(0.4):
            spec["priorityClassName"] = rng.choice((*_PRIORITIES, "polite"))
        if self._chance(0.1):
            spec["initContainers"] = [{"name": "i", "image": "img0:1", "resources": {"requests": {"cpu": "2"}}}]
        mine = [claim for where, claim in self._claims if where == namespace]
        if self._chance(0.15):
            claim = rng.choice([*mine, *mine, "absent"])
            spec["volumes"] = [{"name": "v", "persistentVolumeClaim": {"claimName": claim}}]
        devices = [claim for where, claim in self._device_claims if where == namespace]
        if devices and self._chance(0.6):
            spec["resourceClaims"] = [{"name": "d", "resourceClaimName": rng.choice(devices)}]
            spec["containers"][0]["resources"]["claims"] = [{"name": "d"}]

    def _toleration(self) -> Tree:
        rng, (key, value) = self._rng, self._rng.choice(_TAINTS)
        operator = rng.choice(("Equal", "Exists", "Gt", "Lt") if key == "sla" else ("Equal", "Exists"))
        found = {"key": key, "operator": operator}
        if operator != "Exists":
            found["value"] = rng.choice(("1", "10", "100")) if operator in ("Gt", "Lt") else value
        if self._chance(0.5):
            found["effect"] = rng.choice(_EFFECTS)
        return found

    def _term(self) -> Tree:
        rng, expressions = self._rng, []
        for _ in range(rng.randint(1, 2)):
            operator = rng.choice(_OPERATORS)
            expression: Tree = {"key": rng.choice((ZONE, "disk", "size", HOST)), "operator": operator}
            if operator in ("In", "NotIn"):
                expression["values"] = rng.sample(("z1", "z2", "ssd", "hdd", "5"), rng.randint(1, 3))
            elif operator in ("Gt", "Lt"):
                expression["key"], expression["values"] = "size", [rng.choice(("1", "4", "7"))]
            expressions.append(expression)
        term: Tree = {"matchExpressions": expressions}
        if self._nodes and self._chance(0.1):
            names = [rng.choice(self._nodes)]
            term["matchFields"] = [{"key": "metadata.name", "operator": rng.choice(("In", "NotIn")), "values": names}]
        return term

    def _node_affinity(self) -> Tree:
        rng = self._rng
        found: Tree = {}
        if self._chance(0.6):
            terms = [self._term() for _ in range(rng.randint(1, 2))]
            found["requiredDuringSchedulingIgnoredDuringExecution"] = {"nodeSelectorTerms": terms}
        preferred = [{"weight": rng.choice((1, 10, 100)), "preference": self._term()} for _ in range(rng.randint(0, 2))]
        if preferred:
            found["preferredDuringSchedulingIgnoredDuringExecution"] = preferred
        return found

    def _selector(self) -> Tree:
        rng = self._rng
        if self._chance(0.7):
            return {"matchLabels": {"app": rng.choice(_APPS)}}
        operator = rng.choice(("In", "NotIn", "Exists"))
        expression: Tree = {"key": "app", "operator": operator}
        if operator != "Exists":
            expression["values"] = rng.sample(_APPS, rng.randint(1, 2))
        return {"matchExpressions": [expression]}

    def _pod_affinity(self) -> Tree:
        rng = self._rng

        def term() -> Tree:
            found: Tree = {"topologyKey": rng.choice((ZONE, HOST, "disk")), "labelSelector": self._selector()}
            if self._chance(0.2):
                found["namespaces"] = rng.sample(("ns1", "ns2"), rng.randint(1, 2))
            elif self._chance(0.2):
                found["namespaceSelector"] = rng.choice(({}, {"matchLabels": {"team": "ns2"}}))
            if self._chance(0.1):
                found["matchLabelKeys"] = ["version"]
            return found

        if self._chance(0.5):
            return {"requiredDuringSchedulingIgnoredDuringExecution": [term() for _ in range(rng.choice((1, 1, 2)))]}
        weighted = [{"weight": rng.choice((1, 50, 100)), "podAffinityTerm": term()} for _ in range(rng.randint(1, 2))]
        return {"preferredDuringSchedulingIgnoredDuringExecution": weighted}

    def _spread(self) -> list[Tree]:
        rng, found = self._rng, {}
        for _ in range(rng.randint(1, 2)):
            key, action = rng.choice((ZONE, HOST, "disk")), rng.choice(("DoNotSchedule", "ScheduleAnyway"))
            one: Tree = {"maxSkew": rng.choice((1, 1, 2)), "topologyKey": key, "whenUnsatisfiable": action}
            one["labelSelector"] = self._selector()
            if action == "DoNotSchedule" and self._chance(0.2):
                one["minDomains"] = rng.randint(1, 4)
            if self._chance(0.2):
                one["nodeAffinityPolicy"] = rng.choice(("Honor", "Ignore"))
            if self._chance(0.2):
                one["nodeTaintsPolicy"] = rng.choice(("Honor", "Ignore"))
            found[key, action] = one
        return list(found.values())

    def _delete_pod(self) -> list[Operation]:
        if not self._pods:
            return []
        namespace, name = self._pods.pop(self._rng.randrange(len(self._pods)))
        return [Operation("delete", {"kind": "Pod", "metadata": {"name": name, "namespace": namespace}})]

    def _relabel_pod(self) -> list[Operation]:
        if not self._pods:
            return []
        namespace, name = self._rng.choice(self._pods)
        body = {"metadata": {"labels": {"app": self._rng.choice(_APPS)}}}
        return [self._patch("Pod", name, body, namespace)]

    # -- what pods refer to

    def _new_volume(self) -> list[Operation]:
        rng, name, namespace = self._rng, self._name("v"), self._rng.choice(("ns1", "ns2"))
        self._claims.append((namespace, name))
        claim: Tree = {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": name, "namespace": namespace},
            "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
        }
        if self._chance(0.25):
            claim["spec"]["storageClassName"] = "immediate"
            return [Operation("create", claim)]
        if self._chance(0.2):
            claim["spec"]["accessModes"] = ["ReadWriteOncePod"]
        claim["spec"] |= {"volumeName": name, "storageClassName": "immediate"}
        terms = [{"matchExpressions": [{"key": ZONE, "operator": "In", "values": rng.sample(_ZONES, 2)}]}]
        volume = {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {"name": name},
            "spec": {
                "capacity": {"storage": "1Gi"},
                "accessModes": claim["spec"]["accessModes"],
                "storageClassName": "immediate",
                "local": {"path": "/x"},
                "nodeAffinity": {"required": {"nodeSelectorTerms": terms}},
                "claimRef": {"kind": "PersistentVolumeClaim", "namespace": namespace, "name": name},
            },
        }
        claim["metadata"]["annotations"] = {"pv.kubernetes.io/bind-completed": "yes"}
        bound = {
            **claim,
            "status": {"phase": "Bound", "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}},
        }
        return [Operation("create", volume), Operation("create", claim), Operation("patch-status", bound)]

    def _new_service(self) -> list[Operation]:
        metadata = {"name": self._name("svc"), "namespace": "ns1"}
        spec = {"selector": {"app": self._rng.choice(_APPS)}, "ports": [{"port": 80}]}
        return [Operation("create", {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec})]

    def _new_budget(self) -> list[Operation]:
        rng = self._rng
        metadata = {"name": self._name("pdb"), "namespace": rng.choice(("ns1", "ns2"))}
        spec = {"minAvailable": 1, "selector": {"matchLabels": {"app": rng.choice(_APPS)}}}
        tree = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": metadata, "spec": spec}
        status = {
            "disruptionsAllowed": rng.choice((0, 0, 1)),
            "currentHealthy": 1,
            "desiredHealthy": 1,
            "expectedPods": 1,
        }
        return [
            Operation("create", tree),
            Operation("patch-status", {**tree, "status": {**status, "observedGeneration": 1}}),
        ]

    def _new_device_claim(self) -> list[Operation]:
        rng, name, namespace = self._rng, self._name("dc"), self._rng.choice(("ns1", "ns2"))
        self._device_claims.append((namespace, name))
        exactly: Tree = {"deviceClassName": "gpu", "count": rng.choice((1, 1, 2)), "allocationMode": "ExactCount"}
        if self._chance(0.5):
            model = rng.choice(("old", "new"))
            expression = f"device.attributes['{_DRIVER}'].model == '{model}'"
            exactly["selectors"] = [{"cel": {"expression": expression}}]
        spec = {"devices": {"requests": [{"name": "r", "exactly": exactly}]}}
        metadata = {"name": name, "namespace": namespace}
        return [
            Operation(
                "create",
                {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": metadata, "spec": spec},
            )
        ]
