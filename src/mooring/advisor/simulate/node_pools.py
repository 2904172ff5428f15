"""Node pools: find where new nodes come from, explain why a pool cannot serve a pod, and simulate an autoscaler.

    read_pools(b"...")                   pools of a file: Nodes as templates
    pools_of_cluster(snapshot)           Karpenter NodePools, and the groups named by nodes' labels
    explain_pools(snapshot, pools, pod)  why each pool can or cannot create a node for a pod

The autoscaler's rules are simplified: every ten seconds it takes the pending pods, chooses the pool of the highest
weight, then of the lowest price, whose new node fits in the cluster, and packs pods onto new nodes in their order. New
nodes also run the pods of DaemonSets. It orders no more nodes while some are being created, and never removes nodes.
"""

import heapq
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import product
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import structs

from mooring.advisor.simulate.changes import ScenarioError
from mooring.advisor.simulate.manifests import node_template_of, read_nodes, with_node_name
from mooring.advisor.snapshot import RawObject, Snapshot
from mooring.api.apps_v1 import DaemonSet
from mooring.api.core_v1 import Node, Pod, Taint
from mooring.api.errors import StatusError
from mooring.api.meta_v1 import ObjectMeta
from mooring.api.quantity import parse
from mooring.base import durations
from mooring.client import Client
from mooring.constraints.options import ConstraintOptions
from mooring.controllers.workloads import daemon_nodes
from mooring.scheduler.facade import DEFAULT_SCHEDULER, Engine

if TYPE_CHECKING:
    from mooring.advisor.simulate.world import World

GROUP_LABELS = (
    "karpenter.sh/nodepool",
    "eks.amazonaws.com/nodegroup",
    "cloud.google.com/gke-nodepool",
    "kubernetes.azure.com/agentpool",
)
_ANNOTATION = "pool.mooring.dev/"
_SCAN_SECONDS = 10.0
_READY_SECONDS = 90.0
_MOST_NODES = 1000
_CHOSEN_LABELS = frozenset({"topology.kubernetes.io/zone", "karpenter.sh/capacity-type"})
"""Well-known labels that Karpenter chooses when it launches an instance; it chooses those of custom labels too."""
_WELL_KNOWN_DOMAINS = ("kubernetes.io", "k8s.io", "karpenter.sh", "k8s.aws", "azure.com")
_GROUP_SIZE = re.compile(r"\bname:\s*(\S+).*?\bmaxSize[=:]\s*(\d+)", re.IGNORECASE | re.DOTALL)
"""The size of a node group in cluster-autoscaler's status, in the old text format and in YAML."""


class NodePool(msgspec.Struct, frozen=True):
    """A pool of new nodes for an autoscaler: node templates, how many it may add, their price and start time."""

    name: str
    templates: tuple[Node, ...]
    """The templates of new nodes, which differ in zone and capacity type; the first that fits is used."""
    maximum: int = _MOST_NODES
    price: float = 0.0
    ready_seconds: float = _READY_SECONDS
    weight: int = 0
    problem: str = ""
    """Why the pool creates no nodes now; empty if it does."""


class _Requirement(msgspec.Struct, frozen=True):
    """A requirement of a Karpenter NodePool on a label, with the operators of node selectors, `Gte` and `Lte`."""

    key: str = ""
    operator: str = ""
    values: tuple[str, ...] = ()

    def allows(self, value: str | None) -> bool:
        """Return whether a node whose label has this value (None: no such label) meets the requirement."""
        if self.operator in ("In", "NotIn"):
            return (value in self.values) is (self.operator == "In")
        if self.operator in ("Exists", "DoesNotExist"):
            return (value is not None) is (self.operator == "Exists")
        try:
            number, limit = int(value or ""), int(self.values[0])
        except (ValueError, IndexError):
            return False
        compare = {"Gt": number > limit, "Lt": number < limit, "Gte": number >= limit, "Lte": number <= limit}
        return compare.get(self.operator, False)


class _NodeClassRef(msgspec.Struct, frozen=True):
    group: str = ""
    kind: str = ""
    name: str = ""


class _InstanceSpec(msgspec.Struct, frozen=True, rename="camel"):
    requirements: tuple[_Requirement, ...] = ()
    taints: tuple[Taint, ...] = ()
    node_class_ref: _NodeClassRef = _NodeClassRef()


class _InstanceMeta(msgspec.Struct, frozen=True):
    labels: dict[str, str] = {}


class _PoolTemplate(msgspec.Struct, frozen=True):
    metadata: _InstanceMeta = _InstanceMeta()
    spec: _InstanceSpec = _InstanceSpec()


class _PoolSpec(msgspec.Struct, frozen=True):
    """The fields of a Karpenter NodePool that Mooring reads."""

    template: _PoolTemplate = _PoolTemplate()
    limits: dict[str, str | int] = {}
    weight: int = 0


class PoolVerdict(msgspec.Struct, frozen=True, rename="camel"):
    """The verdict on one pool: whether a pod fits on a new node of it, and the reasons why not."""

    pool: str
    fits: bool
    reasons: tuple[str, ...] = ()


def read_pools(text: bytes, source: str) -> tuple[NodePool, ...]:
    """Read a pool from each Node manifest, with maximum, price and start time in `pool.mooring.dev/` annotations."""
    pools = []
    for node in read_nodes(text, source):
        given = {
            key.removeprefix(_ANNOTATION): value
            for key, value in node.metadata.annotations.items()
            if key.startswith(_ANNOTATION)
        }
        try:
            ready = durations.parse_seconds(given["ready"]) if "ready" in given else _READY_SECONDS
            maximum, price = int(given.get("max", _MOST_NODES)), float(given.get("price", 0))
        except ValueError as problem:
            raise ScenarioError(f"{source}: the pool {node.metadata.name}: {problem}") from problem
        pools.append(NodePool(node.metadata.name, (node_template_of(node),), maximum, price, ready))
    return tuple(pools)


async def read_pool_objects(client: Client) -> list[RawObject]:
    """Read from the server Karpenter's objects and cluster-autoscaler's status ConfigMap; snapshots lack them."""
    path = "/api/v1/namespaces/kube-system/configmaps/cluster-autoscaler-status"
    status = await _get_json(client, path)
    trees = [{"apiVersion": "v1", "kind": "ConfigMap", **status}] if status else []
    pools = await _list_objects(client, "karpenter.sh/v1", "NodePool")
    pools = pools or await _list_objects(client, "karpenter.sh/v1beta1", "NodePool")
    for group, kind in sorted({_node_class_kind(each) for each in pools} - {("", "")}):
        preferred = (await _get_json(client, f"/apis/{group}")).get("preferredVersion", {}).get("groupVersion", "")
        trees += await _list_objects(client, preferred, kind)
    trees += pools
    return [RawObject(each["apiVersion"], each["kind"], "", each["metadata"]["name"], _tree=each) for each in trees]


def _node_class_kind(pool: dict[str, Any]) -> tuple[str, str]:
    try:
        reference = msgspec.convert(pool.get("spec") or {}, _PoolSpec).template.spec.node_class_ref
    except msgspec.ValidationError:
        return "", ""
    return (reference.group, reference.kind) if reference.group and reference.kind else ("", "")


async def _list_objects(client: Client, version: str, kind: str) -> list[dict[str, Any]]:
    plural = f"{kind.lower()}{'es' if kind.endswith('s') else 's'}"
    listed = await _get_json(client, f"/apis/{version}/{plural}")
    return [{"apiVersion": version, "kind": kind, **each} for each in listed.get("items", ())]


async def _get_json(client: Client, path: str) -> dict[str, Any]:
    """GET an API path of a live server; return the decoded JSON object, empty if the server responds with an error."""
    try:
        answer = await client.raw("GET", path)
    except StatusError:
        return {}
    return msgspec.json.decode(answer.body, type=dict[str, Any])


def find_pools(snapshot: Snapshot, more: Iterable[RawObject] = ()) -> tuple[NodePool, ...]:
    """Return Karpenter's NodePools and the node groups named by labels, whose largest node is the template."""
    groups: dict[str, list[Node]] = {}
    for node in snapshot.all(Node):
        if name := next((node.metadata.labels[key] for key in GROUP_LABELS if key in node.metadata.labels), ""):
            groups.setdefault(name, []).append(node)
    raw = [*snapshot.raw(), *more]
    sizes = _autoscaler_sizes(raw, groups)
    found = {}
    for name, nodes in groups.items():
        template = node_template_of(max(nodes, key=_cores_of))
        found[name] = NodePool(name, (template,), max(sizes.get(name, _MOST_NODES + len(nodes)) - len(nodes), 0))
    for each in raw:
        if each.kind == "NodePool" and each.api_version.startswith("karpenter.sh/"):
            found[each.name] = _karpenter_pool(snapshot, raw, each, groups.get(each.name, []))
    return tuple(found[name] for name in sorted(found))


def _autoscaler_sizes(raw: Iterable[RawObject], pools: Collection[str]) -> dict[str, int]:
    """Return the maximum sizes of pools that cluster-autoscaler reports in its status ConfigMap.

    Providers put the name of a pool into that of its groups, of which there is one for each zone.
    """
    sizes: dict[str, int] = {}
    for each in raw:
        if each.kind == "ConfigMap" and each.name == "cluster-autoscaler-status":
            status = str((each.tree.get("data") or {}).get("status", ""))
            for group, size in _GROUP_SIZE.findall(status):
                named = [pool for pool in pools if re.search(rf"(?<![^\W_]){re.escape(pool)}(?![^\W_])", group)]
                if named:
                    pool = max(named, key=len)
                    sizes[pool] = sizes.get(pool, 0) + int(size)
    return sizes


def _karpenter_pool(snapshot: Snapshot, raw: Sequence[RawObject], given: RawObject, own: Sequence[Node]) -> NodePool:
    """Convert a Karpenter NodePool; its template is the largest of its nodes, or of nodes that meet it."""
    try:
        name, spec = given.name, msgspec.convert(given.tree.get("spec") or {}, _PoolSpec)
    except msgspec.ValidationError as error:
        return NodePool(given.name, (), problem=f"its NodePool cannot be read: {error}")
    wanted = spec.template.spec
    binding = [each for each in wanted.requirements if not _is_karpenters_choice(each.key)]
    candidates = own or [
        node for node in snapshot.all(Node) if all(each.allows(node.metadata.labels.get(each.key)) for each in binding)
    ]
    problem = _node_class_problem(raw, wanted.node_class_ref)
    if not candidates:
        unknown = "no node of the cluster shows what its instances look like: name a template with --pool FILE"
        return NodePool(name, (), problem=problem or unknown)
    node = node_template_of(max(candidates, key=_cores_of))
    node_class = _node_class(raw, wanted.node_class_ref)
    kubelet = (node_class.get("spec") or {}).get("kubelet") or {} if node_class else {}
    if isinstance(pods := kubelet.get("maxPods"), int):
        allocatable = {**node.status.allocatable, "pods": parse(str(pods))}
        node = structs.replace(node, status=structs.replace(node.status, allocatable=allocatable))
    maximum = _nodes_within_limits(spec.limits, node, own)
    if not maximum:
        limits = ", ".join(f"{key}: {value}" for key, value in spec.limits.items())
        problem = problem or f"its limits ({limits}) leave no room for another node"
    templates = tuple(_karpenter_templates(node, name, spec.template))
    return NodePool(name, templates, maximum, weight=spec.weight, problem=problem)


def _is_karpenters_choice(key: str) -> bool:
    return key in _CHOSEN_LABELS or not key.rpartition("/")[0].endswith(_WELL_KNOWN_DOMAINS)


def _node_class(raw: Iterable[RawObject], reference: "_NodeClassRef") -> dict[str, Any] | None:
    found = (each for each in raw if each.kind == reference.kind and each.name == reference.name)
    return next((each.tree for each in found), None)


def _node_class_problem(raw: Iterable[RawObject], reference: "_NodeClassRef") -> str:
    """Return why a NodePool's NodeClass prevents new instances (missing, not ready); empty if it does not."""
    if not reference.name:
        return ""
    found = _node_class(raw, reference)
    if found is None:
        return f"its {reference.kind} {reference.name} does not exist"
    for each in (found.get("status") or {}).get("conditions") or ():
        if each.get("type") == "Ready" and each.get("status") == "False":
            why = each.get("message") or each.get("reason", "")
            return f"its {reference.kind} {reference.name} is not ready: {why}"
    return ""


def _nodes_within_limits(limits: dict[str, Any], template: Node, own: Sequence[Node]) -> int:
    """Return how many more nodes of the template's size the limits of a NodePool allow, besides its `own` nodes."""
    left = _MOST_NODES
    for resource, limit in limits.items():
        size = template.status.allocatable.get(resource)
        if size is not None and size.sign() > 0:
            used = sum(
                node.status.allocatable[resource].as_approximate_float()
                for node in own
                if resource in node.status.allocatable
            )
            left = min(left, int((parse(str(limit)).as_approximate_float() - used) / size.as_approximate_float()))
    return max(left, 0)


def explain_pools(snapshot: Snapshot, pools: Iterable[NodePool], pod: Pod) -> list[PoolVerdict]:
    """Evaluate a pod on a new node of each pool; return a verdict by pool: those that fit first, then by reasons."""
    from mooring.advisor.snapshot import engine  # noqa: PLC0415 - a cycle otherwise

    asked = engine(snapshot)
    spec = structs.replace(pod.spec, node_name="", scheduler_name=DEFAULT_SCHEDULER)
    daemons = snapshot.all(DaemonSet)
    ordered = sorted(pools, key=lambda pool: bool(pool.problem))
    found = [_evaluate_pool(asked, pool, structs.replace(pod, spec=spec), daemons) for pool in ordered]
    return sorted(found, key=lambda each: (not each.fits, len(each.reasons)))


def _evaluate_pool(asked: Engine, pool: NodePool, pod: Pod, daemons: Sequence[DaemonSet]) -> PoolVerdict:
    if pool.problem:
        return PoolVerdict(pool.name, fits=False, reasons=(pool.problem,))
    statuses = []
    for template in pool.templates:
        node = _new_node(pool.name, template, 0)
        pods = _put_instance(asked, node, daemons, ConstraintOptions())
        statuses.append(asked.explain(pod)[node.metadata.name].status)
        _remove_instance(asked, node, pods)
    nearest = min(statuses, key=lambda each: (not each.is_success, len(each.reasons)))
    if nearest.is_success and not pool.maximum:
        return PoolVerdict(pool.name, fits=False, reasons=("it has its maximum number of nodes",))
    return PoolVerdict(pool.name, nearest.is_success, tuple(nearest.reasons))


def _put_instance(asked: Engine, node: Node, daemons: Iterable[DaemonSet], options: ConstraintOptions) -> list[Pod]:
    """Add a new node to the engine, and the pods that DaemonSets run on it; return the DaemonSet pods."""
    asked.put(node)
    pods = []
    for each in daemons:
        template = each.spec.template.spec
        if daemon_nodes.DaemonPlacement(template, options).evaluate(node).should_run:
            containers = []
            for container in template.containers:  # missing requests are the limits, as the API server sets them
                given = container.resources
                resources = structs.replace(given, requests={**given.limits, **given.requests})
                containers.append(structs.replace(container, resources=resources))
            meta = ObjectMeta(
                name=f"{each.metadata.name}-{node.metadata.name}",
                namespace=each.metadata.namespace,
                labels=each.spec.template.metadata.labels,
            )
            spec = structs.replace(template, node_name=node.metadata.name, containers=containers)
            pods.append(Pod(metadata=meta, spec=spec))
            asked.put(pods[-1])
    return pods


def _remove_instance(asked: Engine, node: Node, pods: Iterable[Pod]) -> None:
    for pod in pods:
        asked.remove(pod)
    asked.remove(node)


class Autoscaler:
    """The simulated autoscaler: adds nodes from pools for pods that fit on no node."""

    def __init__(self, world: "World", pools: Sequence[NodePool]) -> None:
        self._world = world
        self._pools = sorted((each for each in pools if not each.problem), key=lambda pool: (-pool.weight, pool.price))
        self._made: dict[str, int] = {}
        self._arrivals: list[tuple[float, int, Node]] = []
        self._scanned_revision = -1
        self.added: list[tuple[float, str, str]] = []
        """Time, node and pool of every added node."""

    def next_due(self) -> float | None:
        """Return when an ordered node is ready, or else when to check pending pods again; None if neither is due."""
        if self._arrivals:
            return self._arrivals[0][0]
        has_pending = len(self._world.pods) > self._world.running
        if self._pools and has_pending and self._scanned_revision != self._world.revision:
            return self._world.clock.monotonic() + _SCAN_SECONDS
        return None

    def run(self) -> None:
        """Add the ordered nodes that are ready by now; if no more are on the way, order nodes for pending pods."""
        now = self._world.clock.monotonic()
        while self._arrivals and self._arrivals[0][0] <= now:
            _, _, node = heapq.heappop(self._arrivals)
            self._world.put_node(node)
            self._scanned_revision = self._world.revision  # pods are placed there first
        if self._pools and not self._arrivals and self._scanned_revision != self._world.revision:
            self._order_nodes(now)
            self._scanned_revision = self._world.revision

    def _order_nodes(self, now: float) -> None:
        profiles = self._world.engine.profiles
        pending = [
            each.pod
            for each in self._world.pods.values()
            if not each.node and each.message and each.pod.spec.scheduler_name in profiles and not each.is_daemon
        ]
        for pool in self._pools:
            left = pool.maximum - self._made.get(pool.name, 0)
            if not pending or left <= 0:
                continue
            nodes, pending = self._pack_pods(pool, pending, left)
            for node in nodes:
                self._made[pool.name] = self._made.get(pool.name, 0) + 1
                heapq.heappush(self._arrivals, (now + pool.ready_seconds, len(self.added), node))
                self.added.append((now + pool.ready_seconds, node.metadata.name, pool.name))

    def _pack_pods(self, pool: NodePool, pods: list[Pod], most: int) -> tuple[list[Node], list[Pod]]:
        """Fit pods onto up to `most` new nodes of a pool; return the new nodes, and the pods that fit on none."""
        engine = self._world.engine
        owners = (owner.object for owner in self._world.workloads.list_all())
        daemons = [each for each in owners if isinstance(each, DaemonSet)]
        options = self._world.settings.features.constraints
        made: list[tuple[Node, list[Pod]]] = []
        assumed: list[Pod] = []
        left: list[Pod] = []
        for pod in pods:
            target = engine.schedule(pod).node if made else None
            for template in pool.templates if target is None and len(made) < most else ():
                node = _new_node(pool.name, template, self._made.get(pool.name, 0) + len(made) + 1)
                beside = _put_instance(engine, node, daemons, options)
                target = engine.schedule(pod).node
                if target is not None:
                    made.append((node, beside))
                    break
                _remove_instance(engine, node, beside)
            if target is None:
                left.append(pod)
            else:
                engine.assume(pod, target)
                assumed.append(pod)
        for pod in assumed:
            engine.forget(pod)
        for node, beside in made:
            _remove_instance(engine, node, beside)
        return [node for node, _ in made], left


def _new_node(pool: str, template: Node, number: int) -> Node:
    return with_node_name(template, f"{pool}-new-{number}")


def _karpenter_templates(node: Node, pool: str, template: "_PoolTemplate") -> Iterator[Node]:
    """Yield copies of a node with a NodePool's labels and taints: one for each zone and capacity type it allows."""
    required = {each.key: each.values for each in template.spec.requirements if each.operator == "In" and each.values}
    given = template.spec.taints
    known = {(taint.key, taint.effect) for taint in given}
    taints = [*given, *(taint for taint in node.spec.taints if (taint.key, taint.effect) not in known)]
    spec = structs.replace(node.spec, taints=taints)
    choices = {key: values for key, values in required.items() if _is_karpenters_choice(key)}
    fixed = {key: values[0] for key, values in required.items() if len(values) == 1}
    labels = {**node.metadata.labels, GROUP_LABELS[0]: pool, **template.metadata.labels, **fixed}
    for chosen in product(*choices.values()):
        meta = structs.replace(node.metadata, labels={**labels, **dict(zip(choices, chosen, strict=True))})
        yield structs.replace(node, metadata=meta, spec=spec)


def _cores_of(node: Node) -> float:
    found = node.status.allocatable.get("cpu")
    return found.as_approximate_float() if found is not None else 0.0
