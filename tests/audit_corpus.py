"""Two hundred manifests that use gated features, or nearly do, and what of it an audit has to find.

    for case in corpus(): case.tree, case.uses

A manifest is a kind and some ingredients. Each ingredient knows the fields by which it uses something; the near-misses
look like uses and are none. The same seed gives the same manifests.
"""

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from mooring.advisor.audit.results import COMPATIBILITY
from mooring.base.known_gates import (
    CEL,
    COMPARISON_OPERATORS,
    LABEL_KEYS_IN_POD_AFFINITY,
    LABEL_KEYS_IN_SPREAD,
    NODE_INCLUSION_POLICY,
    POD_LEVEL_RESOURCES,
    SEMVER_OPERATORS,
)

SEED, SIZE = 9, 200
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
Tree = dict[str, Any]
Use = tuple[str, str]
"""A feature and the path of a field."""
Spice = Callable[[Tree, random.Random], list[Use]]
"""Puts something into a PodSpec; the paths of what it uses, from the PodSpec on."""


@dataclass
class Case:
    """A manifest, and what it uses."""

    tree: Tree
    uses: set[Use] = field(default_factory=set)

    @property
    def id(self) -> str:
        return f"{self.tree['kind']} {self.tree['metadata']['name']}"


def _append(spec: Tree, item: Tree, *path: str) -> str:
    """Append to a list in the spec, making what is on the way; the path of the item."""
    for step in path[:-1]:
        spec = spec.setdefault(step, {})
    items = spec.setdefault(path[-1], [])
    items.append(item)
    return f"{'.'.join(path)}[{len(items) - 1}]"


def _required(spec: Tree, term: Tree) -> str:
    return _append(spec, term, "affinity", "nodeAffinity", REQUIRED, "nodeSelectorTerms")


def _preferred(spec: Tree, term: Tree) -> str:
    path = _append(spec, {"weight": 5, "preference": term}, "affinity", "nodeAffinity", PREFERRED)
    return f"{path}.preference"


def _node_terms(spec: Tree, lot: random.Random, term: Tree) -> str:
    return (_required if lot.random() < 0.6 else _preferred)(spec, term)


# -- what uses something


def numeric_toleration(spec: Tree, lot: random.Random) -> list[Use]:
    operator, value = lot.choice(["Lt", "Gt"]), str(lot.randrange(-5, 1000))
    path = _append(spec, {"key": "sla", "operator": operator, "value": value}, "tolerations")
    return [(COMPARISON_OPERATORS, f"{path}.operator")]


def semver_toleration(spec: Tree, lot: random.Random) -> list[Use]:
    operator = lot.choice(["SemverLt", "SemverGt", "SemverEq"])
    path = _append(spec, {"key": "cni", "operator": operator, "value": "v1.2.3", "effect": "NoSchedule"}, "tolerations")
    return [(SEMVER_OPERATORS, f"{path}.operator")]


def expression_toleration(spec: Tree, lot: random.Random) -> list[Use]:
    text = lot.choice(["taint.key == 'a'", "taint.value.startsWith('x')", "semver.compare(taint.value, '>=1.2')"])
    return [(CEL, f"{_append(spec, {'expression': text}, 'tolerations')}.expression")]


def newer_function(spec: Tree, lot: random.Random) -> list[Use]:
    path = _append(spec, {"expression": f"[16, {lot.randrange(99)}].includes(int(taint.value))"}, "tolerations")
    return [(CEL, f"{path}.expression"), (COMPATIBILITY, f"{path}.expression")]


def semver_affinity(spec: Tree, lot: random.Random) -> list[Use]:
    entry = {"key": "kernel", "operator": lot.choice(["SemverLt", "SemverGt", "SemverEq"]), "values": ["5.10.0"]}
    path = _node_terms(spec, lot, {"matchExpressions": [{"key": "os", "operator": "Exists"}, entry]})
    return [(SEMVER_OPERATORS, f"{path}.matchExpressions[1].operator")]


def expression_affinity(spec: Tree, lot: random.Random) -> list[Use]:
    path = _node_terms(spec, lot, {"matchCELExpressions": ["'gpu' in node.labels", "node.labels['a'] == 'b'"]})
    return [(CEL, f"{path}.matchCELExpressions[{index}]") for index in range(2)]


def label_keys(spec: Tree, lot: random.Random) -> list[Use]:
    which = lot.choice(["matchLabelKeys", "mismatchLabelKeys"])
    term = {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "x"}}, which: ["tenant"]}
    kind = lot.choice(["podAffinity", "podAntiAffinity"])
    if lot.random() < 0.5:
        return [(LABEL_KEYS_IN_POD_AFFINITY, f"{_append(spec, term, 'affinity', kind, REQUIRED)}.{which}")]
    path = _append(spec, {"weight": 1, "podAffinityTerm": term}, "affinity", kind, PREFERRED)
    return [(LABEL_KEYS_IN_POD_AFFINITY, f"{path}.podAffinityTerm.{which}")]


def spread_keys(spec: Tree, lot: random.Random) -> list[Use]:
    path = _spread(spec, lot, {"matchLabelKeys": ["revision"]})
    return [(LABEL_KEYS_IN_SPREAD, f"{path}.matchLabelKeys")]


def spread_policy(spec: Tree, lot: random.Random) -> list[Use]:
    which = lot.choice(["nodeAffinityPolicy", "nodeTaintsPolicy"])
    return [(NODE_INCLUSION_POLICY, f"{_spread(spec, lot, {which: 'Honor'})}.{which}")]


def whole_pod(spec: Tree, lot: random.Random) -> list[Use]:
    if "resources" in spec:
        return []
    spec["resources"] = {"requests": {"cpu": f"{lot.randrange(1, 9)}"}}
    return [(POD_LEVEL_RESOURCES, "resources")]


def newer_field(spec: Tree, lot: random.Random) -> list[Use]:
    if "hostnameOverride" in spec or "securityContext" in spec:
        return []
    if lot.random() < 0.5:
        spec["hostnameOverride"] = "other"
        return [(COMPATIBILITY, "hostnameOverride")]
    spec["securityContext"] = {"supplementalGroupsPolicy": "Strict"}
    return [(COMPATIBILITY, "securityContext.supplementalGroupsPolicy")]


def _spread(spec: Tree, lot: random.Random, more: Tree) -> str:
    key = f"zone-{len(spec.get('topologySpreadConstraints', []))}"
    base = {"maxSkew": lot.randrange(1, 4), "topologyKey": key, "whenUnsatisfiable": "DoNotSchedule"}
    return _append(spec, base | {"labelSelector": {"matchLabels": {"app": "x"}}} | more, "topologySpreadConstraints")


# -- what only looks like it


def old_node_operators(spec: Tree, lot: random.Random) -> list[Use]:
    entry = {"key": "cores", "operator": lot.choice(["Gt", "Lt"]), "values": ["8"]}
    _node_terms(spec, lot, {"matchExpressions": [entry]})
    return []


def plain_toleration(spec: Tree, lot: random.Random) -> list[Use]:
    value = lot.choice(["Gt", "950", "SemverGt", "v1.2.3", "expression"])
    _append(spec, {"key": "Gt", "operator": "Equal", "value": value}, "tolerations")
    _append(spec, {"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 3600}, "tolerations")
    return []


def version_by_name(spec: Tree, lot: random.Random) -> list[Use]:
    entry = {"key": "SemverGt", "operator": lot.choice(["In", "NotIn"]), "values": ["1.2.3", "matchCELExpressions"]}
    _node_terms(spec, lot, {"matchExpressions": [entry], "matchFields": [_by_name(lot)]})
    return []


def _by_name(lot: random.Random) -> Tree:
    return {"key": "metadata.name", "operator": lot.choice(["In", "NotIn"]), "values": ["node-1"]}


def plain_pod_affinity(spec: Tree, lot: random.Random) -> list[Use]:
    entry = {"key": "matchLabelKeys", "operator": lot.choice(["In", "NotIn"]), "values": ["tenant"]}
    term = {"topologyKey": "zone", "labelSelector": {"matchExpressions": [entry]}}
    _append(spec, term, "affinity", lot.choice(["podAffinity", "podAntiAffinity"]), REQUIRED)
    return []


def plain_spread(spec: Tree, lot: random.Random) -> list[Use]:
    _spread(spec, lot, {"minDomains": 2})
    return []


def words_elsewhere(spec: Tree, lot: random.Random) -> list[Use]:
    spec["containers"][0]["env"] = [
        {"name": "EXPRESSION", "value": "taint.key == 'a'"},
        {"name": "OPERATOR", "value": "Gt"},
    ]
    spec["nodeSelector"] = {"matchLabelKeys": lot.choice(["Gt", "Lt"])}
    return []


def container_resources(spec: Tree, lot: random.Random) -> list[Use]:
    spec["containers"][0]["resources"] = {"requests": {"cpu": f"{lot.randrange(1, 9)}"}}
    return []


USES: tuple[Spice, ...] = (
    numeric_toleration,
    semver_toleration,
    expression_toleration,
    newer_function,
    semver_affinity,
    expression_affinity,
    label_keys,
    spread_keys,
    spread_policy,
    whole_pod,
    newer_field,
)
NEAR_MISSES: tuple[Spice, ...] = (
    old_node_operators,
    plain_toleration,
    version_by_name,
    plain_pod_affinity,
    plain_spread,
    words_elsewhere,
    container_resources,
)

# -- kinds

LABELS = {"tenant": "t", "revision": "r"}


def _pod_spec(lot: random.Random, spices: list[Spice]) -> tuple[Tree, list[Use]]:
    spec: Tree = {"containers": [{"name": "c", "image": "registry.example/c:1"}]}
    return spec, [use for spice in spices for use in spice(spec, lot)]


def _template(spec: Tree, labels: Tree) -> Tree:
    return {"metadata": {"labels": labels | LABELS}, "spec": spec}


KINDS: dict[str, tuple[str, str, Callable[[Tree, Tree], Tree]]] = {
    "Pod": ("v1", "spec", lambda spec, _: {"spec": spec}),
    "ReplicationController": (
        "v1",
        "spec.template.spec",
        lambda spec, labels: {"spec": {"selector": labels, "template": _template(spec, labels)}},
    ),
    "Deployment": (
        "apps/v1",
        "spec.template.spec",
        lambda spec, labels: {
            "spec": {"replicas": 2, "selector": {"matchLabels": labels}, "template": _template(spec, labels)}
        },
    ),
    "ReplicaSet": (
        "apps/v1",
        "spec.template.spec",
        lambda spec, labels: {
            "spec": {"replicas": 1, "selector": {"matchLabels": labels}, "template": _template(spec, labels)}
        },
    ),
    "StatefulSet": (
        "apps/v1",
        "spec.template.spec",
        lambda spec, labels: {
            "spec": {"serviceName": "x", "selector": {"matchLabels": labels}, "template": _template(spec, labels)}
        },
    ),
    "DaemonSet": (
        "apps/v1",
        "spec.template.spec",
        lambda spec, labels: {"spec": {"selector": {"matchLabels": labels}, "template": _template(spec, labels)}},
    ),
    "Job": (
        "batch/v1",
        "spec.template.spec",
        lambda spec, labels: {"spec": {"template": _template(_ending(spec), labels)}},
    ),
    "CronJob": (
        "batch/v1",
        "spec.jobTemplate.spec.template.spec",
        lambda spec, labels: {
            "spec": {"schedule": "0 3 * * *", "jobTemplate": {"spec": {"template": _template(_ending(spec), labels)}}}
        },
    ),
}
"""Kinds with pods: their apiVersion, the path of the PodSpec, and how it is wrapped."""


def _ending(spec: Tree) -> Tree:
    return spec | {"restartPolicy": "Never"}


def _with_pods(kind: str, name: str, lot: random.Random) -> Case:
    api_version, path, wrap = KINDS[kind]
    spices = lot.sample(NEAR_MISSES, lot.randrange(0, 3))
    if lot.random() < 0.7:
        spices += lot.choices(USES, k=lot.randrange(1, 4))
    lot.shuffle(spices)
    spec, uses = _pod_spec(lot, spices)
    labels = {"app": name}
    metadata: Tree = {"name": name, "labels": labels | LABELS, "annotations": {"note": "matchLabelKeys Gt expression"}}
    tree = {"apiVersion": api_version, "kind": kind, "metadata": metadata, **wrap(spec, labels)}
    return Case(tree, {(feature, f"{path}.{place}") for feature, place in uses})


def _volume(name: str, lot: random.Random) -> Case:
    path = "spec.nodeAffinity.required.nodeSelectorTerms[0]"
    choice = lot.randrange(3)
    if choice == 0:
        term: Tree = {"matchExpressions": [{"key": "kernel", "operator": "SemverGt", "values": ["5.10.0"]}]}
        uses = {(SEMVER_OPERATORS, f"{path}.matchExpressions[0].operator")}
    elif choice == 1:
        term = {"matchCELExpressions": ["'fast' in node.labels"]}
        uses = {(CEL, f"{path}.matchCELExpressions[0]")}
    else:
        term, uses = {"matchExpressions": [{"key": "disks", "operator": "Gt", "values": ["2"]}]}, set()
    spec = {
        "capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteOnce"],
        "persistentVolumeReclaimPolicy": "Retain",
        "hostPath": {"path": "/data"},
        "nodeAffinity": {"required": {"nodeSelectorTerms": [term]}},
    }
    return Case({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name}, "spec": spec}, uses)


def _claim(name: str, lot: random.Random, *, template: bool) -> Case:
    toleration = lot.choice(
        [{"key": "sla", "operator": "Gt", "value": "9"}, {"key": "Gt", "operator": "Equal", "value": "Lt"}]
    )
    request = {"name": "gpu", "exactly": {"deviceClassName": "gpu.example", "tolerations": [toleration]}}
    claim = {"devices": {"requests": [request]}}
    path = "spec.spec" if template else "spec"
    here = f"{path}.devices.requests[0].exactly.tolerations"
    uses = {(COMPATIBILITY, here)}  # claims have had tolerations since 1.33
    if toleration["operator"] == "Gt":
        uses.add((COMPARISON_OPERATORS, f"{here}[0].operator"))
    kind = "ResourceClaimTemplate" if template else "ResourceClaim"
    tree = {"apiVersion": "resource.k8s.io/v1", "kind": kind, "metadata": {"name": name}}
    return Case(tree | {"spec": {"spec": claim} if template else claim}, uses)


def _other(name: str, lot: random.Random) -> Case:
    """Kinds in which nothing can be used, whatever words they have."""
    choice = lot.randrange(3)
    if choice == 0:
        taint = {"key": "sla", "value": lot.choice(["950", "v1.2.3", "Gt"]), "effect": "NoSchedule"}
        return Case({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "spec": {"taints": [taint]}})
    if choice == 1:
        text = "tolerations:\n- key: a\n  operator: Gt\n  value: '1'\n"
        return Case({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"pod.yaml": text}})
    spec = {"selector": {"operator": "Gt", "expression": "matchLabelKeys"}, "ports": [{"port": 80}]}
    return Case({"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": spec})


def corpus(size: int = SIZE, seed: int = SEED) -> Iterator[Case]:
    """Yield the manifests."""
    lot = random.Random(seed)
    kinds = [*KINDS, "PersistentVolume", "ResourceClaim", "ResourceClaimTemplate", "other"]
    for number in range(size):
        kind, name = kinds[number % len(kinds)], f"case-{number:03d}"
        match kind:
            case "PersistentVolume":
                yield _volume(name, lot)
            case "ResourceClaim" | "ResourceClaimTemplate":
                yield _claim(name, lot, template=kind.endswith("Template"))
            case "other":
                yield _other(name, lot)
            case _:
                yield _with_pods(kind, name, lot)
