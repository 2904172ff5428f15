"""Run one workload of upstream's scheduler_perf against an API server: its operations in order, and the throughput.

`scheduler_perf.py` reads the files and calls `WorkloadRun`. Throughput is the number of pods bound while metrics were
collected, divided by the time from the start of the collection until a watch showed the last of them bound.

Two rewrites make a manifest acceptable to a server with default admission: a bare ``priority`` becomes a
PriorityClass of that value, and the not-ready taint that admission adds to a new node is removed, as a node
controller would do.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import yaml

from benchmarks.go_template import render
from mooring.api.core_v1 import Pod
from mooring.api.errors import AlreadyExists, NotFound, StatusError
from mooring.client import Change, Client, Informer

Tree = dict[str, Any]
_CONCURRENT_REQUESTS = 32
_DEFAULT_CHURN_MILLISECONDS = 500
_DEFAULT_POD = "../templates/pod-default.yaml"
_POLL_SECONDS = 0.02
_RETRY_SECONDS = 0.5
_RETRIES = 20


class UnsupportedError(Exception):
    """Report an operation or option that cannot be run; the text is the reason."""


@dataclass
class Throughput:
    """Hold what was measured while metrics were collected."""

    pods: int
    seconds: float

    @property
    def pods_per_second(self) -> float:
        return self.pods / self.seconds if self.seconds else 0.0


@dataclass
class _Collection:
    """Count the pods of some namespaces and labels that are bound from now on."""

    namespaces: frozenset[str]
    labels: Mapping[str, str]
    begun: float = field(default_factory=time.perf_counter)
    pods: int = 0
    last_bound: float = 0.0

    def count(self, pod: Pod) -> None:
        has_namespace = not self.namespaces or pod.metadata.namespace in self.namespaces
        if has_namespace and _has_labels(pod, self.labels):
            self.pods += 1
            self.last_bound = time.perf_counter()


class WorkloadRun:
    """Execute the operations of a workload. `pods` is a running informer."""

    def __init__(
        self, client: Client, pods: Informer[Pod], folder: Path, test: Tree, *, params: Tree, seconds: float
    ) -> None:
        self._client, self._pods, self._folder = client, pods, folder
        self._test, self._params, self._timeout = test, params, seconds
        self._resources: dict[tuple[str, str], tuple[str, bool]] = {}
        self._expected: dict[str, int] = {}
        self._namespaces: set[str] = set()
        self._collection: _Collection | None = None
        self._background: list[asyncio.Task[None]] = []
        self._node_number = 0
        self._priorities: set[int] = set()
        self._bound: Counter[str] = Counter()
        self.results: list[Throughput] = []
        pods.add_batch_handler(self._count_bound)

    async def run(self) -> list[Throughput]:
        """Execute every operation; return what was measured."""
        try:
            for number, operation in enumerate(self._test["workloadTemplate"]):
                await self._execute(number, operation)
            return self.results
        finally:
            for task in self._background:
                task.cancel()
            await asyncio.gather(*self._background, return_exceptions=True)

    async def _execute(self, number: int, operation: Tree) -> None:
        execute = _OPERATIONS.get(operation["opcode"])
        if execute is None:
            raise UnsupportedError(f"opcode {operation['opcode']}")
        await execute(self, number, operation)

    # -- parameters and templates

    def _param(self, operation: Tree, name: str, default: Any = None) -> Any:
        reference = operation.get(f"{name}Param")
        if reference:
            return self._params[reference.removeprefix("$")]
        return operation.get(name, default)

    def _template_params(self, operation: Tree) -> Tree:
        def resolve(value: Any) -> Any:
            return self._params[value[1:]] if isinstance(value, str) and value.startswith("$") else value

        return {name: resolve(value) for name, value in (operation.get("templateParams") or {}).items()}

    def _render(self, path: str, values: Mapping[str, Any]) -> Tree:
        tree: Tree = yaml.safe_load(render((self._folder / path).read_text(), values))
        return tree

    # -- operations

    async def _create_nodes(self, _number: int, operation: Tree) -> None:
        path = operation.get("nodeTemplatePath", "../templates/node-default.yaml")
        count, values = int(self._param(operation, "count", 0)), self._template_params(operation)
        unknown = {name for name in operation if name.endswith("Strategy")} - _NODE_STRATEGIES
        if unknown:
            raise UnsupportedError(f"createNodes with {', '.join(sorted(unknown))}")

        async def create(index: int) -> None:
            node = self._render(path, values | {"Index": index, "Count": count})
            await self._create_node(node, index, operation)

        await _each(create, range(count))

    async def _create_node(self, node: Tree, index: int, operation: Tree) -> None:
        meta = node["metadata"]
        name = meta.pop("generateName", "node-")
        self._node_number += 1
        meta["name"] = meta.get("name") or f"{name}{self._node_number}"
        labels = meta.setdefault("labels", {})
        labels["kubernetes.io/hostname"] = meta["name"]
        if prepare := operation.get("labelNodePrepareStrategy"):
            values = prepare["labelValues"]
            labels[prepare["labelKey"]] = values[index % len(values)]
        if unique := operation.get("uniqueNodeLabelStrategy"):
            labels[unique["labelKey"]] = meta["name"]
        status = node["status"]
        status.setdefault("allocatable", dict(status["capacity"]))
        strategy = operation.get("nodeAllocatableStrategy") or {}
        for resource, amount in (strategy.get("nodeAllocatable") or {}).items():
            status["allocatable"][resource] = status["capacity"][resource] = amount
        wanted = list(node.get("spec", {}).get("taints") or [])
        created = await self._post(node)
        created["spec"]["taints"] = wanted
        await self._put(created)
        if drivers := strategy.get("csiNodeAllocatable"):
            specs = [{"name": driver, "nodeID": meta["name"], "allocatable": each} for driver, each in drivers.items()]
            csi_node = {"apiVersion": "storage.k8s.io/v1", "kind": "CSINode", "metadata": {"name": meta["name"]}}
            await self._post(csi_node | {"spec": {"drivers": specs}})

    async def _create_namespaces(self, _number: int, operation: Tree) -> None:
        for index in range(int(self._param(operation, "count", 1))):
            template: Tree = {"apiVersion": "v1", "kind": "Namespace", "metadata": {}}
            if path := operation.get("namespaceTemplatePath"):
                template = self._render(path, {"Index": index})
            template["metadata"].pop("generateName", None)
            template["metadata"]["name"] = f"{operation['prefix']}-{index}"
            self._namespaces.add(template["metadata"]["name"])
            with suppress(AlreadyExists):
                await self._post(template)

    async def _create_pods(self, number: int, operation: Tree) -> None:
        namespace = operation.get("namespace") or f"namespace-{number}"
        count = int(self._param(operation, "count", 0))
        count *= int(self._param(operation, "countMultiplier", 1))
        if self._param(operation, "steadyState"):
            raise UnsupportedError("createPods with steadyState: its duration is fixed, not its number of pods")
        await self._ensure_namespace(namespace)
        collects = bool(operation.get("collectMetrics"))
        if collects:
            self._collection = _Collection(frozenset({namespace}), {})
        before = self._bound[namespace]
        await _each(lambda index: self._create_pod(namespace, index, count, operation), range(count))
        if operation.get("skipWaitToCompletion"):
            self._expected[namespace] = self._expected.get(namespace, 0) + count
        else:
            await self._wait_until(lambda: self._bound[namespace] >= before + count)
        if collects:
            self._finish_collection()

    async def _create_pod(self, namespace: str, index: int, count: int, operation: Tree) -> None:
        path = operation.get("podTemplatePath") or self._test.get("defaultPodTemplatePath", _DEFAULT_POD)
        pod = self._render(path, self._template_params(operation) | {"Index": index, "Count": count})
        meta, spec = pod["metadata"], pod["spec"]
        meta["namespace"] = namespace
        batch = int(self._param(operation, "signatureBatchSize", 1) or 1)
        meta.setdefault("labels", {})["signature"] = f"signature-label-{index // batch}"
        if (priority := spec.pop("priority", None)) is not None and "priorityClassName" not in spec:
            spec["priorityClassName"] = await self._priority_class(priority)
        if volume := operation.get("persistentVolumeTemplatePath"):
            claim = await self._create_volume(namespace, index, volume, operation["persistentVolumeClaimTemplatePath"])
            spec.setdefault("volumes", []).append({"name": "vol", "persistentVolumeClaim": {"claimName": claim}})
        await self._post(pod)

    async def _create_volume(self, namespace: str, index: int, volume_path: str, claim_path: str) -> str:
        """Create a claim and a volume that are bound to each other; return the claim's name."""
        name, volume_name = f"pvc-{index}", f"pv-{namespace}-{index}"
        claim, volume = self._render(claim_path, {"Index": index}), self._render(volume_path, {"Index": index})
        claim.setdefault("metadata", {}).update(name=name, namespace=namespace)
        claim["spec"].update(volumeName=volume_name, storageClassName="")
        created = await self._post(claim)
        volume.setdefault("metadata", {})["name"] = volume_name
        if "csi" in volume["spec"]:
            volume["spec"]["csi"]["volumeHandle"] = volume_name
        reference = {"kind": "PersistentVolumeClaim", "namespace": namespace, "name": name}
        volume["spec"]["claimRef"] = reference | {"uid": created["metadata"]["uid"]}
        await self._post(volume)
        created["status"] = {"phase": "Bound", "accessModes": claim["spec"]["accessModes"]}
        await self._put(created, "status")
        return name

    async def _create_pod_sets(self, _number: int, operation: Tree) -> None:
        inner = operation["createPodsOp"]
        for index in range(int(self._param(operation, "count", 0))):
            await self._create_pods(0, inner | {"namespace": f"{operation['namespacePrefix']}-{index}"})

    async def _create_any(self, _number: int, operation: Tree) -> None:
        count, values = int(self._param(operation, "count", 1)), self._template_params(operation)
        if namespace := operation.get("namespace", ""):
            await self._ensure_namespace(namespace)

        async def create(index: int) -> None:
            tree = self._render(operation["templatePath"], values | {"Index": index, "Count": count})
            if namespace:
                tree["metadata"]["namespace"] = namespace
            await (self._create_node(tree, index, {}) if tree["kind"] == "Node" else self._post(tree))

        await _each(create, range(count))

    async def _update_any(self, _number: int, operation: Tree) -> None:
        count, rate = int(self._param(operation, "count", 1)), operation.get("updatePerSecond", 0)
        for index in range(count):
            tree = self._render(operation["templatePath"], {"Index": index, "Count": count})
            if namespace := operation.get("namespace"):
                tree["metadata"]["namespace"] = namespace
            await self._put(tree, next(iter(operation.get("subresources") or []), ""))
            await self._put(tree, "status")
            if rate:
                await asyncio.sleep(1 / rate)

    async def _delete_pods(self, _number: int, operation: Tree) -> None:
        work = self._delete_matching(operation)
        if operation.get("skipWaitToCompletion"):
            self._background.append(asyncio.create_task(work))
        else:
            await work

    async def _delete_matching(self, operation: Tree) -> None:
        namespace, labels = operation["namespace"], operation.get("labelSelector") or {}
        rate = operation.get("deletePodsPerSecond", 0)
        for pod in list(self._pods.objects()):
            if pod.metadata.namespace == namespace and _has_labels(pod, labels):
                with suppress(NotFound):
                    await self._client.delete(Pod, pod.metadata.name, namespace, grace_period_seconds=0)
                if rate:
                    await asyncio.sleep(1 / rate)

    async def _churn(self, number: int, operation: Tree) -> None:
        namespace = operation.get("namespace") or f"namespace-{number}"
        await self._ensure_namespace(namespace)
        self._background.append(asyncio.create_task(self._churn_until_cancelled(namespace, operation)))

    async def _churn_until_cancelled(self, namespace: str, operation: Tree) -> None:
        interval = operation.get("intervalMilliseconds") or _DEFAULT_CHURN_MILLISECONDS
        number, recreates = operation.get("number", 0), operation["mode"] == "recreate"
        names: dict[tuple[str, int], Tree] = {}
        turn = 0
        while recreates or not number or turn < number:
            await asyncio.sleep(interval / 1000)
            for path in operation["templatePaths"]:
                slot = (path, turn % number if number else turn)
                if recreates and (old := names.pop(slot, None)):
                    with suppress(StatusError):
                        await self._client.raw("DELETE", await self._path(old, named=True))
                    continue
                tree = self._render(path, {"Index": turn})
                if (await self._resource(tree))[1]:
                    tree["metadata"]["namespace"] = namespace
                with suppress(StatusError):
                    names[slot] = await self._post(tree)
            turn += 1

    async def _barrier(self, _number: int, operation: Tree) -> None:
        labels = operation.get("labelSelector") or {}
        namespaces = operation.get("namespaces") or list(self._expected)
        is_bound = operation.get("stageRequirement", "Scheduled") == "Scheduled"

        def is_reached() -> bool:
            for namespace in namespaces:
                pods = [
                    pod
                    for pod in self._pods.objects()
                    if pod.metadata.namespace == namespace and _has_labels(pod, labels)
                ]
                if not all(_has_stage(pod, is_bound=is_bound) for pod in pods):
                    return False
            return self._count_pods(namespaces) >= 1

        await self._wait_until(is_reached)
        if is_bound:
            for namespace in namespaces:
                self._expected.pop(namespace, None)

    async def _sleep(self, _number: int, operation: Tree) -> None:
        text = str(self._param(operation, "duration"))
        units = {"ms": 0.001, "s": 1.0, "m": 60.0}
        unit = next(unit for unit in units if text.endswith(unit))
        await asyncio.sleep(float(text.removesuffix(unit)) * units[unit])

    async def _start_collecting(self, _number: int, operation: Tree) -> None:
        namespaces = frozenset(operation.get("namespaces") or [])
        self._collection = _Collection(namespaces, operation.get("labelSelector") or {})

    async def _stop_collecting(self, _number: int, _operation: Tree) -> None:
        self._finish_collection()

    # -- how

    def _finish_collection(self) -> None:
        if (done := self._collection) is not None:
            self.results.append(Throughput(done.pods, max(0.0, done.last_bound - done.begun)))
        self._collection = None

    def _count_bound(self, changes: Iterable[Change[Pod]]) -> None:
        for change in changes:
            old, new = change.old, change.new
            if new is not None and new.spec.node_name and not (old and old.spec.node_name):
                self._bound[new.metadata.namespace] += 1
                if self._collection:
                    self._collection.count(new)

    def _count_pods(self, namespaces: Iterable[str]) -> int:
        wanted = set(namespaces)
        return sum(pod.metadata.namespace in wanted for pod in self._pods.objects())

    async def _wait_until(self, is_reached: Callable[[], bool]) -> None:
        deadline = time.monotonic() + self._timeout
        pause = _POLL_SECONDS
        while not is_reached():
            if time.monotonic() > deadline:
                unbound = sum(not pod.spec.node_name for pod in self._pods.objects())
                raise TimeoutError(f"{unbound} pods are still unbound after {self._timeout:.0f} s")
            await asyncio.sleep(pause)
            pause = min(1.5 * pause, 0.5)

    async def _ensure_namespace(self, name: str) -> None:
        if name not in self._namespaces:
            self._namespaces.add(name)
            with suppress(AlreadyExists):
                await self._post({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})

    async def _priority_class(self, value: int) -> str:
        name = f"priority-{value}"
        if value not in self._priorities:
            self._priorities.add(value)
            tree = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}}
            with suppress(AlreadyExists):
                await self._post(tree | {"value": value})
        return name

    async def _resource(self, tree: Tree) -> tuple[str, bool]:
        """Return the plural name of an object's kind, and whether it is namespaced, from discovery."""
        version, kind = tree["apiVersion"], tree["kind"]
        if (version, kind) not in self._resources:
            prefix = f"/apis/{version}" if "/" in version else f"/api/{version}"
            found = msgspec.json.decode((await self._client.raw("GET", prefix)).body)
            for each in found["resources"]:
                if "/" not in each["name"]:
                    self._resources[version, each["kind"]] = (f"{prefix}|{each['name']}", each["namespaced"])
        if (version, kind) not in self._resources:
            raise UnsupportedError(f"the server does not serve {kind} of {version}")
        return self._resources[version, kind]

    async def _path(self, tree: Tree, *, named: bool = False) -> str:
        found, is_namespaced = await self._resource(tree)
        prefix, plural = found.split("|")
        namespace = f"/namespaces/{tree['metadata']['namespace']}" if is_namespaced else ""
        return f"{prefix}{namespace}/{plural}" + (f"/{tree['metadata']['name']}" if named else "")

    async def _post(self, tree: Tree) -> Tree:
        """Create an object. Retry where a priority class or a namespace is not visible to admission yet."""
        path, body = await self._path(tree), msgspec.json.encode(tree)
        for attempt in range(_RETRIES):
            try:
                created: Tree = msgspec.json.decode((await self._client.raw("POST", path, body=body)).body)
            except StatusError as error:
                is_lagging = "no PriorityClass with name" in str(error) or "not found" in str(error)
                if not is_lagging or attempt == _RETRIES - 1:
                    raise
                await asyncio.sleep(_RETRY_SECONDS)
            else:
                return created
        raise AssertionError("unreachable")

    async def _put(self, tree: Tree, subresource: str = "") -> None:
        path = await self._path(tree, named=True) + (f"/{subresource}" if subresource else "")
        await self._client.raw("PUT", path, body=msgspec.json.encode(tree))


def _has_labels(pod: Pod, labels: Mapping[str, str]) -> bool:
    return all(pod.metadata.labels.get(key) == value for key, value in labels.items())


def _has_stage(pod: Pod, *, is_bound: bool) -> bool:
    """Return whether a pod is bound, or at least was attempted."""
    return bool(pod.spec.node_name) or (
        not is_bound and any(each.type == "PodScheduled" for each in pod.status.conditions)
    )


async def _each(create: Callable[[int], Awaitable[object]], numbers: Iterable[int]) -> None:
    remaining = iter(numbers)

    async def work() -> None:
        for number in remaining:
            await create(number)

    await asyncio.gather(*(work() for _ in range(_CONCURRENT_REQUESTS)))


_NODE_STRATEGIES = {"labelNodePrepareStrategy", "uniqueNodeLabelStrategy", "nodeAllocatableStrategy"}
_Operation = Callable[[WorkloadRun, int, Tree], Awaitable[None]]
_OPERATIONS: dict[str, _Operation] = {
    "barrier": WorkloadRun._barrier,
    "churn": WorkloadRun._churn,
    "createAny": WorkloadRun._create_any,
    "createNamespaces": WorkloadRun._create_namespaces,
    "createNodes": WorkloadRun._create_nodes,
    "createPodSets": WorkloadRun._create_pod_sets,
    "createPods": WorkloadRun._create_pods,
    "deletePods": WorkloadRun._delete_pods,
    "sleep": WorkloadRun._sleep,
    "startCollectingMetrics": WorkloadRun._start_collecting,
    "stopCollectingMetrics": WorkloadRun._stop_collecting,
    "updateAny": WorkloadRun._update_any,
}
