"""Tables read straight from a checkout of Kubernetes (``MOORING_KUBERNETES``); nothing of it is kept here.

Each table names a Go test and how one of its cases is played. Cases that use functions or types which the reader of Go
does not know are left out, with what was not understood. Tests of controllers (disruption, job, daemon) are not here:
their cases are closures over fake clients, not values.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from mooring.api import resource_v1, storage_v1
from mooring.api.codec import to_tree
from mooring.api.core_v1 import Node, PersistentVolume, PersistentVolumeClaim, Pod
from mooring.api.meta_v1 import Resource
from mooring.api.policy_v1 import PodDisruptionBudget
from mooring.scheduler.facade import DEFAULT_SCHEDULER, Engine, ProfileSpec
from mooring.scheduler.framework import Action, ClusterEvent, EnqueueExtensions, Kind
from mooring.scheduler.framework.events import QueueingHint
from mooring.scheduler.framework.profiles import PluginUse
from mooring.scheduler.framework.registry import PluginError
from mooring.testing.replay import Result
from upstream_tables import accepted
from upstream_tables.case import NotPlayableError, Tree, decode, difference
from upstream_tables.go_objects import Scope, dotted
from upstream_tables.go_source import Call, File, Function, Name, Parser, Select, UnreadableError
from upstream_tables.plugins import engine, node, pod, stock_reasons

_PLUGINS = Path("pkg/scheduler/framework/plugins")
_SMALL = {"cpu": "10m", "memory": "20", "pods": "32", "example.com/aaa": "5", "ephemeral-storage": "20"}
_SMALL |= {"hugepages-2Mi": "5"}


class Table(NamedTuple):
    """A test function of a Go file, and how to play one of its cases."""

    file: Path
    function: str
    play: Callable[[Scope, Mapping[str, Any]], str | None]


def play(root: Path) -> Result:
    """Play every table of a checkout."""
    result = Result()
    for table in TABLES:
        for label, problem in _cases(root, table):
            if isinstance(problem, Exception):
                result.left_out.append(f"{label}: {problem}")
            else:
                is_accepted = problem is not None and accepted.find("checkout", label, problem) is not None
                result.count(label, None if is_accepted else problem)
    return result


def _cases(root: Path, table: Table) -> Iterator[tuple[str, str | Exception | None]]:
    file = File(root / table.file)
    package = [File(path) for path in sorted((root / table.file).parent.glob("*.go"))]
    names = {name: value for each in package for name, value in each.variables()}
    functions = {name: value for each in package for name, value in each.functions().items()}
    scope = Scope(functions, {**names, **_HELPERS})
    if table.function.startswith("Test") or table.function.startswith("test"):
        variables, literal = file.table(table.function)
        for name, value in variables:
            scope.define(name, value)
    else:
        literal = file.variable(table.function)
    for key, case in literal.items:
        fields = {each.name: value for each, value in case.items if isinstance(each, Name)}
        label = f"{table.file.parent.name} {table.function}"
        try:
            own = fields.get("name") or fields.get("Name")
            label += f"/{scope.evaluate(own if own is not None else key)}"
            yield label, table.play(scope, fields)
        except (UnreadableError, NotPlayableError) as error:
            yield label, error
        except (ArithmeticError, LookupError, TypeError, ValueError, AttributeError) as error:
            yield label, f"{type(error).__name__}: {error}"


# -- functions of the test files that loop, in Python


def _resource_pod(*usages: Tree) -> Tree:
    return {"spec": {"containers": [_container(number, usage) for number, usage in enumerate(usages)]}}


def _container(number: int, usage: Tree) -> Tree:
    amounts = {"cpu": f"{usage.get('milliCPU', 0)}m", "memory": str(usage.get("memory", 0))}
    amounts["ephemeral-storage"] = str(usage.get("ephemeralStorage", 0))
    amounts |= {name: str(value) for name, value in (usage.get("scalarResources") or {}).items()}
    return {"name": f"c{number}", "image": "i", "resources": {"requests": amounts}}


def _init_pod(base: Tree, *usages: Tree) -> Tree:
    base["spec"]["initContainers"] = [_container(number, usage) for number, usage in enumerate(usages)]
    return base


def _port_pod(host: str, *ports: str) -> Tree:
    found = []
    for text in ports:
        protocol, address, port = text.split("/")
        found.append({"hostIP": address, "hostPort": int(port), "containerPort": int(port), "protocol": protocol})
    return {"spec": {"nodeName": host, "containers": [{"name": "c", "image": "i", "ports": found}]}}


def _status(code: str, *reasons: str) -> Tree:
    return {"code": code, "reasons": list(reasons)}


def _sized_node(name: str, milli_cpu: int, memory: int, others: Mapping[str, Any] | None) -> Tree:
    amounts = {"cpu": f"{milli_cpu}m", "memory": str(memory)}
    amounts |= {key: str(value) for key, value in (others or {}).items()}
    return {"metadata": {"name": name}, "status": {"capacity": amounts, "allocatable": amounts}}


_HELPERS: dict[str, Any] = {
    "makeNode": _sized_node,
    "newResourcePod": _resource_pod,
    "newResourceInitPod": _init_pod,
    "newPod": _port_pod,
    "framework.NewNodeInfo": lambda *pods: list(pods),
    "fwk.NewStatus": _status,
    "framework.NewPostFilterResultWithNominatedNode": lambda name: {"nominated": name},
    "framework.NewNodeToStatus": lambda statuses, _: statuses,
    "framework.NewDefaultNodeToStatus": dict,
}


# -- plugins


def _scored(kind: str) -> Callable[[Scope, Mapping[str, Any]], str | None]:
    """Play a case of a scoring strategy of NodeResourcesFit."""

    def play_case(scope: Scope, case: Mapping[str, Any]) -> str | None:
        if "draObjects" in case or "wantStatusCode" in case:
            raise NotPlayableError("about devices, or about a plugin without resources")
        strategy: Tree = {"type": kind, "resources": scope.evaluate(case["resources"])}
        if "shape" in case:
            shape = scope.evaluate(case["shape"])
            strategy["requestedToCapacityRatio"] = {"shape": shape}
        if "wantErrs" in case:
            return _refused("NodeResourcesFit", {"scoringStrategy": strategy})
        return _scores(scope, case, "NodeResourcesFit", {"scoringStrategy": strategy})

    return play_case


def _refused(plugin: str, arguments: Tree) -> str | None:
    try:
        engine(plugin, arguments, scores=True)
    except PluginError:
        return None
    return "the arguments are accepted, upstream refuses them"


def _balanced(scope: Scope, case: Mapping[str, Any]) -> str | None:
    if "draObjects" in case or "expectedPreScoreStatusCode" in case:
        raise NotPlayableError("about devices, or about PreScore alone")
    arguments = scope.evaluate(case["args"])
    return _scores(scope, case, "NodeResourcesBalancedAllocation", arguments)


def _scores(scope: Scope, case: Mapping[str, Any], plugin: str, arguments: Tree) -> str | None:
    running = engine(plugin, arguments, scores=True)
    for tree in scope.evaluate(case["nodes"]):
        running.put(decode(tree, Node))
    for tree in (scope.evaluate(case["existingPods"]) if "existingPods" in case else None) or ():
        running.put(_bare_pod(tree, keep_node=True))
    found = running.explain(_bare_pod(scope.evaluate(case["requestedPod"]), keep_node=False))
    ours = {name: each.scores.get(plugin, 0) for name, each in found.items()}
    return difference(ours, {each["name"]: each["score"] for each in scope.evaluate(case["expectedScores"])})


def _bare_pod(tree: Tree, *, keep_node: bool) -> Pod:
    """Decode a pod that has no containers where the case gives it none: then it requests nothing at all."""
    return pod({**tree, "spec": {"containers": [], **tree.get("spec", {})}}, keep_node=keep_node)


def _filtered(plugin: str, wanted: str) -> Callable[[Scope, Mapping[str, Any]], str | None]:
    """Play a case with a pod, the pods of one node, and the status that Filter should return."""

    def play_case(scope: Scope, case: Mapping[str, Any]) -> str | None:
        if "draExtendedResourceEnabled" in case:
            raise NotPlayableError("about devices")
        running = engine(plugin, scope.evaluate(case["args"]) if "args" in case else None)
        amounts = _SMALL if plugin == "NodeResourcesFit" else None
        tree: Tree = {"metadata": {"name": "m1"}}
        running.put(node(tree | ({"status": {"allocatable": amounts, "capacity": amounts}} if amounts else {})))
        for existing in scope.evaluate(case["nodeInfo"]):
            existing.setdefault("spec", {})["nodeName"] = "m1"
            running.put(pod(existing, keep_node=True))
        status = running.explain(pod(scope.evaluate(case["pod"]), keep_node=False))["m1"].status
        upstream = scope.evaluate(case[wanted]) if wanted in case else None
        want = upstream or {"code": "Success", "reasons": []}
        ours = (str(status.code), sorted(stock_reasons(status.reasons)))
        return difference(ours, (want["code"], sorted(want["reasons"])))

    return play_case


def _preempted(scope: Scope, case: Mapping[str, Any]) -> str | None:
    """Play a case of preemption in the profile that upstream's test has: resources alone."""
    if any(name in case for name in ("extender", "registerPlugins", "features", "podGroups")):
        raise NotPlayableError("about extenders, other plugins or pod groups")
    given = scope.evaluate(case["filteredNodesStatuses"])
    if any(status["code"] != "Unschedulable" for status in given.values()) or not given:
        raise NotPlayableError("statuses of filters that this cluster would not give")
    uses = [PluginUse(name, 1) for name in ("PrioritySort", "NodeResourcesFit", "DefaultPreemption", "DefaultBinder")]
    running = Engine((ProfileSpec(plugins=tuple(uses)),))
    for tree in scope.evaluate(case["nodes"]):
        running.put(node(tree))
    for tree in scope.evaluate(case["pods"]):
        running.put(pod(tree, keep_node=True))
    for tree in scope.evaluate(case["pdbs"]) if "pdbs" in case else ():
        running.put(decode(tree, PodDisruptionBudget))
    incoming = pod(scope.evaluate(case["pod"]), keep_node=False)
    if any(str(each.status.code) != "Unschedulable" for each in running.explain(incoming).values()):
        raise NotPlayableError("statuses of filters that this cluster would not give")
    outcome = running.schedule(incoming)
    after = running.post_filter(outcome)
    upstream = scope.evaluate(case["wantResult"])
    wanted = upstream["nominated"] if upstream else ""
    problem = difference(after.nominated or "", wanted)
    status = scope.evaluate(case["wantStatus"])
    return problem or difference(list(after.status.reasons), status["reasons"])


# -- queueing

_INITIAL: dict[str, type[Resource]] = {
    "InitialNodes": Node,
    "InitialPods": Pod,
    "InitialPVs": PersistentVolume,
    "InitialPVCs": PersistentVolumeClaim,
    "InitialStorageClasses": storage_v1.StorageClass,
    "InitialCSINodes": storage_v1.CSINode,
    "InitialCSIDrivers": storage_v1.CSIDriver,
    "InitialStorageCapacities": storage_v1.CSIStorageCapacity,
    "InitialVolumeAttachment": storage_v1.VolumeAttachment,
    "InitialDeviceClasses": resource_v1.DeviceClass,
}
_RESOURCES: dict[str, tuple[type[Resource], Kind | None]] = {
    "Nodes": (Node, Kind.NODE),
    "Pods": (Pod, None),
    "PersistentVolumes": (PersistentVolume, Kind.PERSISTENT_VOLUME),
    "PersistentVolumeClaims": (PersistentVolumeClaim, Kind.PERSISTENT_VOLUME_CLAIM),
    "StorageClasses": (storage_v1.StorageClass, Kind.STORAGE_CLASS),
    "CSINodes": (storage_v1.CSINode, Kind.CSI_NODE),
    "CSIDrivers": (storage_v1.CSIDriver, Kind.CSI_DRIVER),
    "CSIStorageCapacities": (storage_v1.CSIStorageCapacity, Kind.CSI_STORAGE_CAPACITY),
    "VolumeAttachments": (storage_v1.VolumeAttachment, Kind.VOLUME_ATTACHMENT),
    "DeviceClasses": (resource_v1.DeviceClass, Kind.DEVICE_CLASS),
    "ResourceSlices": (resource_v1.ResourceSlice, Kind.RESOURCE_SLICE),
}
_ACTIONS = {
    "Add": Action.ADD,
    "Delete": Action.DELETE,
    "Update": Action.UPDATE_OTHER,
    "UpdateNodeLabel": Action.UPDATE_NODE_LABEL,
    "UpdateNodeTaint": Action.UPDATE_NODE_TAINT,
    "UpdateNodeAllocatable": Action.UPDATE_NODE_ALLOCATABLE,
    "UpdatePodLabel": Action.UPDATE_POD_LABEL,
    "UpdatePodScaleDown": Action.UPDATE_POD_SCALE_DOWN,
    "UpdatePodToleration": Action.UPDATE_POD_TOLERATION,
}
_KINDS = {"AssignedPod": Kind.ASSIGNED_POD, "UnscheduledPod": Kind.TARGET_POD}


_STATES = {"EnableDRAExtendedResource": False}
"""The state, in Mooring, of gates that cases switch: devices never stand for extended resources."""


class _Change(NamedTuple):
    event: ClusterEvent
    old: Resource | None
    new: Resource | None


def _object(tree: Tree, kind: type[Resource]) -> Resource:
    if kind is Pod:
        return pod(tree, keep_node=True)
    if kind is Node:
        return node(tree)
    metadata = dict(tree.get("metadata", {}))
    if kind in (PersistentVolumeClaim, storage_v1.CSIStorageCapacity):
        metadata.setdefault("namespace", "default")
    return decode({**tree, "metadata": metadata}, kind)


def _queueing(scope: Scope, case: Mapping[str, Any]) -> str | None:
    gates = {name: scope.evaluate(value) for name, value in case.items() if name.startswith("Enable")}
    gates.pop("EnablePlugins", None)
    if not gates.items() <= _STATES.items() or "InitialPodGroups" in case:
        raise NotPlayableError("about a gate that Mooring has in another state, or not at all")
    if "ExpectedInitialRejectingPhase" in case:
        raise NotPlayableError("about PreEnqueue, which the queue's own tests cover")
    names = scope.evaluate(case["EnablePlugins"]) if "EnablePlugins" in case else []
    uses = [PluginUse(name, 1) for name in dict.fromkeys(("PrioritySort", *names, "DefaultBinder"))]
    running = Engine((ProfileSpec(plugins=tuple(uses)) if names else ProfileSpec(),))
    known: dict[tuple[type[Resource], str], Resource] = {}
    for field, kind in _INITIAL.items():
        for tree in scope.evaluate(case[field]) if field in case else ():
            thing = known[kind, tree["metadata"]["name"]] = _object(tree, kind)
            running.put(thing)
    pending: dict[str, tuple[Pod, frozenset[str]]] = {}
    for tree in scope.evaluate(case["Pods"]):
        waiting = pod(tree, keep_node=False)
        outcome = running.schedule(waiting)
        if outcome.diagnosis is None:
            return f"{waiting.metadata.name} fits at once"
        pending[waiting.metadata.name] = waiting, outcome.diagnosis.plugins
        known[Pod, waiting.metadata.name] = waiting
    changes = _trigger(scope, scope.evaluate(case["TriggerFn"]), known, running)
    ours = {
        name for name, (waiting, by) in pending.items() if any(_retries(running, waiting, by, each) for each in changes)
    }
    return difference(sorted(ours), sorted(scope.evaluate(case["WantRequeuedPods"]) or ()))


def _retries(running: Engine, waiting: Pod, rejecting: frozenset[str], change: _Change) -> bool:
    is_own = isinstance(change.new, Pod) and change.new.metadata.name == waiting.metadata.name
    if (change.event.kind is Kind.TARGET_POD) != is_own:
        return False
    target = change.new if is_own and isinstance(change.new, Pod) else waiting
    for plugin in running.profiles[DEFAULT_SCHEDULER].plugins:
        if plugin.name not in rejecting or not isinstance(plugin, EnqueueExtensions):
            continue
        for registered in plugin.events_to_register():
            if registered.event.covers(change.event) and (
                registered.hint is None or registered.hint(target, change.old, change.new) is QueueingHint.QUEUE
            ):
                return True
    return False


def _trigger(
    scope: Scope, function: Function, known: dict[tuple[type[Resource], str], Resource], running: Engine
) -> list[_Change]:
    """Run the statements of a trigger: API calls change the engine, and what it returns names the events."""
    inner = Scope({}, {**scope.names, **_HELPERS})
    calls: list[tuple[Any, Resource | None, Resource | None]] = []
    events: list[ClusterEvent] = []
    parser = Parser(function.body)
    while parser.token:
        parser.skip_breaks()
        if parser.accept("return"):
            events = _events(inner, parser)
            break
        if not parser.token:
            break
        is_if = parser.accept("if")
        targets = [parser.expression(in_header=is_if)]
        while parser.accept(","):
            targets.append(parser.expression(in_header=is_if))
        value = parser.expression(in_header=is_if) if parser.accept(":=") or parser.accept("=") else targets[0]
        if is_if:
            while parser.token != "{":
                parser.take()
            parser.block()
        if (call := _api_call(value)) is not None and call[1] == "Get" and isinstance(targets[0], Name):
            stored = known[_RESOURCES[call[0]][0], inner.evaluate(call[2][1])]
            inner.define(targets[0].name, to_tree(stored))
        elif call is not None:
            found = _apply(inner, call, known, running)
            calls.append(found)
            if isinstance(targets[0], Name) and targets[0].name not in ("_", "err"):
                raise UnreadableError("the answer of an API call")
        elif isinstance(targets[0], Name) and value is not targets[0]:
            inner.define(targets[0].name, inner.evaluate(value))
        elif isinstance(targets[0], Select) and value is not targets[0]:
            inner.assign(targets[0], inner.evaluate(value))
        elif isinstance(value, Call) and dotted(value.function) == "metav1.SetMetaDataAnnotation":
            inner.annotate(*value.arguments)
        elif not is_if:
            raise UnreadableError("a statement of the trigger")
    if len(events) == 1:
        events *= len(calls)
    if len(events) != len(calls):
        raise NotPlayableError("the log of events does not say which call caused which")
    return [_Change(event, old, new) for event, (_, old, new) in zip(events, calls, strict=True)]


def _api_call(value: Any) -> tuple[str, str, list[Any]] | None:
    """Return resource, verb and arguments of `testCtx.ClientSet.CoreV1().Nodes().Create(…)`."""
    if not isinstance(value, Call) or not isinstance(value.function, Select):
        return None
    holder = value.function.holder
    if isinstance(holder, Call) and isinstance(holder.function, Select) and holder.function.name in _RESOURCES:
        return holder.function.name, value.function.name, value.arguments
    return None


def _apply(
    scope: Scope, call: tuple[str, str, list[Any]], known: dict[tuple[type[Resource], str], Resource], running: Engine
) -> tuple[Any, Resource | None, Resource | None]:
    resource, verb, arguments = call
    kind, _ = _RESOURCES[resource]
    if verb == "Delete":
        old = known.pop((kind, scope.evaluate(arguments[1])))
        running.remove(old)
        return kind, old, None
    if verb not in ("Create", "Update", "UpdateStatus", "UpdateResize"):
        raise UnreadableError(f"{resource}.{verb}")
    tree = scope.evaluate(arguments[2 if verb == "UpdateResize" else 1])
    new = _object(tree, kind)
    before = known.get((kind, tree["metadata"]["name"]))
    if before is not None:
        new.metadata.uid = before.metadata.uid
        if isinstance(new, Node) and isinstance(before, Node):
            spec_only = verb == "Update"
            new.status = before.status if spec_only else new.status
        if isinstance(new, Pod) and isinstance(before, Pod) and not new.spec.node_name:
            new.spec.node_name = before.spec.node_name
    known[kind, tree["metadata"]["name"]] = new
    if not isinstance(new, Pod) or new.spec.node_name:
        running.put(new)
    return kind, before, new


def _events(scope: Scope, parser: Parser) -> list[ClusterEvent]:
    literal = parser.expression()
    found = []
    for key, value in literal.items:
        found += [_event(scope, key)] * int(scope.evaluate(value))
    return found


def _event(scope: Scope, key: Any) -> ClusterEvent:
    if isinstance(key, Select):
        match = re.fullmatch(r"Event(AssignedPod|UnscheduledPod)(Add|Delete|Update\w*)", key.name)
        if match is None:
            raise UnreadableError(key.name)
        action = Action.UPDATE_POD_LABEL if match[2] == "Update" else _ACTIONS[match[2]]
        return ClusterEvent(_KINDS[match[1]], action)
    tree = scope.evaluate(key, "fwk.ClusterEvent")
    resource, action = tree["resource"], tree["actionType"]
    kinds = {kind.value: kind for kind in Kind}
    if action not in _ACTIONS:
        raise UnreadableError(f"the action {action}")
    return ClusterEvent(_KINDS.get(resource) or kinds[resource], _ACTIONS[action])


TABLES = (
    Table(
        _PLUGINS / "noderesources/least_allocated_test.go",
        "TestLeastAllocatedScoringStrategy",
        _scored("LeastAllocated"),
    ),
    Table(
        _PLUGINS / "noderesources/most_allocated_test.go", "TestMostAllocatedScoringStrategy", _scored("MostAllocated")
    ),
    Table(_PLUGINS / "noderesources/balanced_allocation_test.go", "testNodeResourcesBalancedAllocation", _balanced),
    Table(_PLUGINS / "noderesources/fit_test.go", "testEnoughRequests", _filtered("NodeResourcesFit", "wantStatus")),
    Table(_PLUGINS / "nodeports/node_ports_test.go", "TestNodePorts", _filtered("NodePorts", "wantFilterStatus")),
    Table(
        _PLUGINS / "volumerestrictions/volume_restrictions_test.go",
        "TestGCEDiskConflicts",
        _filtered("VolumeRestrictions", "wantStatus"),
    ),
    Table(
        _PLUGINS / "volumerestrictions/volume_restrictions_test.go",
        "TestAWSDiskConflicts",
        _filtered("VolumeRestrictions", "wantStatus"),
    ),
    Table(
        _PLUGINS / "volumerestrictions/volume_restrictions_test.go",
        "TestRBDDiskConflicts",
        _filtered("VolumeRestrictions", "wantStatus"),
    ),
    Table(
        _PLUGINS / "volumerestrictions/volume_restrictions_test.go",
        "TestISCSIDiskConflicts",
        _filtered("VolumeRestrictions", "wantStatus"),
    ),
    Table(_PLUGINS / "defaultpreemption/default_preemption_test.go", "TestPostFilter", _preempted),
    Table(Path("test/integration/scheduler/queueing/queue.go"), "CoreResourceEnqueueTestCases", _queueing),
)
