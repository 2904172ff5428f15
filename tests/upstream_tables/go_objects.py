"""Evaluate parsed Go to plain values: API objects and the scheduler's test builders become trees as in JSON."""

import copy
import re
from collections.abc import Callable, Mapping
from typing import Any

from upstream_tables.case import Tree
from upstream_tables.go_source import (
    Call,
    Composite,
    Function,
    Index,
    Literal,
    Name,
    Operation,
    Parser,
    Select,
    UnreadableError,
)

_CONSTANTS: dict[str, Any] = {
    "true": True,
    "false": False,
    "nil": None,
    "v1.ResourceCPU": "cpu",
    "v1.ResourceMemory": "memory",
    "v1.ResourcePods": "pods",
    "v1.ResourceEphemeralStorage": "ephemeral-storage",
    "v1.ResourceStorage": "storage",
    "v1.TaintNodeNotReady": "node.kubernetes.io/not-ready",
    "v1.TaintNodeUnschedulable": "node.kubernetes.io/unschedulable",
    "v1.LabelTopologyZone": "topology.kubernetes.io/zone",
    "v1.LabelTopologyRegion": "topology.kubernetes.io/region",
    "v1.LabelHostname": "kubernetes.io/hostname",
    "v1.PreemptNever": "Never",
    "st.NodeSelectorTypeMatchExpressions": "matchExpressions",
    "st.NodeSelectorTypeMatchFields": "matchFields",
    "storagev1.VolumeBindingWaitForFirstConsumer": "WaitForFirstConsumer",
    "storagev1.VolumeBindingImmediate": "Immediate",
    "math.MaxInt32": 2**31 - 1,
    "math.MaxInt64": 2**63 - 1,
    "volume.AnnBindCompleted": "pv.kubernetes.io/bind-completed",
    "volume.AnnBoundByController": "pv.kubernetes.io/bound-by-controller",
    "v1.MigratedPluginsAnnotationKey": "storage.alpha.kubernetes.io/migrated-plugins",
    "metav1.NamespaceDefault": "default",
    "v1.NamespaceDefault": "default",
    "v1.HostPathDirectoryOrCreate": "DirectoryOrCreate",
    "v1.DoNotSchedule": "DoNotSchedule",
    "v1.ScheduleAnyway": "ScheduleAnyway",
    "v1.LabelFailureDomainBetaZone": "failure-domain.beta.kubernetes.io/zone",
    "v1.LabelFailureDomainBetaRegion": "failure-domain.beta.kubernetes.io/region",
    "v1.VolumeScheduling": "VolumeScheduling",
    "config.LeastAllocated": "LeastAllocated",
    "config.MostAllocated": "MostAllocated",
    "config.RequestedToCapacityRatio": "RequestedToCapacityRatio",
    "schedutil.DefaultMilliCPURequest": 100,
    "schedutil.DefaultMemoryRequest": 200 * 1024 * 1024,
    "v1.ResourceHugePagesPrefix": "hugepages-",
    "fwk.MinNodeScore": 0,
    "fwk.MaxNodeScore": 100,
    "resource.DecimalSI": "DecimalSI",
    "resource.BinarySI": "BinarySI",
}
_ENUMS = re.compile(
    r"v1\.(?:TaintEffect|TolerationOp|NodeSelectorOp|Pod(?=Running|Pending|Succeeded|Failed)|Condition|Protocol|Claim"
    r"|Volume(?=Bound|Available)|NodeInclusionPolicy|RestartPolicy|ContainerRestartPolicy|LabelSelectorOp|PersistentVolume(?=FS|Filesystem|Block))(\w+)$"
)
_EMBEDDED = {"ObjectMeta": "metadata", "TypeMeta": "", "VolumeSource": "", "PersistentVolumeSource": ""}
_SPELLED = {"PodIP": "podIP", "HostIP": "hostIP", "UID": "uid", "CSI": "csi", "GCEPersistentDisk": "gcePersistentDisk"}
_SPELLED |= {"AWSElasticBlockStore": "awsElasticBlockStore", "RBD": "rbd", "ISCSI": "iscsi", "NFS": "nfs", "FC": "fc"}
_SPELLED |= {"IQN": "iqn", "NodeID": "nodeID", "PDName": "pdName", "VolumeID": "volumeID", "FSType": "fsType"}
_SPELLED |= {"CephMonitors": "monitors", "RBDImage": "image", "RBDPool": "pool"}


def json_name(field: str) -> str:
    """Return the JSON name of a Go field."""
    return _SPELLED.get(field) or field[:1].lower() + field[1:]


class Scope:
    """The meaning of names: constants, builders, and the functions and variables of a file."""

    def __init__(self, functions: Mapping[str, Function], names: Mapping[str, Any] | None = None) -> None:
        self._functions = functions
        self._names: dict[str, Any] = dict(names or {})
        self._busy: set[str] = set()

    @property
    def names(self) -> Mapping[str, Any]:
        return self._names

    def define(self, name: str, value: Any) -> None:
        self._names[name] = value

    def evaluate(self, value: Any, hint: str = "") -> Any:
        """Return what an expression means; `hint` is the type that Go lets a literal leave out."""
        match value:
            case Literal(found):
                return found
            case Name(name):
                return self._named(name)
            case Composite(kind, items):
                return self._composite(kind or hint, items)
            case Select(holder, name):
                return self._selected(holder, name)
            case Call(function, arguments):
                return self._call(function, arguments)
            case Operation(operator, operands):
                return _operate(operator, [self.evaluate(each) for each in operands])
            case Index(holder, index):
                return self.evaluate(holder)[self.evaluate(index)]
            case Function():
                return value
        raise UnreadableError(f"the expression {value!r:.80}")

    def _named(self, name: str) -> Any:
        if name in _CONSTANTS:
            return _CONSTANTS[name]
        if name not in self._names or name in self._busy:
            raise UnreadableError(f"the name {name}")
        found = self._names[name]
        if isinstance(found, tuple):  # not evaluated yet
            self._busy.add(name)
            try:
                found = self._names[name] = self.evaluate(found)
            finally:
                self._busy.discard(name)
        return copy.deepcopy(found)

    def _selected(self, holder: Any, name: str) -> Any:
        if isinstance(holder, Name) and holder.name not in self._names:
            text = f"{holder.name}.{name}"
            if text in _CONSTANTS:
                return _CONSTANTS[text]
            if enum := _ENUMS.match(text):
                return enum[1]
            if text.startswith("v1.Read"):
                return name
            if holder.name in ("names", "fwk", "framework", "features", "st"):
                return name
            raise UnreadableError(text)
        found = self.evaluate(holder)
        key = _EMBEDDED.get(name) or json_name(name)
        if not isinstance(found, dict):
            raise UnreadableError(f"the field {name}")
        return found.get(key, found.get("metadata", {}).get(key))

    def _composite(self, kind: str, items: list[tuple[Any, Any]]) -> Any:
        kind = kind.lstrip("*&")
        if kind.startswith("[") and "]" in kind:
            return [self.evaluate(value, kind[kind.index("]") + 1 :]) for _, value in items]
        if kind.startswith("map["):
            inner = kind[kind.index("]") + 1 :]
            return {
                _hashable(self.evaluate(key, kind[4 : kind.index("]")])): self.evaluate(value, inner)
                for key, value in items
            }
        if kind.endswith(("ResourceList", "sets.Set")):
            return {self.evaluate(key): self.evaluate(value) for key, value in items if key is not None}
        found: Tree = {}
        for key, value in items:
            if not isinstance(key, Name):
                raise UnreadableError(f"a literal of {kind or 'a struct'} without field names")
            field, inner = key.name, self.evaluate(value)
            name = _EMBEDDED.get(field, json_name(field))
            if name == "":
                found |= inner if field != "TypeMeta" else {}
            else:
                found[name] = inner
        return found

    def _call(self, function: Any, arguments: list[Any]) -> Any:
        text = dotted(function)
        if isinstance(function, Select) and not text:
            receiver = self.evaluate(function.holder)
            if isinstance(receiver, Builder):
                return receiver.call(function.name, [self.evaluate(each) for each in arguments])
            raise UnreadableError(f"the method {function.name}")
        if text.split(".")[-1].startswith("Make") and text.startswith("st."):
            return Builder(text.split(".")[-1][4:], [self.evaluate(each) for each in arguments])
        if callable(helper := self._names.get(text)):
            return helper(*[self.evaluate(each) for each in arguments])
        if text in _FUNCTIONS:
            return _FUNCTIONS[text](*[self.evaluate(each) for each in arguments])
        if text in ("string", "int32", "int64", "int", "v1.ResourceName", "types.UID", "metav1.Time"):
            return self.evaluate(arguments[0])
        if text in self._functions:
            return self.run(self._functions[text], [self.evaluate(each) for each in arguments])
        if isinstance(function, Name) and isinstance(self._names.get(text), Function):
            return self.run(self._names[text], [self.evaluate(each) for each in arguments])
        if isinstance(function, Select) and isinstance(function.holder, Name) and function.holder.name in self._names:
            receiver = self._named(function.holder.name)
            if isinstance(receiver, Builder):
                return receiver.call(function.name, [self.evaluate(each) for each in arguments])
            if function.name == "DeepCopy":
                return receiver
        raise UnreadableError(f"the function {text or function!r:.60}")

    def run(self, function: Function, arguments: list[Any]) -> Any:
        """Run a function of straight statements; return what it returns."""
        inner = Scope(self._functions, self._names)
        for name, value in zip(function.parameters, arguments, strict=False):
            inner.define(name, value)
        parser = Parser(function.body)
        while parser.token:
            parser.skip_breaks()
            if parser.accept("return"):
                return inner.evaluate(parser.expression())
            if not parser.token:
                break
            inner.statement(parser)
        return None

    def statement(self, parser: Parser) -> None:
        """Run one assignment."""
        target = parser.expression()
        if not parser.accept(":=") and not parser.accept("="):
            raise UnreadableError(f"the statement at {parser.token!r}")
        self.assign(target, self.evaluate(parser.expression()))

    def assign(self, target: Any, value: Any) -> None:
        """Assign a value to a variable, or to a field of one."""
        if isinstance(target, Name):
            self.define(target.name, value)
            return
        steps = []
        while isinstance(target, Select):
            steps.append(_EMBEDDED.get(target.name) or json_name(target.name))
            target = target.holder
        if not isinstance(target, Name) or not isinstance(here := self._names.get(target.name), dict):
            raise UnreadableError("an assignment")
        for step in reversed(steps[1:]):
            here = here.setdefault(step, {})
        here[steps[0]] = value

    def annotate(self, metadata: Any, key: Any, value: Any) -> None:
        """Run `metav1.SetMetaDataAnnotation(&object.ObjectMeta, key, value)`."""
        if not isinstance(metadata, Select) or not isinstance(metadata.holder, Name):
            raise UnreadableError("the object of an annotation")
        annotations = self._names[metadata.holder.name]["metadata"].setdefault("annotations", {})
        annotations[self.evaluate(key)] = self.evaluate(value)


def _hashable(value: Any) -> Any:
    return tuple(sorted(value.items())) if isinstance(value, dict) else value


def dotted(value: Any) -> str:
    if isinstance(value, Name):
        return value.name
    if isinstance(value, Select) and isinstance(value.holder, Name):
        return f"{value.holder.name}.{value.name}"
    return ""


def _operate(operator: str, values: list[Any]) -> Any:
    if operator == "-" and len(values) == 1:
        return -values[0]
    operations: dict[str, Callable[[Any, Any], Any]] = {
        "+": lambda a, b: a + b,
        "-": lambda a, b: a - b,
        "*": lambda a, b: a * b,
        "/": lambda a, b: a // b if isinstance(a, int) else a / b,
        "|": lambda a, b: f"{a}|{b}",
    }
    if operator not in operations or len(values) != 2:
        raise UnreadableError(f"the operator {operator}")
    return operations[operator](*values)


_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "resource.MustParse": lambda text: text,
    "ptr.To": lambda value: value,
    "new": lambda *_: None,
    "sets.New": lambda *values: dict.fromkeys(values),
    "sets.NewString": lambda *values: dict.fromkeys(values),
    "fmt.Sprintf": lambda form, *values: form.replace("%d", "%s").replace("%v", "%s").replace("%q", '"%s"') % values,
    "resource.NewQuantity": lambda value, _: str(value),
    "resource.NewMilliQuantity": lambda value, _: f"{value}m",
    "metav1.NewTime": lambda value: value,
    "intstr.FromInt32": lambda value: value,
    "intstr.FromInt": lambda value: value,
    "intstr.FromString": lambda value: value,
}


class Builder:
    """One of the scheduler's test builders: `Obj` gives the tree."""

    def __init__(self, kind: str, arguments: list[Any]) -> None:
        self.tree: Tree = {"metadata": {"name": ""}}
        self._kind = kind
        if kind in ("LabelSelector", "NodeSelector", "Container"):
            self.tree = {}
        elif arguments:
            raise UnreadableError(f"st.Make{kind} with arguments")

    def call(self, method: str, arguments: list[Any]) -> Any:
        if method == "Obj":
            return self.tree
        own = getattr(self, f"_{self._kind}_{method}", None) or getattr(self, f"_{method}", None)
        if own is None:
            raise UnreadableError(f"{self._kind}.{method}")
        own(*arguments)
        return self

    @property
    def spec(self) -> Tree:
        spec: Tree = self.tree.setdefault("spec", {})
        return spec

    # -- all kinds

    def _Name(self, name: str) -> None:  # noqa: N802 - Go's names
        (self.tree if self._kind == "Container" else self.tree["metadata"])["name"] = name

    def _Namespace(self, name: str) -> None:  # noqa: N802
        self.tree["metadata"]["namespace"] = name

    def _UID(self, uid: str) -> None:  # noqa: N802
        self.tree["metadata"]["uid"] = uid

    def _Label(self, key: str, value: str) -> None:  # noqa: N802
        holder = (
            self.tree.setdefault("matchLabels", {})
            if self._kind == "LabelSelector"
            else self.tree["metadata"].setdefault("labels", {})
        )
        holder[key] = value

    def _Labels(self, labels: dict[str, str]) -> None:  # noqa: N802
        self.tree["metadata"]["labels"] = labels

    def _Annotation(self, key: str, value: str) -> None:  # noqa: N802
        self.tree["metadata"].setdefault("annotations", {})[key] = value

    def _CreationTimestamp(self, _: Any) -> None:  # noqa: N802
        return

    # -- selectors

    def _expression(self, key: str, operator: str, values: list[str] | None = None) -> None:
        found: Tree = {"key": key, "operator": operator}
        if values is not None:
            found["values"] = values
        self.tree.setdefault("matchExpressions", []).append(found)

    def _LabelSelector_In(self, key: str, values: list[str]) -> None:  # noqa: N802
        self._expression(key, "In", values)

    def _LabelSelector_NotIn(self, key: str, values: list[str]) -> None:  # noqa: N802
        self._expression(key, "NotIn", values)

    def _LabelSelector_Exists(self, key: str) -> None:  # noqa: N802
        self._expression(key, "Exists")

    def _LabelSelector_NotExist(self, key: str) -> None:  # noqa: N802
        self._expression(key, "DoesNotExist")

    # -- nodes

    def _Node_Capacity(self, amounts: dict[str, str]) -> None:  # noqa: N802
        amounts = {"pods": "32", **{key: str(value) for key, value in amounts.items()}}
        self.tree["status"] = {**self.tree.get("status", {}), "capacity": amounts, "allocatable": amounts}

    def _Node_Taints(self, taints: list[Tree]) -> None:  # noqa: N802
        self.spec["taints"] = taints

    def _Node_Unschedulable(self, value: bool) -> None:  # noqa: N802
        self.spec["unschedulable"] = value

    def _Node_Images(self, images: dict[str, int]) -> None:  # noqa: N802
        found = [{"names": [name], "sizeBytes": size} for name, size in images.items()]
        self.tree.setdefault("status", {})["images"] = found

    # -- pods

    @property
    def _containers(self) -> list[Tree]:
        found: list[Tree] = self.spec.setdefault("containers", [])
        return found

    def _Container(self, image: str) -> None:  # noqa: N802
        self._containers.append({"name": f"con{len(self._containers)}", "image": image})

    def _Containers(self, containers: list[Tree]) -> None:  # noqa: N802
        self.spec["containers"] = containers

    def _Node(self, name: str) -> None:  # noqa: N802
        self.spec["nodeName"] = name

    def _Priority(self, value: int) -> None:  # noqa: N802
        self.spec["priority"] = value

    def _SchedulerName(self, name: str) -> None:  # noqa: N802
        self.spec["schedulerName"] = name

    def _PreemptionPolicy(self, policy: str) -> None:  # noqa: N802
        self.spec["preemptionPolicy"] = policy

    def _Terminating(self) -> None:  # noqa: N802
        self.tree["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"

    def _ZeroTerminationGracePeriod(self) -> None:  # noqa: N802
        self.spec["terminationGracePeriodSeconds"] = 0

    def _NominatedNodeName(self, name: str) -> None:  # noqa: N802
        self.tree.setdefault("status", {})["nominatedNodeName"] = name

    def _Phase(self, phase: str) -> None:  # noqa: N802
        self.tree.setdefault("status", {})["phase"] = phase

    def _NodeSelector(self, labels: dict[str, str]) -> None:  # noqa: N802
        self.spec["nodeSelector"] = labels

    def _Toleration(self, key: str) -> None:  # noqa: N802
        self.spec.setdefault("tolerations", []).append({"key": key, "operator": "Exists"})

    def _Tolerations(self, tolerations: list[Tree]) -> None:  # noqa: N802
        self.spec["tolerations"] = tolerations

    def _SchedulingGates(self, gates: list[str]) -> None:  # noqa: N802
        self.spec["schedulingGates"] = [{"name": name} for name in gates]

    def _HostPort(self, port: int) -> None:  # noqa: N802
        self._containers.append(
            {"name": f"con{len(self._containers)}", "image": "pause", "ports": [{"hostPort": port}]}
        )

    def _ContainerPort(self, ports: list[Tree]) -> None:  # noqa: N802
        self._containers.append({"name": f"con{len(self._containers)}", "image": "pause", "ports": ports})

    def _InitContainerPort(self, sidecar: bool, ports: list[Tree]) -> None:  # noqa: N802
        found = {"name": "init", "image": "pause", "ports": ports}
        self.spec.setdefault("initContainers", []).append(found | ({"restartPolicy": "Always"} if sidecar else {}))

    def _Req(self, amounts: dict[str, str] | None) -> None:  # noqa: N802
        if amounts:
            name = f"con{len(self._containers)}"
            self._containers.append({"name": name, "image": "pause", "resources": {"requests": _texts(amounts)}})

    def _Res(self, amounts: dict[str, str] | None) -> None:  # noqa: N802
        if amounts:
            resources = {"requests": _texts(amounts), "limits": _texts(amounts)}
            self._containers.append({"name": f"con{len(self._containers)}", "image": "pause", "resources": resources})

    def _InitReq(self, amounts: dict[str, str]) -> None:  # noqa: N802
        found = {"name": "init", "image": "pause", "resources": {"requests": _texts(amounts)}}
        self.spec.setdefault("initContainers", []).append(found)

    def _SidecarReq(self, amounts: dict[str, str]) -> None:  # noqa: N802
        self._InitReq(amounts)
        self.spec["initContainers"][-1]["restartPolicy"] = "Always"

    def _PodLevelResourceRequests(self, amounts: dict[str, str]) -> None:  # noqa: N802
        self.spec["resources"] = {"requests": _texts(amounts)}

    def _Overhead(self, amounts: dict[str, str]) -> None:  # noqa: N802
        self.spec["overhead"] = _texts(amounts)

    def _PVC(self, name: str) -> None:  # noqa: N802
        volumes = self.spec.setdefault("volumes", [])
        volumes.append({"name": f"vol{len(volumes)}", "persistentVolumeClaim": {"claimName": name}})

    def _Volume(self, volume: Tree) -> None:  # noqa: N802
        volumes = self.spec.setdefault("volumes", [])
        volumes.append({"name": f"vol{len(volumes)}", **volume})

    def _Volumes(self, volumes: list[Tree]) -> None:  # noqa: N802
        self.spec["volumes"] = volumes

    def _NodeAffinityIn(self, key: str, values: list[str], field: str = "matchExpressions") -> None:  # noqa: N802
        if self._kind == "PersistentVolume":
            terms = [{"matchExpressions": [{"key": key, "operator": "In", "values": values}]}]
            self.spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": terms}}
            return
        self._require({field: [{"key": key, "operator": "In", "values": values}]})

    def _NodeAffinityNotIn(self, key: str, values: list[str]) -> None:  # noqa: N802
        self._require({"matchExpressions": [{"key": key, "operator": "NotIn", "values": values}]})

    def _require(self, term: Tree) -> None:
        affinity = self.spec.setdefault("affinity", {}).setdefault("nodeAffinity", {})
        affinity["requiredDuringSchedulingIgnoredDuringExecution"] = {"nodeSelectorTerms": [term]}

    def _pod_affinity(self, field: str, topology: str, selector: Tree, kind: str) -> None:
        term = {"topologyKey": topology, "labelSelector": selector}
        holder = self.spec.setdefault("affinity", {}).setdefault(field, {})
        if "RequiredReq" in kind or "RequiredPreferred" in kind:
            holder.setdefault("requiredDuringSchedulingIgnoredDuringExecution", []).append(term)
        if "PreferredReq" in kind or "RequiredPreferred" in kind:
            weighted = {"weight": 1, "podAffinityTerm": term}
            holder.setdefault("preferredDuringSchedulingIgnoredDuringExecution", []).append(weighted)

    def _PodAffinity(self, topology: str, selector: Tree, kind: str) -> None:  # noqa: N802
        self._pod_affinity("podAffinity", topology, selector, kind)

    def _PodAntiAffinity(self, topology: str, selector: Tree, kind: str) -> None:  # noqa: N802
        self._pod_affinity("podAntiAffinity", topology, selector, kind)

    def __getattr__(self, name: str) -> Any:
        """Build the eight methods such as `PodAntiAffinityNotIn` from their parts."""
        match = re.fullmatch(r"_(Pod(?:Anti)?Affinity)(NotExists|Exists|NotIn|In)", name)
        if match is None:
            raise AttributeError(name)
        field = json_name(match[1])
        operator = {"NotExists": "DoesNotExist"}.get(match[2], match[2])

        def build(key: str, topology: str, *rest: Any) -> None:
            values = {"values": rest[0]} if operator in ("In", "NotIn") else {}
            selector = {"matchExpressions": [{"key": key, "operator": operator, **values}]}
            self._pod_affinity(field, topology, selector, rest[-1])

        return build

    def _SpreadConstraint(self, skew: int, key: str, action: str, selector: Tree, *rest: Any) -> None:  # noqa: N802
        names = ("minDomains", "nodeAffinityPolicy", "nodeTaintsPolicy", "matchLabelKeys")
        optional = {name: value for name, value in zip(names, rest, strict=False) if value is not None}
        found = {
            "maxSkew": skew,
            "topologyKey": key,
            "whenUnsatisfiable": action,
            "labelSelector": selector,
            **optional,
        }
        self.spec.setdefault("topologySpreadConstraints", []).append(found)

    # -- storage

    def _VolumeName(self, name: str) -> None:  # noqa: N802
        self.spec["volumeName"] = name

    def _AccessModes(self, modes: list[str]) -> None:  # noqa: N802
        self.spec["accessModes"] = modes

    def _Resources(self, resources: Tree) -> None:  # noqa: N802
        self.spec["resources"] = resources

    def _StorageClassName(self, name: str) -> None:  # noqa: N802
        self.spec["storageClassName"] = name

    def _PersistentVolume_Capacity(self, capacity: Tree) -> None:  # noqa: N802
        self.spec["capacity"] = capacity

    def _HostPathVolumeSource(self, source: Tree) -> None:  # noqa: N802
        self.spec["hostPath"] = source

    def _PersistentVolumeSource(self, source: Tree) -> None:  # noqa: N802
        self.spec.update(source)

    def _VolumeBindingMode(self, mode: str) -> None:  # noqa: N802
        self.tree["volumeBindingMode"] = mode

    def _Provisioner(self, name: str) -> None:  # noqa: N802
        self.tree["provisioner"] = name

    def _AllowedTopologies(self, terms: list[Tree]) -> None:  # noqa: N802
        self.tree["allowedTopologies"] = terms

    def _Driver(self, driver: Tree) -> None:  # noqa: N802
        self.spec.setdefault("drivers", []).append(driver)

    # -- disruption budgets

    def _MinAvailable(self, value: str) -> None:  # noqa: N802
        self.spec["minAvailable"] = value

    def _MatchLabel(self, key: str, value: str) -> None:  # noqa: N802
        self.spec.setdefault("selector", {}).setdefault("matchLabels", {})[key] = value

    def _StorageCapacity(self, value: bool) -> None:  # noqa: N802
        self.spec["storageCapacity"] = value

    def _CSIStorageCapacity_StorageClassName(self, name: str) -> None:  # noqa: N802
        self.tree["storageClassName"] = name

    def _CSIStorageCapacity_Capacity(self, capacity: str) -> None:  # noqa: N802
        self.tree["capacity"] = capacity

    def _NodeName(self, name: str) -> None:  # noqa: N802
        self.spec["nodeName"] = name

    def _Attacher(self, name: str) -> None:  # noqa: N802
        self.spec["attacher"] = name

    def _Source(self, source: Tree) -> None:  # noqa: N802
        self.spec["source"] = source

    def _Attached(self, value: bool) -> None:  # noqa: N802
        self.tree["status"] = {"attached": value}

    def _DisruptionsAllowed(self, number: int) -> None:  # noqa: N802
        self.tree.setdefault("status", {})["disruptionsAllowed"] = number


def _texts(amounts: Mapping[str, Any]) -> dict[str, str]:
    return {key: str(value) for key, value in amounts.items()}
